"""A client's ways to the data with a recorder in front: its gatherers, and its connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from duramen.client.transport.observer import SubmitsReads, SubmitsWrites
from duramen.client.watch import changes_of
from duramen.testing.recording.table_recorder import TableRecorder
from log_tier.model.batch import Columns, decode_batch
from log_tier.model.batch_header import offsets_in
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId
from log_tier.model.table_ref import TableRef
from router.data.gather.pending_calls import CallOutcome, FutureCalls
from router.data.gather.write_gatherer import WriteGatherer
from router.data.requests import ReadResult, ScanRequest, ScanResult, WatchEvent, WritePart, WriteResult
from router.data.seam import Connection

__all__ = ["RecordedConnection", "RecordedReads", "RecordedWrites"]

RecorderOf = Callable[[TableId], TableRecorder]


class RecordedReads:
    """A gatherer of reads. A call is over when its future is."""

    def __init__(self, inner: SubmitsReads, client: int, recorder_of: RecorderOf) -> None:
        self._inner, self._client, self._recorder_of = inner, client, recorder_of

    def submit(
        self,
        table: TableRef,
        partition: PartitionId,
        keys: Sequence[bytes],
        *,
        after: Offset | None,
        strong: bool,
        seen: bool,
        deadline: float,
        lag_max_ms: int = 0,
    ) -> asyncio.Future[ReadResult]:
        recorder = self._recorder_of(table.id)
        call = recorder.read_begins(self._client, partition.partition, keys, after=after, strong=strong, seen=seen)
        future = self._inner.submit(
            table,
            partition,
            keys,
            after=after,
            strong=strong,
            seen=seen,
            deadline=deadline,
            lag_max_ms=lag_max_ms,
        )

        def ended(future: asyncio.Future[ReadResult]) -> None:
            if (error := _error_of(future)) is not None:
                recorder.failed(call, error)
            else:
                recorder.read(call, future.result())

        future.add_done_callback(ended)
        return future

    async def close(self) -> None:
        await self._inner.close()


class RecordedWrites:
    """A gatherer of writes. A call is over when its future is."""

    def __init__(self, inner: SubmitsWrites, client: int, recorder_of: RecorderOf) -> None:
        self._inner, self._client, self._recorder_of = inner, client, recorder_of

    @property
    def gatherer(self) -> WriteGatherer[TableRef, FutureCalls]:
        return self._inner.gatherer

    def submit(
        self, table: TableRef, partition: PartitionId, records: Columns, *, outcomes: bool, deadline: float
    ) -> asyncio.Future[CallOutcome]:
        recorder = self._recorder_of(table.id)
        call = recorder.write_begins(self._client, partition.partition, records)
        try:
            future = self._inner.submit(table, partition, records, outcomes=outcomes, deadline=deadline)
        except DuramenError as error:
            recorder.write_failed(call, error)
            raise

        def ended(future: asyncio.Future[CallOutcome]) -> None:
            if (error := _error_of(future)) is not None:
                recorder.write_failed(call, error)
            else:
                recorder.wrote(call, future.result())

        future.add_done_callback(ended)
        return future

    def repeat(
        self, table: TableRef, partition: PartitionId, records: Columns, data: bytes, *, deadline: float
    ) -> asyncio.Future[CallOutcome]:
        # Of blocking callers of a RESP endpoint alone, which nothing here serves.
        return self._inner.repeat(table, partition, records, data, deadline=deadline)

    async def close(self) -> None:
        await self._inner.close()


class RecordedConnection:
    """A connection whose scans, watches and streams of writes are recorded. The rest passes."""

    def __init__(self, inner: Connection, client: int, recorder_of: RecorderOf) -> None:
        self._inner, self._client, self._recorder_of = inner, client, recorder_of

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def scan(self, request: ScanRequest, *, timeout: float) -> ScanResult:
        if request.past is not None:
            return await self._inner.scan(request, timeout=timeout)  # the model judges reads of the present
        recorder = self._recorder_of(request.table_id)
        call = recorder.scan_begins(self._client, request)
        try:
            page = await self._inner.scan(request, timeout=timeout)
        except BaseException as error:
            recorder.failed(call, error)
            raise
        recorder.scanned(call, request, page)
        return page

    async def watch(
        self, table_id: TableId, start: Mapping[Partition, Offset], partitions: Sequence[Partition] = ()
    ) -> AsyncGenerator[WatchEvent, None]:
        recorder = self._recorder_of(table_id)
        calls: dict[Partition, Any] = {}
        async with aclosing(self._inner.watch(table_id, start, partitions)) as events:
            async for event in events:
                if event.positions is not None:
                    calls = recorder.watch_begins(self._client, event.positions)
                elif event.partition in calls:
                    call = calls[event.partition]
                    following = Offset(call.reply["to"] + 1)
                    changes = list(changes_of(table_id, event, following, {}))
                    recorder.watched(call, changes, offsets_in(event.batches)[1])
                yield event

    async def write(
        self, parts: Sequence[WritePart], *, timeout: float, patience: float = 0.0
    ) -> Sequence[WriteResult | DuramenError]:
        begun = []
        for part in parts:
            recorder = self._recorder_of(part.partition.table)
            records = decode_batch(part.batch).columns
            begun.append((recorder, recorder.write_begins(self._client, part.partition.partition, records)))
        try:
            results = await self._inner.write(parts, timeout=timeout, patience=patience)
        except BaseException as error:
            for recorder, call in begun:
                recorder.write_failed(call, error)
            raise
        for (recorder, call), result in zip(begun, results, strict=True):
            if isinstance(result, WriteResult):
                recorder.stream_wrote(call)
            else:
                recorder.write_failed(call, result)
        return results


def _error_of(future: asyncio.Future[Any]) -> BaseException | None:
    return asyncio.CancelledError() if future.cancelled() else future.exception()
