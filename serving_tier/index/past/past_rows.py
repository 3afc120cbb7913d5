"""The databases of a history, and the rows that are not past entries; those are in `serving_tier.fold.past`.

They are drawn in `serving_tier.index.lmdb.format`, with what else lies in an index's file.
"""

from __future__ import annotations

import struct
from typing import Any, Final, Protocol

from log_tier.model.identifiers import Offset

__all__ = [
    "HISTORY",
    "PastDatabases",
    "pack_history_start",
    "pack_time",
    "unpack_history_start",
    "unpack_time",
]

HISTORY: Final = b"history"
"""The row of `meta`: the offset of the first state that is known."""

_ROW: Final = struct.Struct("<q")


class PastDatabases(Protocol):
    """Handles of an index's databases."""

    @property
    def data(self) -> Any: ...
    @property
    def meta(self) -> Any: ...
    @property
    def history(self) -> Any: ...
    @property
    def past(self) -> Any: ...
    @property
    def times(self) -> Any: ...
    @property
    def lapsed(self) -> Any: ...
    @property
    def lapses(self) -> Any: ...


def pack_history_start(offset: Offset) -> bytes:
    """The row `history` of `meta`: the first state of the past that is known."""
    return _ROW.pack(offset)


def unpack_history_start(row: bytes) -> Offset:
    """Read it. Raises `struct.error`."""
    return Offset(_ROW.unpack(row)[0])


def pack_time(log_time_ms: int) -> bytes:
    """A row of `times`."""
    return _ROW.pack(log_time_ms)


def unpack_time(row: bytes) -> int:
    """Read it."""
    return int(_ROW.unpack(row)[0])
