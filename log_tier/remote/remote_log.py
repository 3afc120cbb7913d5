"""A `Log` behind `grpc://host:port`: the same contract as an engine in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from typing import Any, Final, cast

from log_tier.concurrency.backoff import Backoff
from log_tier.model.batch import check_batch
from log_tier.model.batch_header import read_header, span_of
from log_tier.model.errors import (
    DuramenError,
    InvalidRequest,
    LimitExceeded,
    TableNotFound,
    WriteUnknown,
)
from log_tier.model.identifiers import (
    PARTITIONS_MAX,
    Offset,
    PartitionId,
    TableId,
    check_name,
    table_id_from_bytes,
    table_id_to_bytes,
)
from log_tier.model.log import Appended, Bounds, ReadChunk, Topic
from log_tier.model.retention import Retention, check_retention
from log_tier.proto import cluster_pb2, cluster_pb2_grpc, log_pb2, log_pb2_grpc
from log_tier.remote.traced_writes import writes_of
from log_tier.rpc.problems import error_of, may_have_happened
from log_tier.rpc.wire import Wire
from log_tier.tracing.span import TRACING
from log_tier.tracing.written import TracedWrite

__all__ = ["RemoteLog"]

# How long a call may take before its outcome counts as unknown: a sync on a slow disk takes a second, not thirty.
_CALL_TIMEOUT_S: Final = 30.0

# Batches of one call together: two of the largest. A message may be half as large again.
_CALL_BYTES_MAX: Final = 32 * 1024 * 1024

# A following read that lost its connection tries again after these pauses, for as long as its reader waits.
_RECONNECT_FIRST_S: Final = 0.05
_RECONNECT_MAX_S: Final = 1.0


class RemoteLog:
    """`Log` over gRPC: a log server's client. `open()` makes one; it connects at the first call."""

    def __init__(self, target: str, *, call_timeout_s: float = _CALL_TIMEOUT_S) -> None:
        self._wire = Wire(target)
        self._call_timeout_s = call_timeout_s
        self._stub = log_pb2_grpc.LogStub(self._wire.channel)  # type: ignore[no-untyped-call]
        self._tracing = TRACING.get()

    @classmethod
    async def open(cls, target: str) -> RemoteLog:
        """A client of the log server at `host:port`."""
        return cls(target)

    async def _ask(self, method: Any, request: Any) -> Any:
        return await self._wire.ask(method, request, timeout=self._call_timeout_s)

    async def create_topic(self, name: str, *, partitions: int) -> Topic:
        check_name(name, what="topic")
        if not 1 <= partitions <= PARTITIONS_MAX:
            raise LimitExceeded(
                f"a topic has 1 to {PARTITIONS_MAX} partitions, not {partitions}", limit=PARTITIONS_MAX, size=partitions
            )
        request = log_pb2.CreateTopicRequest(name=name, partitions=partitions)
        return _topic(await self._ask(self._stub.CreateTopic, request))

    async def adopt_topic(self, name: str) -> Topic:
        return _topic(await self._ask(self._stub.AdoptTopic, log_pb2.AdoptTopicRequest(name=name)))

    async def delete_topic(self, topic: TableId) -> None:
        await self._ask(self._stub.DeleteTopic, log_pb2.DeleteTopicRequest(topic_id=table_id_to_bytes(topic)))

    async def topics(self) -> list[Topic]:
        reply = await self._ask(self._stub.Topics, log_pb2.TopicsRequest())
        return [_topic(message) for message in reply.topics]

    async def append(self, partition: PartitionId, batch: bytes) -> Appended:
        """Raises `WriteUnknown` if the reply was lost; repeat the same bytes to learn the outcome."""
        span = check_batch(batch).span  # refuse here what the server would refuse: it saves the journey
        _check_partition(partition)
        request = log_pb2.AppendRequest(
            topic_id=table_id_to_bytes(partition.table), partition=partition.partition, batch=batch
        )
        try:
            reply = await self._ask(self._stub.Append, request)
        except DuramenError as error:
            if may_have_happened(error):
                raise self._unknown(error, partition) from error
            raise
        return _appended(reply, span)

    async def append_many(
        self, parts: Sequence[tuple[PartitionId, bytes]], *, gathered: bool = False
    ) -> list[Appended | DuramenError]:
        """One call, or a few if the batches together are larger than a message."""
        calls = [self._append_together(group) for group in _groups(parts)]
        if len(calls) == 1:
            return await calls[0]
        return [result for results in await asyncio.gather(*calls) for result in results]

    async def _append_together(self, parts: Sequence[tuple[PartitionId, bytes]]) -> list[Appended | DuramenError]:
        try:
            for partition, _ in parts:
                _check_partition(partition)
            request = log_pb2.AppendManyRequest(
                parts=[
                    log_pb2.AppendRequest(topic_id=table_id_to_bytes(topic), partition=number, batch=batch)
                    for (topic, number), batch in parts
                ]
            )
            reply = await self._ask(self._stub.AppendMany, request)
        except DuramenError as error:
            if may_have_happened(error):
                return [self._unknown(error, partition) for partition, _ in parts]
            return [error] * len(parts)
        return [
            error_of(result.problem) if result.HasField("problem") else _appended(result.appended, span_of(batch))
            for result, (_, batch) in zip(reply.results, parts, strict=True)
        ]

    def _unknown(self, error: DuramenError, partition: PartitionId) -> WriteUnknown:
        return WriteUnknown(
            f"no reply came from the log at {self._wire.target} ({error.message}): the batch is in the log or it "
            "is not; append the same bytes again, a second copy is void",
            partition=partition.partition,
        )

    async def read(
        self, partition: PartitionId, start: Offset, *, follow: bool, chunk_bytes: int = 1 << 20
    ) -> AsyncGenerator[ReadChunk, None]:
        """With `follow`, a lost connection resumes where it broke, and the next chunk says so."""
        _check_partition(partition)
        if start < 0 or not 0 < chunk_bytes < 1 << 32:
            raise InvalidRequest(
                f"cannot read from offset {start} in chunks of {chunk_bytes} bytes: offsets begin at 0, chunks at 1"
            )
        position, backoff = start, Backoff(_RECONNECT_FIRST_S, _RECONNECT_MAX_S)
        resumed = False
        while True:
            request = log_pb2.LogReadRequest(
                topic_id=table_id_to_bytes(partition.table),
                partition=partition.partition,
                start=position,
                follow=follow,
                chunk_bytes=chunk_bytes,
            )
            try:
                async with aclosing(cast("Any", self._wire.stream(self._stub.Read, request))) as replies:
                    async for reply in replies:
                        backoff.reset()
                        position = _next_offset(reply.data)
                        traced: tuple[TracedWrite, ...] = ()
                        if reply.traced and self._tracing is not None:
                            traced = writes_of(reply.traced, self._tracing)
                        yield ReadChunk(reply.data, Offset(reply.latest), resumed, Offset(reply.compacted), traced)
                        resumed = False
                if not follow:
                    return
            except DuramenError as error:
                if not (follow and error.retryable):
                    raise
            await backoff.pause()
            resumed = True

    async def bounds(self, partition: PartitionId) -> Bounds:
        _check_partition(partition)
        request = log_pb2.BoundsRequest(topic_id=table_id_to_bytes(partition.table), partition=partition.partition)
        reply = await self._ask(self._stub.Bounds, request)
        return _bounds(reply)

    async def all_bounds(self, topic: TableId) -> list[Bounds]:
        reply = await self._ask(self._stub.AllBounds, log_pb2.AllBoundsRequest(topic_id=table_id_to_bytes(topic)))
        return [_bounds(each) for each in reply.bounds]

    async def trim(self, partition: PartitionId, before: Offset) -> Offset:
        _check_partition(partition)
        request = log_pb2.TrimRequest(
            topic_id=table_id_to_bytes(partition.table), partition=partition.partition, before=before
        )
        return Offset((await self._ask(self._stub.Trim, request)).earliest)

    async def retain(self, partition: PartitionId, retention: Retention, *, below: Offset) -> Offset:
        _check_partition(partition)
        check_retention(retention)
        request = log_pb2.RetainRequest(
            topic_id=table_id_to_bytes(partition.table),
            partition=partition.partition,
            ms=retention.ms,
            bytes=retention.bytes,
            below=below,
        )
        return Offset((await self._ask(self._stub.Retain, request)).earliest)

    async def compact(self, partition: PartitionId, below: Offset) -> int:
        """Takes as long as rewriting the partition's files."""
        _check_partition(partition)
        request = log_pb2.CompactRequest(
            topic_id=table_id_to_bytes(partition.table), partition=partition.partition, below=below
        )
        return int((await self._wire.ask(self._stub.Compact, request, timeout=None)).dropped)

    @property
    def target(self) -> str:
        """Where the server is: `host:port`."""
        return self._wire.target

    async def server_status(self, *, timeout: float) -> bytes:
        """The status document of the log's server, as one line of JSON (docs/FORMATS.md). `timeout` in seconds."""
        stub = cluster_pb2_grpc.ClusterStub(self._wire.channel)  # type: ignore[no-untyped-call]
        reply = await self._wire.ask(stub.Status, cluster_pb2.ServerStatusRequest(), timeout=timeout)
        return bytes(reply.status)

    async def close(self) -> None:
        """Close the connection. Calls under way end with `Disconnected`, appends with `WriteUnknown`."""
        await self._wire.close()


