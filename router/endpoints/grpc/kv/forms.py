"""The text of a table's keys and values, for the calls that want it: its definition, looked up again where a row or a
request is of a newer one.

What has many bytes is read and written in a thread, one call at a time: a text takes some twenty times its bytes of
memory meanwhile. The calls of all users take turns for that.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Final, TypeVar

from log_tier.access.user_turns import ThreadTurns, turns_of_loop
from log_tier.concurrency.sized_work import AT_ONCE_ITEMS_MAX
from log_tier.model.errors import IndexBuilding, InvalidRequest, InvalidRow, UnknownFormat
from log_tier.model.table_ref import TableRef
from log_tier.rows.definition import NEWEST_SCHEMA
from log_tier.rows.json_rows.json_table import JsonTable
from router.data.seam import TableAdmin
from router.endpoints.grpc.kv.texts import unknown_schema
from router.proto import kv_pb2 as kv

__all__ = ["TEXT_ITEM_BYTES", "TableText", "TextForms"]

T = TypeVar("T")

TEXT_ITEM_BYTES: Final = 5
"""So many bytes of a row are text in some 3 µs."""

_AT_ONCE_BYTES: Final = 2048
"""A row of so many bytes is read or made in some 0.2 ms."""


class TextForms:
    """Makes the form of a call. One per server."""

    def __init__(self) -> None:
        self._turns: Final = turns_of_loop()

    async def of(self, admin: TableAdmin, table: TableRef, form: int, deadline: float) -> TableText | None:
        """The text of a table; None where the call's keys and values are as they are stored. `deadline` is on the event
        loop's clock.

        Raises `InvalidRequest` for a form that does not exist, `TableNotFound`.
        """
        if form in (kv.KV_FORM_UNSPECIFIED, kv.KV_FORM_STORED):
            return None
        if form != kv.KV_FORM_JSON:
            raise InvalidRequest(f"form is one of {', '.join(kv.KVForm.keys())}, not {form}")
        if not table.defined:
            return None
        definition = await admin.definition(table.id, timeout=_left_s(deadline))
        if definition is None:
            return None
        return TableText(admin, table, JsonTable(definition), deadline, self._turns)

    async def of_rows(self, admin: TableAdmin, table: TableRef, form: int, deadline: float) -> tuple[TableText, bool]:
        """The text of a table of rows, and whether a call with this form shows it. Raises `InvalidRequest`."""
        text = await self.of(admin, table, kv.KV_FORM_JSON, deadline)
        if text is None:
            raise InvalidRequest(f"the values of table {table.name} are bytes: rows alone are found by their fields")
        return text, await self.of(admin, table, form, deadline) is not None


class TableText:
    """The text of one table's keys and values, for one call."""

    def __init__(
        self, admin: TableAdmin, table: TableRef, form: JsonTable, deadline: float, turns: ThreadTurns
    ) -> None:
        self._admin = admin
        self._table = table
        self.form = form
        """By the newest definition that was needed so far."""
        self._deadline: float | None = deadline
        self._turns = turns

    def lasts(self) -> None:
        """The call is a stream without an end: each look at the catalog has the usual time from now on."""
        self._deadline = None

    async def stored(self, size: int, convert: Callable[[JsonTable], T]) -> T:
        """What a request of so many bytes is as it is stored. Where it does not fit, the definition is looked up at the
        catalog's end: another server may have just changed it.

        Raises `InvalidKey`, `InvalidRow`, `InvalidValue`, `InvalidRequest`.
        """
        try:
            return await self.converted(size, convert)
        except (InvalidRow, InvalidRequest, IndexBuilding):
            if not await self._learn(NEWEST_SCHEMA):
                raise
        return await self.converted(size, convert)

    async def converted(self, size: int, convert: Callable[[JsonTable], T]) -> T:
        """What `convert` gives for so many bytes."""
        form = self.form
        if size <= _AT_ONCE_BYTES:
            return convert(form)
        return await self._turns.run(size, lambda: convert(form))

    async def run_sized(self, items: int, work: Callable[[], T]) -> T:
        """What `work` on so many items of a page returns (see `items_of`): in a turn where they are many."""
        return work() if items <= AT_ONCE_ITEMS_MAX else await self._turns.run(items * TEXT_ITEM_BYTES, work)

    async def each_sized(self, items: int, made: Iterator[T]) -> AsyncIterator[T]:
        """What an iterator makes of so many items. Each takes a turn where they are many."""
        if items > AT_ONCE_ITEMS_MAX:
            async for each in self._turns.each(items * TEXT_ITEM_BYTES, made):
                yield each
        else:
            for each in made:
                yield each

    async def meet(self, values: Iterable[bytes | None]) -> None:
        """Know the schemas of these stored values. Raises `UnknownFormat` where the table does not have one."""
        number = unknown_schema(self.form, values)
        if number:
            await self.learn(number)

    async def learn(self, number: int) -> None:
        """Know a schema that somebody met. Raises `UnknownFormat` where the table does not have it."""
        await self._learn(number)
        if number not in {each.number for each in self.form.definition.schemas}:
            raise UnknownFormat(f"a stored row has schema {number}, which the table does not have", schema=number)

    async def _learn(self, number: int) -> bool:
        """Look for a definition with that schema; is there a newer one?"""
        left_s = _LOOK_S if self._deadline is None else _left_s(self._deadline)
        found = await self._admin.definition(self._table.id, schema=number, timeout=left_s)
        if found is None or found.number <= self.form.definition.number:
            return False
        self.form = JsonTable(found)
        return True


_LOOK_S: Final = 30.0
"""For a look at the catalog without a deadline of its own."""


def _left_s(deadline: float) -> float:
    return max(0.0, deadline - asyncio.get_running_loop().time())
