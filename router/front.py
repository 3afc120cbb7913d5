"""The front: what a read, a write, a scan, a watch mean. It knows no protocol; doors stand before it.

    write   log.append of every part, all at once → stable → (for conditions and updates) wait until the replica has
            applied it, and tell the verdicts
    read    strong? ask the log for its end → the replica has applied `after`? else wait → values
    scan    the same, in every partition, then merge in key order

A front keeps no state of its own, so it may be replaced at any moment; what it needs to know is in the log and in the
replicas. Parts of one request fail by themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from copy import copy
from typing import Final

from log_tier.batch_header import read_header
from log_tier.errors import DuramenError, InvalidRequest, LimitExceeded, TableNotFound, WriteUnknown
from log_tier.identifiers import NOTHING, Offset, Partition, TableId
from log_tier.log import Appended, Log, Topic
from router.reading import ReplyRoom, read_keys
from router.requests import (
    ReadPart,
    ReadResult,
    ScanRequest,
    ScanResult,
    TableDescription,
    WatchEvent,
    WriteOutcome,
    WritePart,
    WriteResult,
)
from router.scanning import check_scan, scan_replicas
from router.tables import Tables
from router.watching import watch_replicas
from serving_tier.node import Node
from serving_tier.replica import Replica
from serving_tier.verdicts import Outcome, rejection_of

__all__ = ["PARTS_MAX", "READ_KEYS_MAX", "Front"]

# A read is answered on the event loop, some 2 µs a key: this many keys are 20 ms in which nobody else is served.
READ_KEYS_MAX: Final = 10_000

# A client joins its calls by partition, and a table has a thousand of those: ten tables in one request are plenty.
PARTS_MAX: Final = 10_000


class Front:
    """The core behind every door. It is a `router.requests.Connection`."""

    def __init__(self, log: Log, node: Node) -> None:
        self.log = log
        self.node = node
        self.tables = Tables(log, node)

    @classmethod
    async def open(cls, log: Log, node: Node) -> Front:
        """Host every table that the log has."""
        front = cls(log, node)
        await front.tables.follow_log()
        return front

    # --- reads

    async def read(
        self, parts: Sequence[ReadPart], *, timeout: float, patience: float = 0.0
    ) -> list[ReadResult | DuramenError]:
        """Read keys; each part is answered, or fails, by itself. About 2 µs a key where nothing has to wait."""
        asked = sum(len(part.keys) for part in parts)
        if asked > READ_KEYS_MAX:
            raise LimitExceeded(
                f"a read asks for at most {READ_KEYS_MAX} keys, this one for {asked}: split it",
                limit=READ_KEYS_MAX,
                size=asked,
            )
        _check_parts(parts)
        room = ReplyRoom()
        results: list[ReadResult | DuramenError] = []
        waiting: list[tuple[int, ReadPart]] = []
        for place, part in enumerate(parts):
            try:
                replica = self.node.replica(part.table_id, part.partition)
                if part.strong or replica.index.applied < part.after or replica.failure is not None:
                    waiting.append((place, part))
                    results.append(InvalidRequest("unanswered"))  # replaced below, before anybody sees it
                else:
                    results.append(read_keys(replica, part.keys, room))
            except DuramenError as error:
                results.append(error)
        if waiting:
            timeout = min(timeout, patience) if patience else timeout
            answers = await asyncio.gather(*(self._read_when_fresh(part, timeout, room) for _, part in waiting))
            for (place, _), answer in zip(waiting, answers, strict=True):
                results[place] = answer
        return results

    async def _read_when_fresh(self, part: ReadPart, timeout: float, room: ReplyRoom) -> ReadResult | DuramenError:
        try:
            replica = await self._fresh(part.table_id, part.partition, part.after, part.strong, timeout)
            return read_keys(replica, part.keys, room)
        except DuramenError as error:
            return error

    async def _fresh(
        self, table_id: TableId, partition: Partition, after: Offset, strong: bool, timeout: float
    ) -> Replica:
        replica = self.node.replica(table_id, partition)
        failure = replica.failure
        if failure is not None and (replica.index.applied < after or isinstance(failure, TableNotFound)):
            raise copy(failure)
        if strong:
            bounds = await self.log.bounds(table_id, partition)
            after = max(after, bounds.latest)
        await replica.wait_applied(after, timeout=timeout)
        return replica

    # --- writes

    async def write(self, parts: Sequence[WritePart], *, timeout: float) -> list[WriteResult | DuramenError]:
        """Append every part; a result means stable storage. One sync per partition, shared by whoever writes then."""
        _check_parts(parts)
        appended = await self.log.append_many([(part.table_id, part.partition, part.batch) for part in parts])
        results: list[WriteResult | DuramenError] = [
            place if isinstance(place, DuramenError) else WriteResult(place.base_offset, place.timestamp_ms)
            for place in appended
        ]
        judged = [
            (number, part, place)
            for number, (part, place) in enumerate(zip(parts, appended, strict=True))
            if part.outcomes and isinstance(place, Appended)
        ]
        if judged:
            verdicts = await asyncio.gather(*(self._judge(part, place, timeout) for _, part, place in judged))
            for (number, _, _), verdict in zip(judged, verdicts, strict=True):
                results[number] = verdict
        return results

    async def _judge(self, part: WritePart, appended: Appended, timeout: float) -> WriteResult | DuramenError:
        """Wait until a batch is applied, and tell what became of its records."""
        last = Offset(appended.base_offset + read_header(part.batch).span - 1)
        try:
            replica = self.node.replica(part.table_id, part.partition)
            await replica.wait_applied(last, timeout=timeout)
            found = replica.index.outcomes(appended.base_offset, last)
        except DuramenError as error:
            return WriteUnknown(
                f"the write is in the log at offset {appended.base_offset}, what became of it is not known yet "
                f"({error.message}): read the key with a token of that offset",
                offset=appended.base_offset,
                partition=part.partition,
            )
        outcomes = [_write_outcome(offset, appended.base_offset, outcome) for offset, outcome in found.items()]
        return WriteResult(appended.base_offset, appended.timestamp_ms, outcomes)

    # --- scans and watches

    async def scan(self, request: ScanRequest, *, timeout: float) -> ScanResult:
        """One page in key order, read partition by partition, each at one offset of its own.

        Every partition's state is at least as new as `after` says; the page tells which offset each was read at.
        """
        check_scan(request)
        count = self.tables.by_id(request.table_id).partitions
        replicas = await asyncio.gather(
            *(
                self._fresh(request.table_id, partition, request.after.get(partition, NOTHING), request.strong, timeout)
                for partition in map(Partition, range(count))
            )
        )
        return await scan_replicas(replicas, request)

    def watch(self, table_id: TableId, start: Mapping[Partition, Offset]) -> AsyncIterator[WatchEvent]:
        """Follow a table's changes; see `router.watching`."""
        count = self.tables.by_id(table_id).partitions
        replicas = [self.node.replica(table_id, partition) for partition in map(Partition, range(count))]
        return watch_replicas(self.log, replicas, start)

    async def producer(self, table_id: TableId, producer_id: int, *, timeout: float) -> dict[Partition, int]:
        """The last sequence of a producer in each partition that has one, at the log's end."""
        found: dict[Partition, int] = {}
        for partition in map(Partition, range(self.tables.by_id(table_id).partitions)):
            replica = await self._fresh(table_id, partition, NOTHING, True, timeout)
            state = replica.index.producer(producer_id)
            if state is not None:
                found[partition] = state.last_sequence
        return found

    # --- tables

    async def create_table(self, name: str, *, partitions: int, timeout: float) -> Topic:
        """See `router.tables`; a caller whose time is over does not stop it."""
        return await self.tables.create(name, partitions)

    async def find_table(self, name: str, *, timeout: float) -> Topic:
        """See `router.tables`."""
        return await self.tables.find(name)

    async def list_tables(self, *, timeout: float) -> list[Topic]:
        """All tables, by name."""
        return await self.tables.all()

    async def describe_table(self, name: str, *, timeout: float) -> TableDescription:
        """See `router.tables`."""
        return await self.tables.describe(name)

    async def drop_table(self, name: str, *, timeout: float) -> None:
        """See `router.tables`. Writers and readers of the table get `TableNotFound` from then on."""
        await self.tables.drop(name)

    async def close(self) -> None:
        """Carry changes through, close the replicas cleanly, then the log."""
        try:
            await self.tables.close()
            await self.node.close()
        finally:
            await self.log.close()


def _check_parts(parts: Sequence[ReadPart] | Sequence[WritePart]) -> None:
    if len(parts) > PARTS_MAX:
        raise LimitExceeded(
            f"a request has at most {PARTS_MAX} parts, this one {len(parts)}: split it",
            limit=PARTS_MAX,
            size=len(parts),
        )


def _write_outcome(offset: Offset, base_offset: Offset, outcome: Outcome) -> WriteOutcome:
    """What a writer is told about a record; of a retry, what its first copy came to and where that stands."""
    original = NOTHING if outcome.duplicate_of is None else outcome.duplicate_of
    place = original if original > NOTHING else offset
    return WriteOutcome(offset - base_offset, rejection_of(place, outcome), outcome.result, original)
