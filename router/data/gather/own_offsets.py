"""Which of a partition's newest offsets are one gatherer's own writes. Pure.

A caller reads a state, and writes under the condition that the keys it looked at are unchanged. Where every offset
between that state and the place that the log gave is the gatherer's own, no other writer has come in between. If its
own writes have left those keys alone, the fold is going to grant it, and nobody need wait for the fold.

    state that was read     what lies between      the write
            9                10  11  12 own         13         is granted
            9                10 own, 11 another's   12         is for the fold to decide
"""

from __future__ import annotations

from typing import Final

from log_tier.model.identifiers import NOTHING, Offset

__all__ = ["OwnOffsets"]

_NEVER: Final = Offset(1 << 62)


class OwnOffsets:
    """The newest offsets without a gap that are one gatherer's own, of one partition."""

    __slots__ = ("_end", "_first")

    def __init__(self) -> None:
        self._first = _NEVER
        self._end = NOTHING
        """The offset behind the last one. Invariant: those from `_first` up to it are its own."""

    def wrote(self, base: Offset, records: int) -> None:
        """The log gave these places to a batch that was sent once. O(1)."""
        if base != self._end:
            self._first = base
        self._end = Offset(base + records)

    def forget(self) -> None:
        """A batch was sent more than once, or nobody knows its place: it may lie twice in the log."""
        self._first, self._end = _NEVER, NOTHING

    def reach(self, after: Offset, before: Offset) -> bool:
        """Are all offsets between these two, both exclusive, its own? True where there are none. O(1)."""
        return after + 1 == before or (self._first <= after + 1 and self._end == before)
