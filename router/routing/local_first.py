"""A node's way to the data: its own replicas first, the other nodes for what it does not hold.

Both ways are a `Connection`; this one chooses, part by part, and changes nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import TypeVar

from log_tier.concurrency.tasks import end_tasks
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId
from log_tier.model.retention import Retention
from log_tier.model.table_ref import TableRef
from log_tier.model.table_spec import TableSpec
from router.data.local_data import LocalData
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
from router.data.seam import Connection, DataPlane

__all__ = ["LocalFirstConnection"]

P = TypeVar("P", ReadPart, OutcomesPart)
R = TypeVar("R", ReadResult, WriteResult)


class LocalFirstConnection:
    """A `Connection`. Both `data_plane` and `others` stay their owners'."""

    def __init__(self, data_plane: LocalData, others: Connection) -> None:
        self._data_plane = data_plane
        self._others = others

    def _is_here(self, partition: PartitionId) -> bool:
        try:
            replica = self._data_plane.node.replica(partition)
        except DuramenError:
            return False
        return replica.failure is None and replica.state == "ready"

    def _split(self, parts: Sequence[P]) -> tuple[list[int], list[int]]:
        here: list[int] = []
        remote: list[int] = []
        for number, part in enumerate(parts):
            (here if self._is_here(part.partition) else remote).append(number)
        return here, remote

    async def _halves(
        self, parts: Sequence[P], ask: Callable[[DataPlane, Sequence[P]], Awaitable[Sequence[R | DuramenError]]]
    ) -> list[R | DuramenError]:
        """Ask for the parts that are here and for the others at the same time: a part that waits takes no time from
        those that are elsewhere.
        """
        here, remote = self._split(parts)
        if not remote:
            return list(await ask(self._data_plane, parts))
        if not here:
            return list(await ask(self._others, parts))
        elsewhere = asyncio.ensure_future(ask(self._others, [parts[number] for number in remote]))
        try:
            found = await ask(self._data_plane, [parts[number] for number in here])
            asked = await elsewhere
        finally:
            await end_tasks(elsewhere)
        results = dict(zip(here, found, strict=True))
        results.update(zip(remote, asked, strict=True))
        return [results[number] for number in range(len(parts))]

    async def read(
        self, parts: Sequence[ReadPart], *, timeout: float, patience: float = 0.0
    ) -> list[ReadResult | DuramenError]:
        return await self._halves(parts, lambda plane, mine: plane.read(mine, timeout=timeout, patience=patience))

    async def write(
        self, parts: Sequence[WritePart], *, timeout: float, patience: float = 0.0
    ) -> list[WriteResult | DuramenError]:
        """The log accepts every partition's batches from any node."""
        if all(not part.outcomes or self._is_here(part.partition) for part in parts):
            return list(await self._data_plane.write(parts, timeout=timeout, patience=patience))
        return list(await self._others.write(parts, timeout=timeout, patience=patience))

    async def outcomes(self, parts: Sequence[OutcomesPart], *, timeout: float) -> list[WriteResult | DuramenError]:
        return await self._halves(parts, lambda plane, mine: plane.outcomes(mine, timeout=timeout))

    async def scan(self, request: ScanRequest, *, timeout: float) -> ScanResult:
        entry = self._data_plane.catalog.map.tables.get(request.table_id)
        wanted = request.partitions or [Partition(number) for number in range(entry.partitions if entry else 0)]
        if wanted and all(self._is_here(PartitionId(request.table_id, partition)) for partition in wanted):
            return await self._data_plane.scan(request, timeout=timeout)
        return await self._others.scan(request, timeout=timeout)

    async def watch(
        self, table_id: TableId, start: Mapping[Partition, Offset], partitions: Sequence[Partition] = ()
    ) -> AsyncGenerator[WatchEvent, None]:
        async with aclosing(self._others.watch(table_id, start, partitions)) as events:
            async for event in events:
                yield event

    async def producer(
        self, table_id: TableId, producer_id: int, *, timeout: float, partitions: Sequence[Partition] = ()
    ) -> Mapping[Partition, int]:
        return await self._others.producer(table_id, producer_id, timeout=timeout, partitions=partitions)

    async def create_table(self, spec: TableSpec, *, timeout: float) -> TableRef:
        return await self._others.create_table(spec, timeout=timeout)

    async def find_table(self, name: str, *, timeout: float) -> TableRef:
        return await self._data_plane.find_table(name, timeout=timeout)

    async def list_tables(self, *, timeout: float) -> list[TableRef]:
        return await self._data_plane.list_tables(timeout=timeout)

    async def describe_table(self, name: str, *, timeout: float) -> TableDescription:
        return await self._others.describe_table(name, timeout=timeout)

    async def set_retention(self, name: str, *, ms: int | None, size: int | None, timeout: float) -> Retention:
        return await self._others.set_retention(name, ms=ms, size=size, timeout=timeout)

    async def drop_table(self, name: str, *, timeout: float) -> None:
        await self._others.drop_table(name, timeout=timeout)

    async def close(self) -> None:
        """Close nothing: both connections belong to the caller."""
