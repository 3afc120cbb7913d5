"""From offsets to the log's time and back, for the past of a table: `times` has a row for each batch that raised it.

The functions read inside a transaction of the caller, and raise what LMDB raises.
"""

from __future__ import annotations

from typing import Any

from log_tier.model.identifiers import NOTHING, Offset
from serving_tier.index.number_keys import number_key, number_of
from serving_tier.index.past.past_rows import unpack_time

__all__ = ["offset_at", "time_at"]


def time_at(cursor: Any, offset: int) -> int:
    """The log time, in ms since 1970, of the state at an offset; 0 where that is not known any more. `cursor`: of
    `times`. One lookup.
    """
    if offset < 0:
        return 0
    if cursor.set_range(number_key(offset)):
        if number_of(cursor.key()) == offset:
            return unpack_time(cursor.value())
        placed = cursor.prev()
    else:
        placed = cursor.last()
    return unpack_time(cursor.value()) if placed else 0


def offset_at(cursor: Any, time_ms: int, applied: Offset) -> Offset:
    """The last offset up to `applied` whose state is not later than a time; `NOTHING` where all that is known is later.
    O(log `applied`) lookups.
    """
    first, behind = NOTHING, applied + 1  # the state at `first` is not later; that at `behind` is, or is not there
    while behind - first > 1:
        middle = (first + behind) // 2
        if time_at(cursor, middle) <= time_ms:
            first = Offset(middle)
        else:
            behind = middle
    return first
