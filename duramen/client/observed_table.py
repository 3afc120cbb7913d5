"""A table whose calls are operations: `duramen.tracing`. Without traces there is none."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import aclosing
from typing import Any, Final

from duramen.client.atomic import AtomicBatch
from duramen.client.context import ClientContext
from duramen.client.model.consistency import AsOf, Level
from duramen.client.model.results import Done, KeyDifference, ManyDone
from duramen.client.observed_writer import ObservedWriter
from duramen.client.table import Table
from duramen.client.table_writer import TableWriter
from duramen.tracing.operations import ClientOperation, Operations, observed, observed_pages
from log_tier.model.table_ref import TableRef
from log_tier.model.tokens import Token

__all__ = ["ObservedBatch", "ObservedTable", "count_records", "count_values"]


def count_values(operation: ClientOperation, found: Sequence[object]) -> None:
    """How many of the keys that were asked for are there."""
    operation.returned(sum(each is not None for each in found))


def count_records(operation: ClientOperation, done: ManyDone) -> None:
    """How many records were written."""
    operation.counted(done.records)


class ObservedBatch(AtomicBatch):
    """An atomic batch whose commit is an operation."""

    def __init__(self, table: ObservedTable) -> None:
        super().__init__(table.lookup)
        self.operations = table.operations
        self.name = table.name

    commit = observed("batch", AtomicBatch.commit)


_get: Final = observed("get", Table.get)
_put: Final = observed("put", Table.put)


class ObservedTable(Table):
    """The same calls. A watch lasts for long and is none of the operations; of a writer, each flight is one."""

    def __init__(self, context: ClientContext, name: str, ref: TableRef | None = None) -> None:
        super().__init__(context, name, ref)
        assert context.operations is not None, "a table of a client without operations is a Table"
        self.operations: Operations = context.operations

    def __reduce__(self) -> tuple[object, ...]:
        return ObservedTable, (self._context, self.name)

    def unobserved(self) -> Table:
        """The same table, for the blocking interface, whose operations begin in the threads of its callers."""
        plain = Table(self._context, self.name)
        plain.lookup = self.lookup
        return plain

    def get(
        self,
        key: bytes,
        *,
        at: AsOf | None = None,
        after: str | Token | None = None,
        level: Level = "session",
        timeout: float | None = None,
    ) -> Coroutine[Any, Any, bytes | None]:
        # As `observed`, for the calls that cost the least: to pass any arguments on takes them half as long again.
        if self.operations.skips():
            return Table.get(self, key, at=at, after=after, level=level, timeout=timeout)
        return _get(self, key, at=at, after=after, level=level, timeout=timeout)

    get.__doc__ = Table.get.__doc__

    get_entry = observed("get_entry", Table.get_entry)
    history = observed("history", Table.history, count_values)
    get_many = observed("get_many", Table.get_many, count_values)

    def put(
        self,
        key: bytes,
        value: bytes,
        *,
        ttl: float | None = None,
        keep_ttl: bool = False,
        if_absent: bool = False,
        if_present: bool = False,
        if_version: int | None = None,
        timeout: float | None = None,
    ) -> Coroutine[Any, Any, Done]:
        return (Table.put if self.operations.skips() else _put)(
            self,
            key,
            value,
            ttl=ttl,
            keep_ttl=keep_ttl,
            if_absent=if_absent,
            if_present=if_present,
            if_version=if_version,
            timeout=timeout,
        )

    put.__doc__ = Table.put.__doc__

    delete = observed("delete", Table.delete)
    write_record = observed("update", Table.write_record)
    put_many = observed("put_many", Table.put_many, count_records)

    async def scan_pages(self, **asked: Any) -> AsyncGenerator[list[tuple[bytes, bytes]], None]:
        operation = self.operations.begin("scan", self.name)
        async with aclosing(observed_pages(operation, super().scan_pages(**asked))) as pages:
            async for page in pages:
                yield page

    async def find_pages(self, *asked: Any, **how: Any) -> AsyncGenerator[list[tuple[bytes, bytes]], None]:
        operation = self.operations.begin("find", self.name)
        async with aclosing(observed_pages(operation, super().find_pages(*asked, **how))) as pages:
            async for page in pages:
                yield page

    async def diff_pages(self, *asked: Any, **how: Any) -> AsyncGenerator[list[KeyDifference[bytes, bytes]], None]:
        operation = self.operations.begin("diff", self.name)
        async with aclosing(observed_pages(operation, super().diff_pages(*asked, **how))) as pages:
            async for page in pages:
                yield page

    def batch(self) -> AtomicBatch:
        return ObservedBatch(self)

    def writer(self, producer: str) -> TableWriter:
        return ObservedWriter(self.lookup, producer, self.operations, self.name)
