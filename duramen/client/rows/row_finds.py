"""Finding rows by their fields: `find` and `explain` of a table of rows."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from duramen.client.model.consistency import Level
from duramen.client.rows.opened_rows import FindsPages, OpenedRows
from duramen.client.rows.row_codec import RowCodec
from log_tier.model.errors import IndexBuilding, InvalidRequest, UnknownFormat
from log_tier.model.tokens import Token
from log_tier.rows.definition import TableDefinition
from log_tier.rows.finding.condition_words import words_of
from log_tier.rows.finding.conditions import given_by
from log_tier.rows.finding.find_planner import FindPlanner
from log_tier.rows.finding.found_range import FindPlan
from log_tier.rows.finding.row_filter import row_filter
from log_tier.rows.finding.row_sorter import RowSorter

__all__ = ["FindExplanation", "RowFinds", "explain_plan", "found_values", "plan_of"]

R = TypeVar("R")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FindExplanation:
    """How rows were found, and what it took."""

    index: str
    """The name of the index that was read; empty: the table's key."""
    fields: tuple[str, ...]
    """What it sorts by."""
    partitions: int
    """How many were asked."""
    entries: int
    """How many of its entries came over, each with its row."""
    rows: int
    """How many of those met all conditions."""
    looked_at: tuple[str, ...]
    """Fields whose conditions the index does not serve: each entry's row was looked at for them."""
    where: Mapping[str, Any] = field(default_factory=dict)
    """Which rows the index has, as `create_index` takes it; empty: all."""
    sorted_by: tuple[str, ...] = ()
    """The order that the client makes, since the index has another one; empty: the rows come in order."""

    def __str__(self) -> str:
        where = f" where {', '.join(words_of(self.where))}" if self.where else ""
        source = f"the index {self.index} ({', '.join(self.fields)}){where}" if self.index else "the table's key"
        looked = f", each looked at for {', '.join(self.looked_at)}" if self.looked_at else ""
        order = f", sorted by {', '.join(self.sorted_by)} when all have come" if self.sorted_by else ""
        read = f"{self.partitions} partitions asked, {self.entries} entries read{looked}, {self.rows} rows"
        return f"{source}: {read}{order}"


class RowFinds(OpenedRows[R]):
    """The finding half of a table of rows."""

    async def find(
        self,
        fields: Mapping[str, Any] | None = None,
        /,
        *,
        order: str | Sequence[str] | None = None,
        limit: int | None = None,
        after: str | Token | None = None,
        level: Level = "session",
        timeout: float | None = None,
        **conditions: Any,
    ) -> AsyncGenerator[R, None]:
        """The rows whose fields have these values, by the key or an ordered index: `find(tailnum="N14228",
        dep_delay=(60, None), order="-dep_delay", limit=20)`.

        A condition is a value, or a range (start, end): from `start` (inclusive) to `end` (exclusive), None for an open
        end. None sorts first, so a range without a start has it; NaN is in no range. `fields` is the same as a mapping,
        for fields inside others (`{"origin.code": "EWR"}`) and names that a parameter has. `order` names the fields
        that the rows are sorted by, with - in front to go down; without it they come as the index has them. Where no
        index that serves has that order, the client sorts: it reads all that meets the conditions before the first
        row comes, and holds `limit` rows, or all of them.

        The index with the most fields that are given a value serves, and each entry's row is looked at for conditions
        that it does not cover; `explain` says which one. Where values are given for all fields of `partition_by`, one
        partition is asked. The row's token is the index's: a find sees each row that a
        get at the same place would see. Consistency, `after`, `level` and `timeout` are those of `scan`. Cost: one
        request to each node for a page of up to 4,000 entries, some 1 µs an entry at a node. Raises what `scan` does,
        and `InvalidRequest`, which says what index would serve, where none does; `IndexBuilding` where that is being
        built.
        """
        asked = {**(fields or {}), **conditions}
        codec, timeout = await self._opened(timeout)
        codec, plan = await self.planned(codec, asked, order, limit, timeout)
        if plan.sort:
            for row in await self.sorted_rows(codec, plan, limit=limit, after=after, level=level, timeout=timeout):
                yield row
            return
        pages = self._found_in.find_pages(
            plan, limit=None if plan.rest else limit, after=after, level=level, timeout=timeout
        )
        left = limit
        async with aclosing(pages):
            async for page in pages:
                codec, rows = await self._decoded(codec, partial(_met_rows, plan, page), timeout)
                for row in rows[:left]:
                    yield row
                if left is not None:
                    left -= len(rows)
                    if left <= 0:
                        return

    async def sorted_rows(self, codec: RowCodec[R], plan: FindPlan, *, timeout: float | None, **how: Any) -> list[R]:
        """For the blocking API: the rows of a plan whose index has not the order. `how`: what `find` takes."""
        while True:
            values: list[bytes] = []
            try:
                pages = found_values(self._found_in, codec.definition, plan, timeout=timeout, **how)
                async with aclosing(pages):
                    async for page in pages:
                        values += page
                return list(map(codec.decode, values))
            except UnknownFormat as unknown:
                codec = await self.newer_codec(unknown, timeout)

    async def explain(
        self,
        fields: Mapping[str, Any] | None = None,
        /,
        *,
        order: str | Sequence[str] | None = None,
        limit: int | None = None,
        after: str | Token | None = None,
        level: Level = "session",
        timeout: float | None = None,
        **conditions: Any,
    ) -> FindExplanation:
        """What `find` with the same arguments does: it is done, and its rows are counted. Cost and errors are its."""
        asked = {**(fields or {}), **conditions}
        codec, timeout = await self._opened(timeout)
        codec, plan = await self.planned(codec, asked, order, limit, timeout)
        how: dict[str, Any] = {"limit": limit, "after": after, "level": level, "timeout": timeout}
        while True:
            try:
                return await explain_plan(self._found_in, codec.definition, plan, **how)
            except UnknownFormat as unknown:
                codec = await self.newer_codec(unknown, timeout)

    async def planned(
        self,
        codec: RowCodec[R],
        asked: Mapping[str, Any],
        order: str | Sequence[str] | None,
        limit: int | None,
        timeout: float | None,
    ) -> tuple[RowCodec[R], FindPlan]:
        """For the blocking API: the plan of a find. Where none serves, the table may have got an index since: one look
        at its definition decides. Raises `InvalidRequest`, `IndexBuilding`.
        """
        try:
            return codec, plan_of(codec.finds, asked, order, limit)
        except (InvalidRequest, IndexBuilding):
            renewed = await self.renewed_codec(timeout)
            if renewed.definition.number == codec.definition.number:
                raise
            return renewed, plan_of(renewed.finds, asked, order, limit)


