"""The routed connection itself: the parts of this package, put together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, Self

from log_tier.catalog.catalog import Catalog, Maps
from log_tier.measures.call_times import CallTimes
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import NOTHING, Offset, Partition, PartitionId, TableId
from log_tier.model.log import Log
from log_tier.model.retention import Retention
from log_tier.model.table_ref import TableRef
from log_tier.rows.alter_table import TableChange
from log_tier.rows.definition import TableDefinition
from log_tier.rows.table_spec import TableSpec
from router.data.catalog_tables import CatalogTables
from router.data.in_time import in_time
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
from router.membership.live_membership import LiveMembership
from router.routing.reads import RoutedReads
from router.routing.routes import Routes
from router.routing.scans import RoutedScans
from router.routing.scatter import Scatter
from router.routing.tables import CatalogChanges, RemoteChanges, RoutedTables, TableChanges
from router.routing.targets import Askable, Through
from router.routing.watches import watch_nodes
from router.routing.writes import RoutedWrites

__all__ = ["RoutedConnection"]


class RoutedConnection:
    """The whole cluster as one `Connection`. `for_router` and `for_client` make one."""

    def __init__(
        self,
        maps: Maps,
        membership: LiveMembership,
        *,
        changes: TableChanges,
        log: Log | None,
        fallback: Connection | None = None,
        refresh: Callable[[], Awaitable[Any]] | None = None,
    ) -> None:
        """`log` None: writes go through `fallback`. `refresh`: brings the maps to the catalog's end, if that can be."""
        self.maps = maps
        self.membership = membership
        self._loop = asyncio.get_running_loop()
        routes = Routes(maps, membership, through=Through(fallback) if fallback is not None else None, refresh=refresh)
        self._routes = routes
        self._scatter = Scatter(routes)
        self.reads = RoutedReads(routes, self._scatter)
        self.writes = RoutedWrites(log, fallback, maps, routes, self._scatter)
        self._scans = RoutedScans(routes, self._scatter)
        self._tables = RoutedTables(routes, changes, log, fallback)
        self.times = CallTimes()
        """How long requests took, those that failed included. It does not know who waited at a node."""
        self._owned = AsyncExitStack()

    @classmethod
    def for_router(cls, log: Log, catalog: Catalog, membership: LiveMembership) -> Self:
        """A router's: with the log and the catalog, which stay their owner's, as does the membership."""
        changes = CatalogChanges(CatalogTables(log, catalog))
        made = cls(catalog, membership, changes=changes, log=log, refresh=catalog.refresh)
        made._owned.push_async_callback(changes.close)
        return made

    @classmethod
    def for_client(cls, maps: Maps, membership: LiveMembership, log: Log | None, server: Connection) -> Self:
        """A client's: with the map that a server sends, and the log if the client reaches it (`reach` for one that it
        reaches later). Closes all but the log, which its caller may add by `closes`.
        """
        made = cls(maps, membership, changes=RemoteChanges(server), log=log, fallback=server)
        made.closes(maps.close, server.close, membership.close)
        return made

    def closes(self, *closes: Callable[[], Awaitable[object]]) -> None:
        """What `close` ends, too, the last one first."""
        for close in closes:
            self._owned.push_async_callback(close)

    def reach(self, log: Log) -> None:
        """Writes go to this log from now on; until then, they went through the server."""
        self.writes.reach(log)
        self._tables.reach(log)

    async def read(
        self, parts: Sequence[ReadPart], *, timeout: float, patience: float = 0.0
    ) -> list[ReadResult | DuramenError]:
        began_s = self._loop.time()
        try:
            return await self.reads.read(parts, timeout=timeout, patience=patience)
        finally:
            self.times.reads.observe(self._loop.time() - began_s)

    async def write(
        self, parts: Sequence[WritePart], *, timeout: float, patience: float = 0.0
    ) -> list[WriteResult | DuramenError]:
        began_s = self._loop.time()
        try:
            return await self.writes.write(parts, timeout=timeout, patience=patience)
        finally:
            self.times.writes.observe(self._loop.time() - began_s)

    async def outcomes(self, parts: Sequence[OutcomesPart], *, timeout: float) -> list[WriteResult | DuramenError]:
        return await self.writes.outcomes(parts, timeout=timeout)

    async def scan(self, request: ScanRequest, *, timeout: float) -> ScanResult:
        began_s = self._loop.time()
        try:
            return await self._scans.scan(request, timeout=timeout)
        finally:
            self.times.scans.observe(self._loop.time() - began_s)

    def watch(
        self, table_id: TableId, start: Mapping[Partition, Offset], partitions: Sequence[Partition] = ()
    ) -> AsyncGenerator[WatchEvent, None]:
        """Described in `router.routing.watches`."""
        return watch_nodes(self._routes, table_id, start, partitions)

    async def producer(
        self, table_id: TableId, producer_id: int, *, timeout: float, partitions: Sequence[Partition] = ()
    ) -> dict[Partition, int]:
        deadline = self._loop.time() + timeout
        async with in_time(timeout, "the table was not looked up"):
            table = await self._routes.known(table_id)
        wanted = partitions or [Partition(number) for number in range(table.partitions)]
        parts = [ReadPart(PartitionId(table_id, partition), (), NOTHING, strong=True) for partition in wanted]
        found: dict[Partition, int] = {}

        async def ask(member: Askable, numbers: Sequence[int], timeout: float, _: float) -> Mapping[int, DuramenError]:
            mine = [parts[number].partition.partition for number in numbers]
            found.update(
                await member.ask(
                    lambda connection: connection.producer(table_id, producer_id, timeout=timeout, partitions=mine)
                )
            )
            return {}

        failed = await self._scatter.run(parts, ask, deadline=deadline)
        for error in failed.values():
            raise error
        return found

    async def create_table(self, spec: TableSpec, *, timeout: float) -> TableRef:
        return await self._tables.create(spec, timeout=timeout)

    async def find_table(self, name: str, *, timeout: float) -> TableRef:
        return await self._tables.find(name, timeout=timeout)

    async def definition(self, table_id: TableId, *, schema: int = 0, timeout: float) -> TableDefinition | None:
        return await self._tables.definition(table_id, schema=schema, timeout=timeout)

    async def list_tables(self, *, timeout: float) -> list[TableRef]:
        return await self._tables.all(timeout=timeout)

    async def describe_table(self, name: str, *, timeout: float) -> TableDescription:
        return await self._tables.describe(name, timeout=timeout)

    async def alter_table(self, name: str, change: TableChange, *, timeout: float) -> TableDefinition:
        return await self._tables.alter(name, change, timeout=timeout)

    async def set_retention(self, name: str, *, ms: int | None, size: int | None, timeout: float) -> Retention:
        return await self._tables.set_retention(name, ms=ms, size=size, timeout=timeout)

    async def drop_table(self, name: str, *, timeout: float) -> None:
        await self._tables.drop(name, timeout=timeout)

    async def close(self) -> None:
        """Let go of everything that is this connection's own; calls under way end. Idempotent."""
        await self._owned.aclose()
