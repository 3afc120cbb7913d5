"""The server's side of the door: `duramen.v1.KeyValue` and `duramen.v1.Tables` over a front."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, Final, cast

import grpc

from log_tier.errors import DuramenError
from log_tier.identifiers import Offset, Partition, table_id_from_bytes
from log_tier.service.problems import abort
from log_tier.service.streams import OpenStreams
from router.front import Front
from router.grpc_door import messages
from router.proto import keyvalue_pb2 as kv
from router.proto import keyvalue_pb2_grpc, tables_pb2_grpc
from router.proto import tables_pb2 as tables

__all__ = ["KeyValueService", "TablesService"]

_Context = grpc.aio.ServicerContext[Any, Any]

# For callers that set no deadline: nobody waits for ever by accident.
_TIMEOUT_DEFAULT_S: Final = 30.0

# The reply must be on its way before the caller's deadline, else it learns nothing of what we know.
_REPLY_MARGIN_S: Final = 0.02


def _timeout(context: _Context) -> float:
    remaining = context.time_remaining()
    if remaining is None:
        return _TIMEOUT_DEFAULT_S
    return max(0.0, min(remaining - _REPLY_MARGIN_S, 3600.0))


class KeyValueService(keyvalue_pb2_grpc.KeyValueServicer):
    """Reads, writes, scans, watches. `streams` are the watches under way, for whoever shuts the server down."""

    def __init__(self, front: Front, streams: OpenStreams | None = None) -> None:
        self._front = front
        self._streams = OpenStreams() if streams is None else streams

    async def Read(self, request: kv.ReadRequest, context: _Context) -> kv.ReadReply:  # noqa: N802
        try:
            parts = messages.read_parts_from(request)
            results = await self._front.read(parts, timeout=_timeout(context), patience=request.patience_ms / 1000)
            return messages.read_reply(results)
        except DuramenError as error:
            await abort(context, error)

    async def Write(self, request: kv.WriteRequest, context: _Context) -> kv.WriteReply:  # noqa: N802
        try:
            parts = messages.write_parts_from(request)
            return messages.write_reply(await self._front.write(parts, timeout=_timeout(context)))
        except DuramenError as error:
            await abort(context, error)

    async def Scan(self, request: kv.ScanRequest, context: _Context) -> kv.ScanReply:  # noqa: N802
        try:
            result = await self._front.scan(messages.scan_from(request), timeout=_timeout(context))
            return messages.scan_reply(result)
        except DuramenError as error:
            await abort(context, error)

    async def Watch(self, request: kv.WatchRequest, context: _Context) -> AsyncIterator[kv.WatchReply]:  # noqa: N802
        try:
            start = {Partition(entry.partition): Offset(entry.offset) for entry in request.start}
            watch = self._front.watch(table_id_from_bytes(request.table_id), start)
            async with self._streams.served(), aclosing(cast("Any", watch)) as events:
                async for event in events:
                    yield messages.watch_reply(event)
        except DuramenError as error:
            await abort(context, error)

    async def Producer(self, request: kv.ProducerRequest, context: _Context) -> kv.ProducerReply:  # noqa: N802
        try:
            found = await self._front.producer(
                table_id_from_bytes(request.table_id), request.producer_id, timeout=_timeout(context)
            )
        except DuramenError as error:
            await abort(context, error)
        return kv.ProducerReply(
            positions=[
                kv.ProducerPosition(partition=partition, last_sequence=sequence)
                for partition, sequence in found.items()
            ]
        )


class TablesService(tables_pb2_grpc.TablesServicer):
    """Create, find, list, describe, drop."""

    def __init__(self, front: Front) -> None:
        self._front = front

    async def Create(self, request: tables.CreateTableRequest, context: _Context) -> tables.Table:  # noqa: N802
        try:
            return messages.table_message(
                await self._front.create_table(request.name, partitions=request.partitions, timeout=_timeout(context))
            )
        except DuramenError as error:
            await abort(context, error)

    async def Find(self, request: tables.FindTableRequest, context: _Context) -> tables.Table:  # noqa: N802
        try:
            return messages.table_message(await self._front.find_table(request.name, timeout=_timeout(context)))
        except DuramenError as error:
            await abort(context, error)

    async def List(self, request: tables.ListTablesRequest, context: _Context) -> tables.ListTablesReply:  # noqa: N802
        try:
            found = await self._front.list_tables(timeout=_timeout(context))
        except DuramenError as error:
            await abort(context, error)
        return tables.ListTablesReply(tables=[messages.table_message(topic) for topic in found])

    async def Describe(  # noqa: N802
        self, request: tables.FindTableRequest, context: _Context
    ) -> tables.TableDescription:
        try:
            return messages.description_message(
                await self._front.describe_table(request.name, timeout=_timeout(context))
            )
        except DuramenError as error:
            await abort(context, error)

    async def Drop(self, request: tables.FindTableRequest, context: _Context) -> tables.DropTableReply:  # noqa: N802
        try:
            await self._front.drop_table(request.name, timeout=_timeout(context))
        except DuramenError as error:
            await abort(context, error)
        return tables.DropTableReply()
