"""The services `duramen.v1.KeyValue` and `duramen.v1.Tables` over any data plane: local data, or a router's nodes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import grpc

from log_tier.access.current import CALLER
from log_tier.access.shown_tables import counted_for, shown_to
from log_tier.access.user_turns import run_in_turn
from log_tier.concurrency.sized_work import AT_ONCE_ITEMS_MAX, run_sized
from log_tier.model.batch_header import offsets_in
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import Offset, table_id_from_bytes
from log_tier.model.retention import Retention
from log_tier.rows.table_spec import TableSpec
from log_tier.rpc.open_streams import OpenStreams
from log_tier.rpc.problems import abort
from log_tier.rpc.stream_budget import HeldPage
from log_tier.rpc.time_left import time_left_s
from log_tier.tracing.indexes import place_all
from log_tier.tracing.span import TRACED
from router.data.catalog_tables import REF_ITEMS
from router.data.requests import ReadResult, WriteResult
from router.data.seam import DataPlane, TableAdmin
from router.proto import keyvalue_pb2 as kv
from router.proto import keyvalue_pb2_grpc, tables_pb2_grpc
from router.proto import tables_pb2 as tables
from router.remote import messages
from router.remote.definitions import change_from, definition_from, definition_message
from router.remote.partition_lists import offsets_from, partitions_from
from router.remote.reply_pieces import read_reply_pieces, write_reply_pieces
from router.remote.table_messages import description_message, table_message
from serving_tier.node.node_load import Load

__all__ = ["KeyValueService", "OpenDataPlane", "TablesService"]

_Context = grpc.aio.ServicerContext[Any, Any]

OpenDataPlane = Callable[[], Awaitable[DataPlane]]


class KeyValueService(keyvalue_pb2_grpc.KeyValueServicer):
    """Reads, writes, scans, watches. `streams` are the watches under way, which a shutdown ends."""

    def __init__(
        self,
        inner: DataPlane,
        streams: OpenStreams | None = None,
        load: Load | None = None,
        passing: OpenDataPlane | None = None,
    ) -> None:
        """`load` counts what is under way; a node reports it in its status. `passing`: opens a data plane that reaches
        what `inner` does not hold, for requests that want that; None where `inner` reaches all.
        """
        self._inner = inner
        self._passing = passing
        self._streams = OpenStreams() if streams is None else streams
        self._load = Load() if load is None else load

    async def _reaching_all(self) -> DataPlane:
        return self._inner if self._passing is None else await self._passing()

    async def Read(self, request: kv.ReadRequest, context: _Context) -> kv.ReadReply | bytes:  # noqa: N802
        try:
            decode = messages.read_parts_from
            small = request.ByteSize() <= 16 * AT_ONCE_ITEMS_MAX
            parts = decode(request) if small else await asyncio.to_thread(decode, request)
            load = self._load
            load.under_way += 1  # `with load`, without its two calls
            try:
                patience_s = request.patience_ms / 1000
                plane = await self._reaching_all() if request.pass_on else self._inner
                results = list(await plane.read(parts, timeout=time_left_s(context), patience=patience_s))
            finally:
                load.under_way -= 1
            if callers := TRACED.get():
                read = [(part.partition.partition, each) for part, each in zip(parts, results, strict=True)]
                place_all(callers, [(at, each.applied) for at, each in read if isinstance(each, ReadResult)])
            return messages.read_reply(results) if small else await asyncio.to_thread(_read_reply, results)
        except DuramenError as error:
            await abort(context, error)

    async def Write(self, request: kv.WriteRequest, context: _Context) -> kv.WriteReply | bytes:  # noqa: N802
        try:
            decode = messages.write_parts_from
            small = len(request.parts) <= AT_ONCE_ITEMS_MAX  # a lone write pays for nothing else
            parts = decode(request) if small else await asyncio.to_thread(decode, request)
            timeout, patience_s = time_left_s(context), request.patience_ms / 1000
            plane = await self._reaching_all() if request.pass_on else self._inner
            written = list(await plane.write(parts, timeout=timeout, patience=patience_s))
            if callers := TRACED.get():
                done = [(part.partition.partition, each) for part, each in zip(parts, written, strict=True)]
                place_all(callers, [(at, each.base_offset) for at, each in done if isinstance(each, WriteResult)])
            if _is_short(written):
                return messages.write_reply(written)
            return await asyncio.to_thread(_write_reply, written)
        except DuramenError as error:
            await abort(context, error)

    async def Outcomes(self, request: kv.OutcomesRequest, context: _Context) -> kv.WriteReply | bytes:  # noqa: N802
        try:
            parts = await run_in_turn(len(request.parts), lambda: messages.outcomes_parts_from(request))
            with self._load:
                plane = await self._reaching_all() if request.pass_on else self._inner
                found = list(await plane.outcomes(parts, timeout=time_left_s(context)))
                return messages.write_reply(found) if _is_short(found) else await asyncio.to_thread(_write_reply, found)
        except DuramenError as error:
            await abort(context, error)

    async def Scan(self, request: kv.ScanRequest, context: _Context) -> kv.ScanReply:  # noqa: N802
        try:
            with self._load:
                plane = await self._reaching_all() if request.pass_on else self._inner
                result = await plane.scan(messages.scan_from(request), timeout=time_left_s(context))
            return await run_in_turn(len(result.keys), lambda: messages.scan_reply(result))
        except DuramenError as error:
            await abort(context, error)

    async def Watch(self, request: kv.WatchRequest, context: _Context) -> None:  # noqa: N802
        try:
            positions, partitions = offsets_from(request.start), partitions_from(request.partitions)
            plane = await self._reaching_all() if request.pass_on else self._inner
            table_id, begun = table_id_from_bytes(request.table_id), False

            async def replies(held: HeldPage) -> AsyncGenerator[kv.WatchReply, None]:
                nonlocal begun
                async with aclosing(plane.watch(table_id, positions, partitions)) as events:
                    async for event in events:
                        if event.positions is None:
                            positions[event.partition] = Offset(offsets_in(event.batches)[1] + 1)
                            held.hold_whole(len(event.batches))
                        elif begun:
                            continue  # the stream was opened again behind what was sent
                        else:
                            positions.update(event.positions)
                            begun = True
                        yield messages.watch_reply(event)
                        held.release()
                        del event

            await self._streams.send_on(context, replies)
        except DuramenError as error:
            await abort(context, error)

    async def Producer(self, request: kv.ProducerRequest, context: _Context) -> kv.ProducerReply:  # noqa: N802
        try:
            plane = await self._reaching_all() if request.pass_on else self._inner
            found = await plane.producer(
                table_id_from_bytes(request.table_id),
                request.producer_id,
                timeout=time_left_s(context),
                partitions=partitions_from(request.partitions),
            )
        except DuramenError as error:
            await abort(context, error)
        return kv.ProducerReply(
            positions=[
                kv.ProducerPosition(partition=partition, last_sequence=sequence)
                for partition, sequence in found.items()
            ]
        )


def _read_reply(results: list[ReadResult | DuramenError]) -> bytes:
    reply = b"".join(read_reply_pieces(results))
    results.clear()  # here, and not on the loop: to free thousands of errors and their tracebacks takes 30 ms
    return reply


def _write_reply(results: list[WriteResult | DuramenError]) -> bytes:
    reply = b"".join(write_reply_pieces(results))
    results.clear()  # here, and not on the loop: to free what is about 50,000 records takes 40 ms
    return reply


def _is_short(results: Sequence[WriteResult | DuramenError]) -> bool:
    """May the event loop encode them itself?"""
    items = len(results)  # there is one thing to say about each part, and one about each record with an outcome
    for result in results:
        if isinstance(result, WriteResult):
            items += len(result.outcomes)
    return items <= AT_ONCE_ITEMS_MAX


class TablesService(tables_pb2_grpc.TablesServicer):
    """Create, find, list, describe, alter, set the retention, drop."""

    def __init__(self, inner: TableAdmin) -> None:
        self._inner = inner

    async def Create(self, request: tables.CreateTableRequest, context: _Context) -> tables.Table:  # noqa: N802
        try:
            spec = TableSpec(
                request.name,
                request.partitions,
                request.replicas,
                request.over,
                request.partitioner,
                Retention(request.retention_ms, request.retention_bytes),
                definition_from(request.definition) if request.HasField("definition") else None,
            )
            return table_message(await self._inner.create_table(spec, timeout=time_left_s(context)))
        except DuramenError as error:
            await abort(context, error)

    async def Find(self, request: tables.FindTableRequest, context: _Context) -> tables.Table:  # noqa: N802
        try:
            return table_message(await self._inner.find_table(request.name, timeout=time_left_s(context)))
        except DuramenError as error:
            await abort(context, error)

    async def Definition(  # noqa: N802
        self, request: tables.DefinitionRequest, context: _Context
    ) -> tables.TableDefinition:
        try:
            table_id = table_id_from_bytes(request.table_id)
            left_s = time_left_s(context)
            return definition_message(await self._inner.definition(table_id, schema=request.schema, timeout=left_s))
        except DuramenError as error:
            await abort(context, error)

    async def Alter(self, request: tables.AlterTableRequest, context: _Context) -> tables.TableDefinition:  # noqa: N802
        try:
            change = await asyncio.to_thread(change_from, request)
            altered = await self._inner.alter_table(request.name, change, timeout=time_left_s(context))
            return definition_message(altered)
        except DuramenError as error:
            await abort(context, error)

    async def List(self, request: tables.ListTablesRequest, context: _Context) -> tables.ListTablesReply:  # noqa: N802
        try:
            is_shown = shown_to(CALLER.get())
            found = [
                each for each in await self._inner.list_tables(timeout=time_left_s(context)) if is_shown(each.name)
            ]
        except DuramenError as error:
            await abort(context, error)

        def encode() -> tables.ListTablesReply:
            return tables.ListTablesReply(tables=[table_message(ref) for ref in found])

        return await run_sized(REF_ITEMS * len(found), encode)

    async def Describe(  # noqa: N802
        self, request: tables.FindTableRequest, context: _Context
    ) -> tables.TableDescription:
        try:
            found = await self._inner.describe_table(request.name, timeout=time_left_s(context))
            if not counted_for(CALLER.get(), request.name):
                found = replace(found, partitions=[part.uncounted() for part in found.partitions])
            return description_message(found)
        except DuramenError as error:
            await abort(context, error)

    async def SetRetention(  # noqa: N802
        self, request: tables.SetRetentionRequest, context: _Context
    ) -> tables.SetRetentionReply:
        try:
            retention = await self._inner.set_retention(
                request.name,
                ms=request.retention_ms if request.HasField("retention_ms") else None,
                size=request.retention_bytes if request.HasField("retention_bytes") else None,
                timeout=time_left_s(context),
            )
        except DuramenError as error:
            await abort(context, error)
        return tables.SetRetentionReply(retention_ms=retention.ms, retention_bytes=retention.bytes)

    async def Drop(self, request: tables.FindTableRequest, context: _Context) -> tables.DropTableReply:  # noqa: N802
        try:
            await self._inner.drop_table(request.name, timeout=time_left_s(context))
        except DuramenError as error:
            await abort(context, error)
        return tables.DropTableReply()
