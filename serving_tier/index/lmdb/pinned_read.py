"""A pinned read: a read transaction of an LMDB index that stays open while the index goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import lmdb

from log_tier.model.identifiers import Offset
from serving_tier.index.pins import Pins

__all__ = ["PinnedRead"]


class PinnedRead:
    """Everything that an index held at one applied offset. Used by one thread at a time; `close()` it soon.

    The pages that it sees are not used again while it is open, so the file grows by what is written meanwhile.
    """

    def __init__(
        self,
        txn: Any,
        pins: Pins,
        *,
        applied: Offset,
        log_time_ms: int,
        troubles: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """`pins`: the index's `readers`, of which it holds one already."""
        self._txn = txn
        self._pins = pins
        self._troubles = troubles
        self.closed = False
        self.applied = applied
        """The applied offset that it shows."""
        self.log_time_ms = log_time_ms
        """The log time by which expiries are judged, in ms since 1970."""

    def pairs(self) -> Iterator[tuple[bytes, bytes]]:
        """Every key with its stored form, expired ones included, in key order. 0.15 µs each.

        Raises `IndexDamaged`.
        """
        try:
            yield from self._txn.cursor().iternext()
        except lmdb.Error as error:
            with self._troubles():
                raise error

    def close(self) -> None:
        """End the read transaction. Idempotent."""
        if self.closed:
            return
        self.closed = True
        try:
            self._txn.abort()
        finally:
            self._pins.release()

    def __enter__(self) -> PinnedRead:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
