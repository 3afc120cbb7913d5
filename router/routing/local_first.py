"""A node's way to the data: its own replicas first, the other nodes for what it does not hold.

Both ways are a `Connection`; this one chooses, part by part, and changes nothing else.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import TypeVar

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
from router.data.seam import Connection

__all__ = ["LocalFirstConnection"]

P = TypeVar("P", ReadPart, OutcomesPart)


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

    async def read(
        self, parts: Sequence[ReadPart], *, timeout: float, patience: float = 0.0
    ) -> list[ReadResult | DuramenError]:
        here, remote = self._split(parts)
        if not remote:
            return list(await self._data_plane.read(parts, timeout=timeout, patience=patience))
        results: dict[int, ReadResult | DuramenError] = {}
        if here:
            found = await self._data_plane.read([parts[number] for number in here], timeout=timeout, patience=patience)
            results.update(zip(here, found, strict=True))
        asked = await self._others.read([parts[number] for number in remote], timeout=timeout, patience=patience)
        results.update(zip(remote, asked, strict=True))
        return [results[number] for number in range(len(parts))]

    async def write(
        self, parts: Sequence[WritePart], *, timeout: float, patience: float = 0.0
    ) -> list[WriteResult | DuramenError]:
        """The log accepts every partition's batches from any node."""
        if all(not part.outcomes or self._is_here(part.partition) for part in parts):
            return list(await self._data_plane.write(parts, timeout=timeout, patience=patience))
        return list(await self._others.write(parts, timeout=timeout, patience=patience))

    async def outcomes(self, parts: Sequence[OutcomesPart], *, timeout: float) -> list[WriteResult | DuramenError]:
        here, remote = self._split(parts)
        results: dict[int, WriteResult | DuramenError] = {}
        if here:
            found = await self._data_plane.outcomes([parts[number] for number in here], timeout=timeout)
            results.update(zip(here, found, strict=True))
        if remote:
            asked = await self._others.outcomes([parts[number] for number in remote], timeout=timeout)
            results.update(zip(remote, asked, strict=True))
        return [results[number] for number in range(len(parts))]

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