def _groups(
    parts: Sequence[tuple[PartitionId, bytes]],
) -> Iterator[Sequence[tuple[PartitionId, bytes]]]:
    """Parts that fit in a message each; usually all of them. Raises nothing: one part always fits."""
    start = size = 0
    for number, (_, batch) in enumerate(parts):
        if number > start and size + len(batch) > _CALL_BYTES_MAX:
            yield parts[start:number]
            start, size = number, 0
        size += len(batch)
    if start < len(parts):
        yield parts[start:]


def _topic(message: log_pb2.Topic) -> Topic:
    return Topic(table_id_from_bytes(message.id), message.name, message.partitions)


def _appended(message: log_pb2.AppendReply, span: int) -> Appended:
    base = message.base_offset
    return Appended(Offset(base), message.timestamp_ms, Offset(base + span - 1))


def _check_partition(partition: PartitionId) -> None:
    """Raise `TableNotFound` for a partition number that no message can carry."""
    if not 0 <= partition.partition < 1 << 32:
        raise TableNotFound(f"topic {partition.table} has no partition {partition.partition}: they are numbered from 0")


def _bounds(reply: log_pb2.BoundsReply) -> Bounds:
    return Bounds(
        Offset(reply.earliest),
        Offset(reply.latest),
        reply.unsettled,
        reply.newest_ms,
        reply.lost,
        Offset(reply.compacted),
        Offset(reply.given_up),
        Offset(reply.mended),
        reply.cleaned,
    )


def _next_offset(data: bytes) -> Offset:
    at = 0
    while True:
        header = read_header(data, at)
        at += header.length
        if at >= len(data):
            return Offset(header.last_offset + 1)
