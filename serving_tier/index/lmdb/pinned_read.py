"""A pinned read: a read transaction of an LMDB index that stays open while the index goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import takewhile
from typing import Any

import lmdb

from log_tier.model.identifiers import Offset
from log_tier.model.kept_history import KeptHistory
from log_tier.rows.definition import TableDefinition
from log_tier.rows.table_index import TableIndex
from serving_tier.fold.index_builds import IndexBuilds
from serving_tier.fold.past import PastEntry, unpack_past
from serving_tier.index.lmdb.environment import Databases
from serving_tier.index.lmdb.format import BUILDS, DEFINITION, unpack_definition
from serving_tier.index.number_keys import number_key, number_of
from serving_tier.index.past.log_times import offset_at
from serving_tier.index.past.past_rows import HISTORY, unpack_history_start
from serving_tier.index.pins import Pins
from serving_tier.index.scan import index_bounds

__all__ = ["PinnedRead"]


class PinnedRead:
    """Everything that an index held at one applied offset. Used by one thread at a time; `close()` it soon.

    The pages that it sees are not used again while it is open, so the file grows by what is written meanwhile.
    """

    def __init__(
        self,
        txn: Any,
        databases: Databases,
        pins: Pins,
        *,
        applied: Offset,
        log_time_ms: int,
        troubles: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """`pins`: the index's `readers`, of which it holds one already."""
        self._txn = txn
        self._databases = databases
        self._pins = pins
        self._troubles = troubles
        self.closed = False
        self.applied = applied
        """The applied offset that it shows."""
        self.log_time_ms = log_time_ms
        """The log time by which expiries are judged, in ms since 1970."""

    def definition(self) -> tuple[TableDefinition | None, IndexBuilds]:
        """What keys and values are at that offset (None: bytes), and which ordered indexes the file does not hold
        whole. Raises `IndexDamaged`.
        """
        with self._troubles():
            meta = self._databases.meta
            return unpack_definition(self._txn.get(DEFINITION, db=meta)), IndexBuilds.unpack(
                self._txn.get(BUILDS, db=meta)
            )

    def stored(self, key: bytes) -> bytes | None:
        """The stored form of a key, expired or not. 1 µs. Raises `IndexDamaged`."""
        with self._troubles():
            row: bytes | None = self._txn.get(key)
            return row

    def entry(self, entry: bytes) -> bytes | None:
        """What is stored under an entry of an ordered index; None: it is not there. Raises `IndexDamaged`."""
        with self._troubles():
            found: bytes | None = self._txn.get(entry, db=self._databases.ordered)
            return found

    def entries(self, index: TableIndex) -> Iterator[tuple[bytes, bytes]]:
        """Every entry of an ordered index, with what is stored under it, in their order. Raises `IndexDamaged`."""
        first, behind = index_bounds(index, b"", None)
        cursor = self._txn.cursor(self._databases.ordered)
        try:
            if cursor.set_range(first):
                yield from takewhile(lambda pair: pair[0] < behind, cursor.iternext())
        except lmdb.Error as error:
            with self._troubles():
                raise error

    def pairs(self) -> Iterator[tuple[bytes, bytes]]:
        """Every key with its stored form, expired ones included, in key order. 0.15 µs each.

        Raises `IndexDamaged`.
        """
        try:
            yield from self._txn.cursor().iternext()
        except lmdb.Error as error:
            with self._troubles():
                raise error

    def past_begins(self, keeps: KeptHistory) -> Offset:
        """The first offset whose state the history has, of a table that keeps one. Raises `IndexDamaged`."""
        with self._troubles():
            row = self._txn.get(HISTORY, db=self._databases.meta)
            start = self.applied if row is None else unpack_history_start(row)
            if not keeps.age_ms:
                return start
            times = self._txn.cursor(self._databases.times)
            return max(start, offset_at(times, self.log_time_ms - keeps.age_ms, self.applied))

    def past_offsets(self) -> Iterator[tuple[bytes, Offset]]:
        """Every change that has a past entry: its key and its offset, in their order. Raises `IndexDamaged`."""
        try:
            for key, offset in self._txn.cursor(self._databases.past).iternext():
                yield key, Offset(number_of(offset))
        except lmdb.Error as error:
            with self._troubles():
                raise error

    def past_entry(self, offset: Offset) -> PastEntry | None:
        """What the change at an offset replaced; None: it has no past entry. Raises `IndexDamaged`."""
        with self._troubles():
            row = self._txn.get(number_key(offset), db=self._databases.history)
            return None if row is None else unpack_past(offset, row)

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
