"""GETs that follow each other: as many in one read transaction as make a reply of bounded size.

How long the next run may be follows from how large the values of the last one were. A run that turns out too large is
given up before more bytes are read than a run may have, and tried with an eighth of its keys. So what is read for a
pipeline is in proportion to what is sent, whatever is mixed in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from log_tier.model.errors import LimitExceeded
from router.endpoints.resp.data.local_reads import LocalReads, ReadableTable
from router.endpoints.resp.wire.limits import MGET_BYTES_MAX

__all__ = ["RUN_KEYS_MAX", "GetRuns"]

RUN_KEYS_MAX: Final = 1024
"""Some 0.5 ms for values that are short."""

_RUN_BYTES: Final = 1024 * 1024
"""What a run is planned to have: a millisecond of copying."""

_RUN_BYTES_MAX: Final = 2 * _RUN_BYTES

_KEYS_AT_FIRST: Final = 256


class GetRuns:
    """The runs of one connection."""

    __slots__ = ("_reads", "keys_max")

    def __init__(self, reads: LocalReads) -> None:
        self._reads = reads
        self.keys_max = _KEYS_AT_FIRST
        """As many keys the next run may have."""

    def answer(self, table: ReadableTable, keys: Sequence[bytes], null: bytes) -> tuple[bytes, int] | None:
        """The replies for the first keys and how many those are; None where the first is not to be had here and now.

        `keys`: one or more.
        """
        count = min(len(keys), self.keys_max)
        while True:
            try:
                bytes_max = _RUN_BYTES_MAX if count > 1 else MGET_BYTES_MAX
                replies = self._reads.values_within(table, keys[:count], null, bytes_max)
            except LimitExceeded:
                replies = None
                if count == 1:
                    return None
            if replies is not None:
                self.keys_max = max(1, min(4 * count, RUN_KEYS_MAX, _RUN_BYTES * count // max(1, len(replies))))
                return replies, count
            if count == 1:
                return None
            count = self.keys_max = max(1, count // 8)
