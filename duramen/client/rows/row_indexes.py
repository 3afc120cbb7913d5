"""Indexes that come and go: `create_index`, `drop_index` and `indexes` of a table of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, get_args

from duramen.client.rows.opened_rows import OpenedRows
from log_tier.model.errors import InvalidRequest
from log_tier.rows.alter_table import IndexChange
from log_tier.rows.definition import TableDefinition
from log_tier.rows.finding.conditions import conditions_of, given_by
from log_tier.rows.text_index import TEXT_KIND

__all__ = ["IndexKind", "IndexState", "RowIndexes", "index_states", "new_index"]

R = TypeVar("R")

IndexKind = Literal["ordered", "text"]
"""How an index finds rows: in the order of fields, or by the words of texts."""


@dataclass(frozen=True, slots=True)
class IndexState:
    """An index of a table."""

    name: str
    fields: tuple[str, ...]
    """What it sorts by, or whose words it has."""
    in_service: bool
    """False: it is being built, and no find reads it yet."""
    where: Mapping[str, Any] = field(default_factory=dict)
    """Which rows it has, as `create_index` takes it; empty: all."""
    unique: bool = False
    """No two of its rows have the same values of the fields."""
    kind: IndexKind = "ordered"


class RowIndexes(OpenedRows[R]):
    """The half of a table of rows that gives it indexes."""

    async def create_index(
        self,
        name: str,
        *fields: str | Sequence[str],
        where: Mapping[str, Any] | None = None,
        unique: bool = False,
        kind: IndexKind = "ordered",
        timeout: float | None = None,
    ) -> None:
        """Give the table an index, ordered or of texts; return when it is in service in every partition:
        `create_index("by_tail", "tailnum", "dep_delay")`.

        `fields` in the order in which they sort, each an argument or all in a list; `origin.code` is a field inside the
        record `origin`. The table may have rows, and may be written and read meanwhile: each replica puts its rows in
        between the writes, some 8 µs for each. The same index again changes nothing, and waits for one that is being
        built. It may take long on a large table; with a `timeout` that is too short it goes on by itself.

        `kind="text"`: `create_index("words", ["origin_name", "remark"], kind="text")` makes an index of the words in
        these fields, which hold texts or null; `search` asks it. Each replica builds its own, some 50 µs for each row,
        in a folder next to its rows, which holds them once more. The servers need the extra `text`.

        `where`: the index has those rows alone that meet all of these conditions, in the form of `find`:
        `create_index("late", "time_hour", where={"dep_delay": (60, None), "gate": None})`. A write of another row costs
        the index nothing. It serves finds that ask for no other rows, by the same or narrower conditions.

        `unique`: no two rows have the same values (`OrderedIndex`). Such an index comes with its table, in `indexes=`
        of `create_table`: here it may be asked for again, and `InvalidSchema` is raised where the table does not have
        it.

        Raises `InvalidSchema` for a field that rows of some schema of the table do not have or that does not sort, and
        where another index has the name; `InvalidRequest` for a condition that is none; `CommandRejected` where another
        change of the table is under way, which it names; `DeadlineExceeded` where it is not done in time,
        `Unavailable` where it failed, for instance since a row
        is too long for an entry: ask again when that is mended, or drop the index.
        """
        definition = (await self.renewed_codec(timeout)).definition if where else None
        await self._change(new_index(name, fields, where, definition, unique=unique, kind=kind), timeout)

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


def new_index(
    name: str,
    given: Sequence[str | Sequence[str]],
    where: Mapping[str, Any] | None = None,
    definition: TableDefinition | None = None,
    *,
    unique: bool = False,
    kind: str = "ordered",
) -> IndexChange:
    """A change that gives a table an index. `given`: its fields, or a list of them. `definition`: the table's, for
    `where`. Raises `InvalidRequest`.
    """
    if kind not in get_args(IndexKind):
        raise InvalidRequest(f"kind= is one of {', '.join(get_args(IndexKind))}, not {ascii(kind)[:40]}")
    listed = given[0] if len(given) == 1 and isinstance(given[0], list | tuple) else given
    fields: tuple[Any, ...] = tuple(listed)
    if not fields or not all(isinstance(each, str) and each for each in fields):
        raise InvalidRequest(f"the index {ascii(name)[:60]} sorts by names of fields, not {ascii(fields)[:80]}")
    if not isinstance(where, Mapping | None):
        raise InvalidRequest(f'where= maps fields to values or ranges, as {{"gate": None}}, not {ascii(where)[:60]}')
    conditions = conditions_of(where, definition or TableDefinition()) if where else ()
    if kind == TEXT_KIND and unique:
        raise InvalidRequest("a text index is of words, which many rows have: unique= is for ordered ones")
    return IndexChange(name, fields, conditions, bool(unique), TEXT_KIND if kind == TEXT_KIND else "")


def index_states(definition: TableDefinition) -> list[IndexState]:
    """The indexes of a definition."""
    building = definition.history.building
    found = [
        (
            each.number,
            IndexState(each.name, each.fields, each.number not in building, given_by(each.where), each.unique),
        )
        for each in definition.indexes
    ]
    found += [
        (each.number, IndexState(each.name, each.fields, each.number not in building, kind="text"))
        for each in definition.texts
    ]
    return [state for _, state in sorted(found, key=lambda each: each[0])]
