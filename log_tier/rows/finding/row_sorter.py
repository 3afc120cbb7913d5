"""Rows in an order that the index by which they were found has not."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nlargest, nsmallest
from typing import TypeAlias

from log_tier.rows.definition import TableDefinition
from log_tier.rows.finding.found_range import FindPlan
from log_tier.rows.finding.row_filter import row_elements

__all__ = ["RowSorter"]

_Sortable: TypeAlias = tuple[list[bytes], bytes, bytes]


class RowSorter:
    """Sorts the rows that a plan finds by the elements of `plan.sort`; rows that are alike in these, by their entries.

    Holds `limit` rows and those of one page, or all of them where there is no limit.
    """

    def __init__(self, plan: FindPlan, definition: TableDefinition, limit: int | None) -> None:
        self._elements = row_elements(plan.sort, definition)
        self._reverse = plan.sort_reverse
        self._limit = limit
        self._rows: list[_Sortable] = []

    def add(self, found: Iterable[tuple[bytes, bytes]]) -> None:
        """Take entries (or keys) and stored values of rows that are among those wanted. Some 2 µs a row. Raises
        `UnknownFormat`, with none of them taken, for a schema that the definition has not.
        """
        self._rows += [(self._elements(value), entry, value) for entry, value in found]
        if self._limit is not None and len(self._rows) > self._limit:
            self._rows = (nlargest if self._reverse else nsmallest)(self._limit, self._rows)

    def values(self) -> list[bytes]:
        """The stored values, in order."""
        return [value for _, _, value in sorted(self._rows, reverse=self._reverse)]
