"""Any `Log` behind the gRPC service `duramen.v1.Log`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

import grpc

from log_tier.model.batch_header import offsets_in
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import (
    Offset,
    partition_id_from_bytes,
    table_id_from_bytes,
    table_id_to_bytes,
)
from log_tier.model.log import Appended, Log, Topic
from log_tier.model.retention import Retention
from log_tier.proto import log_pb2, log_pb2_grpc
from log_tier.remote.traced_writes import messages_of
from log_tier.rpc.open_streams import OpenStreams
from log_tier.rpc.problems import abort, problem_of
from log_tier.rpc.stream_budget import HeldPage

__all__ = ["LogService", "topic_message"]

# A chunk must be well below the limit of a gRPC message; a reader that names no size gets a moderate one.
_CHUNK_BYTES_MAX: Final = 8 << 20
_CHUNK_BYTES_DEFAULT: Final = 1 << 20

_Context = grpc.aio.ServicerContext[Any, Any]


def topic_message(topic: Topic) -> log_pb2.Topic:
    """A topic as a message."""
    return log_pb2.Topic(id=table_id_to_bytes(topic.id), name=topic.name, partitions=topic.partitions)


class LogService(log_pb2_grpc.LogServicer):
    """Each method asks the log and translates; errors end the call with a typed problem.

    `streams` are the reads under way; the server's shutdown ends them.
    """

    def __init__(self, log: Log, streams: OpenStreams | None = None) -> None:
        self._log = log
        self._streams = OpenStreams() if streams is None else streams

    async def CreateTopic(self, request: log_pb2.CreateTopicRequest, context: _Context) -> log_pb2.Topic:  # noqa: N802
        try:
            return topic_message(await self._log.create_topic(request.name, partitions=request.partitions))
        except DuramenError as error:
            await abort(context, error)

    async def AdoptTopic(self, request: log_pb2.AdoptTopicRequest, context: _Context) -> log_pb2.Topic:  # noqa: N802
        try:
            return topic_message(await self._log.adopt_topic(request.name))
        except DuramenError as error:
            await abort(context, error)

    async def DeleteTopic(  # noqa: N802
        self, request: log_pb2.DeleteTopicRequest, context: _Context
    ) -> log_pb2.DeleteTopicReply:
        try:
            await self._log.delete_topic(table_id_from_bytes(request.topic_id))
        except DuramenError as error:
            await abort(context, error)
        return log_pb2.DeleteTopicReply()

    async def Topics(self, request: log_pb2.TopicsRequest, context: _Context) -> log_pb2.TopicsReply:  # noqa: N802
        try:
            return log_pb2.TopicsReply(topics=[topic_message(topic) for topic in await self._log.topics()])
        except DuramenError as error:
            await abort(context, error)

    async def Append(self, request: log_pb2.AppendRequest, context: _Context) -> log_pb2.AppendReply:  # noqa: N802
        try:
            appended = await self._log.append(
                partition_id_from_bytes(request.topic_id, request.partition), request.batch
            )
        except DuramenError as error:
            await abort(context, error)
        return log_pb2.AppendReply(base_offset=appended.base_offset, timestamp_ms=appended.timestamp_ms)

    async def AppendMany(  # noqa: N802
        self, request: log_pb2.AppendManyRequest, context: _Context
    ) -> log_pb2.AppendManyReply:
        try:
            parts = [(partition_id_from_bytes(part.topic_id, part.partition), part.batch) for part in request.parts]
            results = await self._log.append_many(parts)
        except DuramenError as error:
            await abort(context, error)
        return log_pb2.AppendManyReply(results=[_append_result(result) for result in results])

    async def Read(self, request: log_pb2.LogReadRequest, context: _Context) -> None:  # noqa: N802
        chunk_bytes = min(request.chunk_bytes or _CHUNK_BYTES_DEFAULT, _CHUNK_BYTES_MAX)
        position = Offset(request.start)

        async def replies(_: HeldPage) -> AsyncGenerator[log_pb2.LogReadReply, None]:
            nonlocal position
            partition = partition_id_from_bytes(request.topic_id, request.partition)
            reader = self._log.read(partition, position, follow=request.follow, chunk_bytes=chunk_bytes)
            async with aclosing(reader) as chunks:
                async for chunk in chunks:
                    position = Offset(offsets_in(chunk.data)[1] + 1)
                    reply = log_pb2.LogReadReply(data=chunk.data, latest=chunk.latest, compacted=chunk.compacted)
                    if chunk.traced:
                        reply.traced.extend(messages_of(chunk.traced))
                    del chunk
                    yield reply
                    del reply

        try:
            await self._streams.send_on(context, replies)
        except DuramenError as error:
            await abort(context, error)

    async def Bounds(self, request: log_pb2.BoundsRequest, context: _Context) -> log_pb2.BoundsReply:  # noqa: N802
        try:
            bounds = await self._log.bounds(partition_id_from_bytes(request.topic_id, request.partition))
        except DuramenError as error:
            await abort(context, error)
        return log_pb2.BoundsReply(**bounds._asdict())

    async def AllBounds(  # noqa: N802
        self, request: log_pb2.AllBoundsRequest, context: _Context
    ) -> log_pb2.AllBoundsReply:
        try:
            found = await self._log.all_bounds(table_id_from_bytes(request.topic_id))
        except DuramenError as error:
            await abort(context, error)
        return log_pb2.AllBoundsReply(bounds=[log_pb2.BoundsReply(**bounds._asdict()) for bounds in found])

    async def Trim(self, request: log_pb2.TrimRequest, context: _Context) -> log_pb2.TrimReply:  # noqa: N802
        try:
            earliest = await self._log.trim(
                partition_id_from_bytes(request.topic_id, request.partition), Offset(request.before)
            )
        except DuramenError as error:
            await abort(context, error)
        return log_pb2.TrimReply(earliest=earliest)

    async def Retain(self, request: log_pb2.RetainRequest, context: _Context) -> log_pb2.TrimReply:  # noqa: N802
        try:
            earliest = await self._log.retain(
                partition_id_from_bytes(request.topic_id, request.partition),
                Retention(request.ms, request.bytes),
                below=Offset(request.below),
            )
        except DuramenError as error:
            await abort(context, error)
        return log_pb2.TrimReply(earliest=earliest)

    async def Compact(self, request: log_pb2.CompactRequest, context: _Context) -> log_pb2.CompactReply:  # noqa: N802
        try:
            dropped = await self._log.compact(
                partition_id_from_bytes(request.topic_id, request.partition), Offset(request.below)
            )
        except DuramenError as error:
            await abort(context, error)
        return log_pb2.CompactReply(dropped=dropped)


def _append_result(result: Appended | DuramenError) -> log_pb2.AppendResult:
    if isinstance(result, DuramenError):
        return log_pb2.AppendResult(problem=problem_of(result))
    return log_pb2.AppendResult(
        appended=log_pb2.AppendReply(base_offset=result.base_offset, timestamp_ms=result.timestamp_ms)
    )
