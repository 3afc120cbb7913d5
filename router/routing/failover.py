"""Several equivalent servers as one connection: when one is lost, requests go to the next."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, TypeVar

from log_tier.concurrency.backoff import Backoff
from log_tier.concurrency.tasks import every_step
from log_tier.model.errors import DeadlineExceeded, Disconnected, DuramenError, ReplicaBehind, ShuttingDown
from log_tier.model.identifiers import Offset, Partition, TableId
from log_tier.model.retention import Retention
from log_tier.model.table_ref import TableRef
from log_tier.rows.alter_table import TableChange
from log_tier.rows.definition import TableDefinition
from log_tier.rows.table_spec import TableSpec
from router.data.in_time import time_left
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

__all__ = ["FailoverConnection"]

T = TypeVar("T")

# A server that came back is found again by its channel within a second; where none answers for so long, none is there.
_RETURN_S: Final = 2.0
_PAUSE_FIRST_S: Final = 0.05
_PAUSE_MAX_S: Final = 0.4


class FailoverConnection:
    """A `Connection` over several servers: uses one of `connections` while it answers. Closes all of them.

    A call that changes nothing goes to the next server at once. A call that may have changed something does so only
    where nothing was sent; else the caller learns that the reply was lost, and its next try goes to the next server.
    """

    def __init__(self, connections: Sequence[Connection], *, return_s: float = _RETURN_S) -> None:
        """`return_s`: how long a server may take to come back before a call fails, in seconds."""
        assert connections, "no server"
        self._connections = connections
        self._return_s = return_s
        self._at = 0

    async def _ask(
        self, question: Callable[[Connection, float], Awaitable[T]], *, timeout: float, harmless: bool = True
    ) -> T:
        """`question(server, seconds that are left)`, of one server after the other."""
        loop = asyncio.get_running_loop()
        left_s = time_left(timeout)
        give_up = loop.time() + min(timeout, self._return_s)
        backoff = Backoff(_PAUSE_FIRST_S, _PAUSE_MAX_S, deadline_s=give_up)
        turn = 0
        while True:
            turn += 1
            at = self._at
            try:
                return await question(self._connections[at], left_s())
            except (Disconnected, ShuttingDown, DeadlineExceeded) as error:
                if isinstance(error, ReplicaBehind):
                    raise  # it answers, and that well
                self._next(at)
                again = harmless or isinstance(error, ShuttingDown) or error.fields.get("sent") == 0
                if not again or isinstance(error, DeadlineExceeded) or loop.time() >= give_up:
                    raise
                if turn % len(self._connections) == 0 and not await backoff.pause():
                    raise

    def _next(self, at: int) -> None:
        if at == self._at:  # else another call has found out before
            self._at = (at + 1) % len(self._connections)

    async def read(
        self, parts: Sequence[ReadPart], *, timeout: float, patience: float = 0.0
    ) -> Sequence[ReadResult | DuramenError]:
        return await self._ask(
            lambda server, left_s: server.read(parts, timeout=left_s, patience=patience), timeout=timeout
        )

    async def write(
        self, parts: Sequence[WritePart], *, timeout: float, patience: float = 0.0
    ) -> Sequence[WriteResult | DuramenError]:
        """A second try asks for the outcomes: they name the offset of the copy that counts."""
        tries = 0

        def write(server: Connection, left_s: float) -> Awaitable[Sequence[WriteResult | DuramenError]]:
            nonlocal tries
            tries += 1
            sent = parts if tries == 1 else [part._replace(outcomes=True) for part in parts]
            return server.write(sent, timeout=left_s, patience=patience)

        return await self._ask(write, timeout=timeout, harmless=False)

    async def outcomes(self, parts: Sequence[OutcomesPart], *, timeout: float) -> Sequence[WriteResult | DuramenError]:
        return await self._ask(lambda server, left_s: server.outcomes(parts, timeout=left_s), timeout=timeout)

    async def scan(self, request: ScanRequest, *, timeout: float) -> ScanResult:
        return await self._ask(lambda server, left_s: server.scan(request, timeout=left_s), timeout=timeout)

    async def watch(
        self, table_id: TableId, start: Mapping[Partition, Offset], partitions: Sequence[Partition] = ()
    ) -> AsyncGenerator[WatchEvent, None]:
        """A lost server ends it with `Disconnected`; the next watch goes to the next server."""
        at = self._at
        try:
            watch: Any = self._connections[at].watch(table_id, start, partitions)
            async with aclosing(watch) as events:
                async for event in events:
                    yield event
        except (Disconnected, ShuttingDown):
            self._next(at)
            raise

    async def producer(
        self, table_id: TableId, producer_id: int, *, timeout: float, partitions: Sequence[Partition] = ()
    ) -> Mapping[Partition, int]:
        return await self._ask(
            lambda server, left_s: server.producer(table_id, producer_id, timeout=left_s, partitions=partitions),
            timeout=timeout,
        )

    async def create_table(self, spec: TableSpec, *, timeout: float) -> TableRef:
        return await self._ask(
            lambda server, left_s: server.create_table(spec, timeout=left_s),
            timeout=timeout,
            harmless=False,
        )

    async def find_table(self, name: str, *, timeout: float) -> TableRef:
        return await self._ask(lambda server, left_s: server.find_table(name, timeout=left_s), timeout=timeout)

    async def definition(self, table_id: TableId, *, schema: int = 0, timeout: float) -> TableDefinition | None:
        return await self._ask(
            lambda server, left_s: server.definition(table_id, schema=schema, timeout=left_s), timeout=timeout
        )

    async def list_tables(self, *, timeout: float) -> list[TableRef]:
        return await self._ask(lambda server, left_s: server.list_tables(timeout=left_s), timeout=timeout)

    async def describe_table(self, name: str, *, timeout: float) -> TableDescription:
        return await self._ask(lambda server, left_s: server.describe_table(name, timeout=left_s), timeout=timeout)

    async def alter_table(self, name: str, change: TableChange, *, timeout: float) -> TableDefinition:
        """It may be asked of another server: the same schema goes on where its job stands."""
        return await self._ask(lambda server, left_s: server.alter_table(name, change, timeout=left_s), timeout=timeout)

    async def set_retention(self, name: str, *, ms: int | None, size: int | None, timeout: float) -> Retention:
        return await self._ask(
            lambda server, left_s: server.set_retention(name, ms=ms, size=size, timeout=left_s),
            timeout=timeout,
            harmless=False,
        )

    async def drop_table(self, name: str, *, timeout: float) -> None:
        await self._ask(lambda server, left_s: server.drop_table(name, timeout=left_s), timeout=timeout, harmless=False)

    async def close(self) -> None:
        """Close them all."""
        await every_step(*(connection.close for connection in self._connections))
