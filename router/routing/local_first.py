"""A node's way to the data: its own replicas first, the other nodes for what it does not hold.

Both ways are a `Connection`; this one chooses, part by part. What a replica of this node cannot answer, as it is put in
place anew or lags, goes the other way, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Final, TypeVar

from log_tier.concurrency.tasks import end_tasks
from log_tier.model.errors import DuramenError, InvalidRequest, ReplicaBehind
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId
from log_tier.model.retention import Retention
from log_tier.model.table_ref import TableRef
from log_tier.rows.alter_table import TableChange
from log_tier.rows.definition import TableDefinition
from log_tier.rows.table_spec import TableSpec
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
from router.routing.retry_policy import worth_failover

__all__ = ["LAG_PATIENCE_S", "LocalFirstConnection"]

LAG_PATIENCE_S: Final = 1.0
"""How long a replica of this node may keep a part waiting while others could answer. A busy machine applies late, and
to ask another node then costs both of them more than the wait."""

P = TypeVar("P", ReadPart, OutcomesPart)
R = TypeVar("R", ReadResult, WriteResult)


class LocalFirstConnection:
    """A `Connection`. Both `data_plane` and `others` stay their owners'."""

    def __init__(self, data_plane: LocalData, others: Connection) -> None:
        self._data_plane = data_plane
        self._others = others
        self._loop = asyncio.get_running_loop()

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

    async def _asked(
        self,
        parts: Sequence[P],
        ask: Callable[[DataPlane, Sequence[P], float], Awaitable[Sequence[R | DuramenError]]],
        timeout: float,
        *,
        answered: Callable[[R | DuramenError], bool],
    ) -> list[R | DuramenError]:
        """Ask for the parts that are here and for the others at the same time: a part that waits takes no time from
        those that are elsewhere. What was not `answered` here is then asked for elsewhere, in what is left of the time.
        """
        deadline = self._loop.time() + timeout
        here, remote = self._split(parts)
        results: list[R | DuramenError] = [_UNANSWERED] * len(parts)

        async def ask_each(plane: DataPlane, numbers: Sequence[int]) -> None:
            some = parts if len(numbers) == len(parts) else [parts[number] for number in numbers]
            for number, result in zip(numbers, await ask(plane, some, deadline - self._loop.time()), strict=True):
                results[number] = result

        elsewhere = asyncio.ensure_future(ask_each(self._others, remote)) if here and remote else None
        try:
            if here:
                await ask_each(self._data_plane, here)
            again = [number for number in here if not answered(results[number])]
            if elsewhere is not None:
                await elsewhere
        finally:
            await end_tasks(elsewhere)
        if not here:
            await ask_each(self._others, remote)
        elif again and self._loop.time() < deadline:
            await ask_each(self._others, again)
        return results

    async def read(
        self, parts: Sequence[ReadPart], *, timeout: float, patience: float = 0.0
    ) -> list[ReadResult | DuramenError]:
        """A replica here that lags is not waited for where others may answer, unless the caller names a patience."""

        def ask(
            plane: DataPlane, some: Sequence[ReadPart], left_s: float
        ) -> Awaitable[Sequence[ReadResult | DuramenError]]:
            most_s = patience or (LAG_PATIENCE_S if plane is self._data_plane else 0.0)
            return plane.read(some, timeout=left_s, patience=most_s)

        return await self._asked(
            parts,
            ask,
            timeout,
            answered=lambda result: _is_final(result) or (patience > 0 and isinstance(result, ReplicaBehind)),
        )

    async def write(
        self, parts: Sequence[WritePart], *, timeout: float, patience: float = 0.0
    ) -> list[WriteResult | DuramenError]:
        """The log accepts every partition's batches from any node."""
        if all(not part.outcomes or self._is_here(part.partition) for part in parts):
            return list(await self._data_plane.write(parts, timeout=timeout, patience=patience))
        return list(await self._others.write(parts, timeout=timeout, patience=patience))

    async def outcomes(self, parts: Sequence[OutcomesPart], *, timeout: float) -> list[WriteResult | DuramenError]:
        return await self._asked(
            parts, lambda plane, some, left_s: plane.outcomes(some, timeout=left_s), timeout, answered=_is_final
        )

    async def scan(self, request: ScanRequest, *, timeout: float) -> ScanResult:
        entry = self._data_plane.catalog.map.tables.get(request.table_id)
        wanted = () if entry is None else request.partitions_asked(entry.partitions, entry.partitioner)
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

    async def definition(self, table_id: TableId, *, schema: int = 0, timeout: float) -> TableDefinition | None:
        return await self._data_plane.definition(table_id, schema=schema, timeout=timeout)

    async def list_tables(self, *, timeout: float) -> list[TableRef]:
        return await self._data_plane.list_tables(timeout=timeout)

    async def describe_table(self, name: str, *, timeout: float) -> TableDescription:
        return await self._others.describe_table(name, timeout=timeout)

    async def alter_table(self, name: str, change: TableChange, *, timeout: float) -> TableDefinition:
        return await self._others.alter_table(name, change, timeout=timeout)

    async def set_retention(self, name: str, *, ms: int | None, size: int | None, timeout: float) -> Retention:
        return await self._others.set_retention(name, ms=ms, size=size, timeout=timeout)

    async def drop_table(self, name: str, *, timeout: float) -> None:
        await self._others.drop_table(name, timeout=timeout)

    async def close(self) -> None:
        """Close nothing: both connections belong to the caller."""


def _is_final(result: ReadResult | WriteResult | DuramenError) -> bool:
    """Would another replica say the same?"""
    return not (isinstance(result, DuramenError) and worth_failover(result))


_UNANSWERED: Final = InvalidRequest("a part was not answered: a bug of ours")
