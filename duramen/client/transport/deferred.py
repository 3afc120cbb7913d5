"""A connection that is made by the first call: for a process that has inherited a database, or was handed one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Final, TypeVar

from log_tier.model.errors import DatabaseClosed, DeadlineExceeded, DuramenError
from log_tier.model.identifiers import Offset, Partition, TableId
from log_tier.model.retention import Retention
from log_tier.model.table_ref import TableRef
from log_tier.rows.alter_table import TableChange
from log_tier.rows.definition import TableDefinition
from log_tier.rows.table_spec import TableSpec
from router.data.requests import (
    OutcomesPart,
    ReadPart,
    ReadResult,
    ScanRequest,
    ScanResult,
    TableDescription,
    WatchEvent,
    WritePart,
    WriteResult,
)
from router.data.seam import Connection

__all__ = ["DeferredConnection"]

T = TypeVar("T")

# A watch has no timeout of its own; its caller goes on trying for as long as it wants to.
_WATCH_S: Final = 10.0


def _heard(attempt: asyncio.Task[Connection]) -> None:
    """Take note of a failure that every waiting caller has left by its own deadline; asyncio would print it."""
    if not attempt.cancelled():
        attempt.exception()


class DeferredConnection:
    """A `Connection` that connects with `make` at its first call; concurrent calls wait for the same attempt.

    `make` goes on until its own timeout. It calls its argument with each failure on the way, so that a call whose time
    is over earlier can say why. An attempt that fails fails the calls that waited for it, and the next call makes
    another one. Belongs to the event loop of its first call.
    """

    def __init__(self, make: Callable[[Callable[[DuramenError], None]], Awaitable[Connection]]) -> None:
        self._make = make
        self._failure: DuramenError | None = None
        """Of the newest attempt, the newest failure."""
        self._attempt: asyncio.Task[Connection] | None = None
        self._closed = False

    async def _connected(self, timeout: float) -> tuple[Connection, float]:
        """The connection, and what is left of the call's time."""
        if self._closed:
            raise DatabaseClosed("this database was closed; connect again")
        attempt = self._attempt
        if attempt is not None and attempt.done() and not attempt.cancelled() and attempt.exception() is None:
            return attempt.result(), timeout
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        if attempt is None or attempt.done():
            attempt = self._attempt = loop.create_task(self._begin(), name="connect at the first call")
            attempt.add_done_callback(_heard)
        try:
            async with asyncio.timeout_at(deadline):
                connection = await asyncio.shield(attempt)
        except TimeoutError:
            raise self._failure or DeadlineExceeded(
                f"no connection was made within {timeout:g} s; is the server running?"
            ) from None
        return connection, max(0.0, deadline - loop.time())

    async def _begin(self) -> Connection:
        self._failure = None
        return await self._make(self._note)

    def _note(self, failure: DuramenError) -> None:
        self._failure = failure

    async def _ask(self, timeout: float, question: Callable[[Connection, float], Awaitable[T]]) -> T:
        connection, left = await self._connected(timeout)
        return await question(connection, left)

    async def read(
        self, parts: Sequence[ReadPart], *, timeout: float, patience: float = 0.0
    ) -> Sequence[ReadResult | DuramenError]:
        return await self._ask(timeout, lambda inner, left: inner.read(parts, timeout=left, patience=patience))

    async def write(
        self, parts: Sequence[WritePart], *, timeout: float, patience: float = 0.0
    ) -> Sequence[WriteResult | DuramenError]:
        return await self._ask(timeout, lambda inner, left: inner.write(parts, timeout=left, patience=patience))

    async def outcomes(self, parts: Sequence[OutcomesPart], *, timeout: float) -> Sequence[WriteResult | DuramenError]:
        return await self._ask(timeout, lambda inner, left: inner.outcomes(parts, timeout=left))

    async def scan(self, request: ScanRequest, *, timeout: float) -> ScanResult:
        return await self._ask(timeout, lambda inner, left: inner.scan(request, timeout=left))

    async def watch(
        self, table_id: TableId, start: Mapping[Partition, Offset], partitions: Sequence[Partition] = ()
    ) -> AsyncGenerator[WatchEvent, None]:
        inner, _ = await self._connected(_WATCH_S)
        async with aclosing(inner.watch(table_id, start, partitions)) as events:
            async for event in events:
                yield event

    async def producer(
        self, table_id: TableId, producer_id: int, *, timeout: float, partitions: Sequence[Partition] = ()
    ) -> Mapping[Partition, int]:
        return await self._ask(
            timeout, lambda inner, left: inner.producer(table_id, producer_id, timeout=left, partitions=partitions)
        )

    async def create_table(self, spec: TableSpec, *, timeout: float) -> TableRef:
        return await self._ask(
            timeout,
            lambda inner, left: inner.create_table(spec, timeout=left),
        )

    async def find_table(self, name: str, *, timeout: float) -> TableRef:
        return await self._ask(timeout, lambda inner, left: inner.find_table(name, timeout=left))

    async def definition(self, table_id: TableId, *, schema: int = 0, timeout: float) -> TableDefinition | None:
        return await self._ask(timeout, lambda inner, left: inner.definition(table_id, schema=schema, timeout=left))

    async def list_tables(self, *, timeout: float) -> list[TableRef]:
        return await self._ask(timeout, lambda inner, left: inner.list_tables(timeout=left))

    async def describe_table(self, name: str, *, timeout: float) -> TableDescription:
        return await self._ask(timeout, lambda inner, left: inner.describe_table(name, timeout=left))

    async def alter_table(self, name: str, change: TableChange, *, timeout: float) -> TableDefinition:
        return await self._ask(timeout, lambda inner, left: inner.alter_table(name, change, timeout=left))

    async def set_retention(self, name: str, *, ms: int | None, size: int | None, timeout: float) -> Retention:
        return await self._ask(timeout, lambda inner, left: inner.set_retention(name, ms=ms, size=size, timeout=left))

    async def drop_table(self, name: str, *, timeout: float) -> None:
        await self._ask(timeout, lambda inner, left: inner.drop_table(name, timeout=left))

    async def close(self) -> None:
        """Close what was made, and stop making it. Idempotent."""
        self._closed = True
        attempt, self._attempt = self._attempt, None
        if attempt is None:
            return
        attempt.cancel()  # of one that is done, nothing happens
        if not attempt.done():
            await asyncio.wait((attempt,))
        if not attempt.cancelled() and attempt.exception() is None:
            await attempt.result().close()
