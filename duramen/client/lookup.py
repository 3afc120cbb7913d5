"""From a table's name to the table: found by the first call that needs it, forgotten when it was dropped."""

from __future__ import annotations

from collections.abc import Awaitable
from copy import copy
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from duramen.client.context import ClientContext
from duramen.client.model.consistency import Asked, AsOf, Level, asked_of, check_level, time_ms_of
from duramen.client.transport.retry import ask_until
from log_tier.model.errors import DuramenError, InvalidToken, PermissionDenied, TableNotFound
from log_tier.model.identifiers import check_name
from log_tier.model.partitioner import partition_of_prefix
from log_tier.model.table_ref import TableRef
from log_tier.model.tokens import Token
from log_tier.rows.finding.found_range import FindPlan
from router.data.requests import ScanRequest, TableDescription

if TYPE_CHECKING:
    from log_tier.rows.alter_table import IndexChange, TableChange
    from log_tier.rows.definition import TableDefinition
    from router.data.past.asked_past import AskedPast

__all__ = ["TableLookup"]

T = TypeVar("T")


class TableLookup:
    """A name, the table behind it, and the client that asks. A table's batches and writers share it.

    Invariant: `ref` is None, or was the table behind the name when it was looked up last.
    """

    def __init__(self, context: ClientContext, name: str, ref: TableRef | None = None) -> None:
        """Raises `InvalidName`."""
        self.context = context
        self.name = check_name(name)
        self.ref = ref
        """The table, where it was found already and is not known to be gone."""

    async def resolve(self, deadline: float | None = None) -> TableRef:
        """Ask for the table behind the name. `deadline` is on the event loop's clock; None: the default timeout.

        Raises `TableNotFound`. Callers take `ref` first, which costs nothing.
        """
        context = self.context
        self.ref = await ask_until(
            context.deadline(None) if deadline is None else deadline,
            lambda remaining: context.connection.find_table(self.name, timeout=remaining),
        )
        return self.ref

    async def describe(self, *, timeout: float | None = None) -> TableDescription:
        """The positions and replicas of each partition, as its replicas and the log report them."""
        return await self.describe_by(self.context.deadline(timeout))

    async def describe_by(self, deadline: float) -> TableDescription:
        """`describe`, with a deadline on the event loop's clock."""
        context = self.context
        return await ask_until(
            deadline,
            lambda remaining: context.connection.describe_table(self.name, timeout=remaining),
        )

    async def definition(self, deadline: float, schema: int = 0) -> tuple[TableRef, TableDefinition | None]:
        """The table, and what its keys and values are; None: bytes. Raises `TableNotFound`. One request, or two.

        `schema`: see `TableAdmin.definition`.
        """
        connection = self.context.connection
        ref = self.ref or await self.resolve(deadline)
        if not ref.defined:
            return ref, None
        asking = ask_until(deadline, lambda remaining: connection.definition(ref.id, schema=schema, timeout=remaining))
        return ref, await self.noticing_drops(asking)

    async def change(self, change: TableChange, deadline: float) -> None:
        """Give the table another definition. Asked again, it goes on where it stood."""
        connection = self.context.connection
        await self.noticing_drops(
            ask_until(deadline, lambda remaining: connection.alter_table(self.name, change, timeout=remaining))
        )

    async def change_indexes(self, change: IndexChange, timeout: float | None) -> None:
        """Give the table an index, or take one away; see `RowTable.create_index`."""
        await self.change(change, self.context.deadline(timeout))

    async def partitions_asked(self, plan: FindPlan) -> int:
        """How many partitions a find reads."""
        ref = self.ref or await self.resolve()
        only = partition_of_prefix(plan.key_prefix, ref.partitions, ref.partitioner)
        if only is not None:
            return 1
        request = ScanRequest(ref.id, plan.start, plan.end, index=plan.index_name)
        return len(request.partitions_asked(ref.partitions, ref.partitioner))

    async def asked(
        self, ref: TableRef, after: str | Token | None, level: Level, deadline: float
    ) -> tuple[TableRef, Asked]:
        """The table, and the offsets that a read must contain. Raises `InvalidRequest`, `InvalidToken`."""
        check_level(level)
        token = None if after is None else Token.parse(after)
        session = self.context.session
        try:
            return ref, asked_of(session, ref, token, level)
        except InvalidToken:
            # The table may have been dropped and made again since we found it, and the token may be of the new one.
            found = await self.resolve(deadline)
            if found.id == ref.id:
                raise
            return found, asked_of(session, found, token, level)

    async def asked_past(self, at: AsOf | None, deadline: float) -> AskedPast:
        """The state that a read of the past names; None: that of the log's end, for one request. Raises
        `InvalidRequest`, `InvalidToken`.
        """
        from router.data.past.asked_past import AskedPast

        ref = self.ref or await self.resolve(deadline)
        if isinstance(at, datetime):
            return AskedPast(ref, {}, time_ms_of(at))
        if at is None:
            description = await self.describe_by(deadline)
            return AskedPast(description.table, {part.partition: part.latest for part in description.partitions})
        ref, asked = await self.asked(ref, at, "eventual", deadline)
        return AskedPast(ref, asked.offsets or {})

    async def refused_past(self, past: AskedPast, refused: InvalidToken, deadline: float) -> DuramenError:
        """Why the table is not read at a state that it cannot be read at. One request. Raises `TableNotFound`."""
        from router.data.past.asked_past import refused_state

        connection = self.context.connection
        return await self.noticing_drops(
            ask_until(deadline, lambda remaining: refused_state(connection, past.table, refused, remaining))
        )

    async def noticing_drops(self, call: Awaitable[T]) -> T:
        """Await a call on the table; `TableNotFound` from it makes the next call look the name up again, and so does
        `PermissionDenied`: of an id that is not shown, a server does not say whether it is there.
        """
        try:
            return await call
        except (TableNotFound, PermissionDenied) as error:
            raise self.gone(error) from error

    def gone(self, error: TableNotFound | PermissionDenied) -> TableNotFound | PermissionDenied:
        """Forget the table, which was dropped, or may have been; return the error for the caller, with the table's name
        where it is gone.
        """
        self.ref = None
        if isinstance(error, PermissionDenied):
            return copy(error)
        return TableNotFound(f"table {self.name!r} is gone ({error.message})", table=self.name)