def _met_rows(plan: FindPlan, page: Sequence[tuple[bytes, bytes]], codec: RowCodec[R]) -> list[R]:
    """The rows of a page that meet a plan's conditions."""
    meets = row_filter(plan.rest, codec.definition)
    return [codec.decode(value) for _, value in page if meets(value)]


def plan_of(
    planner: FindPlanner, asked: Mapping[str, Any], order: str | Sequence[str] | None, limit: int | None
) -> FindPlan:
    """The plan of a find. Raises `InvalidRequest`."""
    if limit is not None and (type(limit) is not int or limit < 0):
        raise InvalidRequest(f"limit is a whole number, at least 0, or None, not {limit!r}")
    return planner.plan(asked, order)


async def found_values(
    stored: FindsPages,
    definition: TableDefinition,
    plan: FindPlan,
    *,
    limit: int | None,
    after: str | Token | None,
    level: Level,
    timeout: float | None,
    counted: list[int] | None = None,
) -> AsyncGenerator[list[bytes], None]:
    """The stored rows that a plan finds, page by page. `counted`: its one number grows by the entries that come."""
    meets = row_filter(plan.rest, definition)
    sorter = RowSorter(plan, definition, limit) if plan.sort else None
    left = limit
    some = None if plan.rest or plan.sort else limit
    pages = stored.find_pages(plan, limit=some, after=after, level=level, timeout=timeout)
    async with aclosing(pages):
        async for page in pages:
            if counted is not None:
                counted[0] += len(page)
            if sorter is not None:
                sorter.add((entry, value) for entry, value in page if meets(value))
                continue
            values = [value for _, value in page if meets(value)][:left]
            yield values
            if left is not None:
                left -= len(values)
                if left == 0:
                    return
    if sorter is not None:
        yield sorter.values()


async def explain_plan(
    stored: FindsPages,
    definition: TableDefinition,
    plan: FindPlan,
    *,
    limit: int | None,
    after: str | Token | None,
    level: Level,
    timeout: float | None,
) -> FindExplanation:
    """Find the rows of a plan, and count them."""
    counted, rows = [0], 0
    pages = found_values(
        stored, definition, plan, limit=limit, after=after, level=level, timeout=timeout, counted=counted
    )
    async with aclosing(pages):
        async for page in pages:
            rows += len(page)
    key = definition.key if isinstance(definition.key, tuple) else ()
    index = definition.index_named(plan.index_name) if plan.index_name else None
    return FindExplanation(
        plan.index_name,
        tuple(each.name for each in key) if index is None else index.fields,
        await stored.lookup.partitions_asked(plan),
        counted[0],
        rows,
        tuple(each.path for each in plan.rest),
        {} if index is None else given_by(index.where),
        tuple(f"{'-' if plan.sort_reverse else ''}{each}" for each in plan.sort),
    )
