"""What one row may have inside: how many values, and how deep."""

from __future__ import annotations

from typing import Final

from log_tier.rows.avro.varints import Misfit

__all__ = ["ROW_VALUES_MAX", "UNUSED_ROOM", "VALUE_DEPTH_MAX", "RowRoom"]

VALUE_DEPTH_MAX: Final = 64
"""Records, arrays and maps in each other. Readers of all languages are recursive."""

ROW_VALUES_MAX: Final = 65_536
"""Items of arrays and maps, their blocks, and fields of nested records. A row is folded in one piece, by each replica:
so many take 7 ms (booleans) to 60 ms (uuids as text), where 4 MiB of them took half a second and more (decision 88)."""


class RowRoom:
    """What a row that is being read still has room for. Each reading has its own."""

    __slots__ = ("depth", "values")

    def __init__(self) -> None:
        self.depth = 1
        """Of what is being read; the row itself is 1."""
        self.values = ROW_VALUES_MAX
        """That may still come. Invariant: not below 0."""

    def take(self, count: int) -> None:
        """Count values that come next. Raises `Misfit` where there are too many. O(1)."""
        if count > self.values:
            raise Misfit(
                f"the row has more than {ROW_VALUES_MAX} values in arrays, maps and nested records, which is its limit"
            )
        self.values -= count

    def enter(self) -> None:
        """One level deeper; who has read it lowers `depth` again. Raises `Misfit` where it is too deep."""
        self.depth += 1
        if self.depth > VALUE_DEPTH_MAX:
            raise Misfit(f"values are nested more than {VALUE_DEPTH_MAX} deep")


UNUSED_ROOM: Final = RowRoom()
"""For readers of plain types, which use none, and rows of such fields alone."""
