"""Indexes that come and go: `create_index`, `drop_index` and `indexes` of a table of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from duramen.client.rows.opened_rows import OpenedRows
from log_tier.model.errors import InvalidRequest
from log_tier.rows.alter_table import IndexChange
from log_tier.rows.definition import TableDefinition

__all__ = ["IndexState", "RowIndexes", "index_states", "new_index"]

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class IndexState:
    """An ordered index of a table."""

    name: str
    fields: tuple[str, ...]
    """What it sorts by."""
    in_service: bool
    """False: it is being built, and no find reads it yet."""


class RowIndexes(OpenedRows[R]):
    """The half of a table of rows that gives it indexes."""

    async def create_index(self, name: str, *fields: str, timeout: float | None = None) -> None:
        """Give the table an ordered index; return when finds are answered by it in every partition:
        `create_index("by_tail", "tailnum", "dep_delay")`.

        `fields` in the order in which they sort; `origin.code` is a field inside the record `origin`. The table may
        have rows, and may be written and read meanwhile: each replica puts its rows in between the writes, some 8 µs
        for each. The same index again changes nothing, and waits for one that is being built. It may take long on a
        large table; with a `timeout` that is too short it goes on by itself.

        Raises `InvalidSchema` for a field that rows of some schema of the table do not have or that does not sort, and
        where another index has the name; `CommandRejected` where another change of the table is under way, which it
        names; `DeadlineExceeded` where it is not done in time, `Unavailable` where it failed, for instance since a row
        is too long for an entry: ask again when that is mended, or drop the index.
        """
        await self._change(new_index(name, fields), timeout)

    async def drop_index(self, name: str, *, timeout: float | None = None) -> None:
        """Take an index away; one that is being built is given up. Finds that it served are refused from then on.

        Raises `InvalidRequest` where there is none of that name, and what `create_index` does.
        """
        await self._change(IndexChange(name), timeout)

    async def indexes(self, *, timeout: float | None = None) -> list[IndexState]:
        """The table's indexes, in the order in which they were made. One request."""
        return index_states((await self.renewed_codec(timeout)).definition)

    async def _change(self, change: IndexChange, timeout: float | None) -> None:
        await self._opened(timeout)
        await self._found_in.lookup.change_indexes(change, timeout)
        await self.renewed_codec(timeout)


def new_index(name: str, fields: tuple[str, ...]) -> IndexChange:
    """A change that gives a table an index. Raises `InvalidRequest`."""
    if not fields or not all(isinstance(each, str) and each for each in fields):
        raise InvalidRequest(f"the index {ascii(name)[:60]} sorts by names of fields, not {ascii(fields)[:80]}")
    return IndexChange(name, fields)


def index_states(definition: TableDefinition) -> list[IndexState]:
    """The indexes of a definition."""
    building = definition.history.building
    return [IndexState(each.name, each.fields, each.number not in building) for each in definition.indexes]
