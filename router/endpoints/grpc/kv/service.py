"""The server's side of `duramen.v1.KV`: each call, from its message to its reply."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import Any, TypeVar, cast

import grpc

from log_tier.access.user_turns import run_in_turn
from log_tier.model.batch import Columns
from log_tier.model.errors import DuramenError, TableNotFound
from log_tier.model.identifiers import Offset, partition_id
from log_tier.model.record import check_key
from log_tier.model.table_ref import TableRef
from log_tier.model.tokens import Token
from log_tier.rows.json_rows.json_table import JsonTable
from log_tier.rpc.open_streams import OpenStreams
from log_tier.rpc.problems import abort
from log_tier.rpc.time_left import time_left_s
from router.data.gather.pending_calls import CallOutcome
from router.endpoints.grpc.kv.finds import find_pages
from router.endpoints.grpc.kv.forms import TableText, TextForms
from router.endpoints.grpc.kv.freshness import check_token, freshness_of, parse_token
from router.endpoints.grpc.kv.past import history_of, past_of, token_of
from router.endpoints.grpc.kv.plane import OpenPlane, Plane
from router.endpoints.grpc.kv.reads import READ_ITEMS, check_count, check_size, placed_keys, read_shares
from router.endpoints.grpc.kv.records import (
    check_group,
    delete_record,
    group_of,
    partition_of_group,
    put_record,
    update_record,
)
from router.endpoints.grpc.kv.results import entry_of, token_text
from router.endpoints.grpc.kv.scans import scan_pages
from router.endpoints.grpc.kv.texts import shown_entries, stored_update, stored_write
from router.endpoints.grpc.kv.watches import ChangeStream
from router.proto import kv_pb2 as kv
from router.proto import kv_pb2_grpc
from serving_tier.node.node_load import Load

__all__ = ["KVService"]

_Context = grpc.aio.ServicerContext[Any, Any]

T = TypeVar("T")


class KVService(kv_pb2_grpc.KVServicer):
    """One per server. It keeps nothing of its callers."""

    def __init__(
        self,
        plane: OpenPlane,
        streams: OpenStreams | None = None,
        load: Load | None = None,
        forms: TextForms | None = None,
    ) -> None:
        """`streams`: the watches under way, which a shutdown ends; `load` counts the reads under way. `forms`: those
        that the server's other services have.
        """
        self._plane = plane
        self._streams = OpenStreams() if streams is None else streams
        self._load = Load() if load is None else load
        self._forms = TextForms() if forms is None else forms
        self._loop = asyncio.get_running_loop()

    # --- reads

    async def Get(self, request: kv.KVGetRequest, context: _Context) -> kv.KVGetResponse:  # noqa: N802
        async def get(plane: Plane, table: TableRef, deadline: float) -> kv.KVGetResponse:
            token = parse_token(request.after)
            past = past_of(table, request)
            asked = past or freshness_of(table, token, request)
            text = request.form and await self._forms.of(plane.connection, table, request.form, deadline)
            key = check_key(text.form.key(request.key) if text else request.key)
            partition = table.partition_of(key)
            (result,) = await read_shares(plane, table, [(key,)], asked, deadline)
            return kv.KVGetResponse(
                value=await _text_of(text, result.values[0]) if text else result.values[0],
                version=result.versions[0],
                expires_at_ms=result.expiries[0] if result.expiries else 0,
                token=token_text(table, {partition: result.applied}, token_of(past, token)),
            )

        with self._load:
            return await self._answer(request.table, context, get)

    async def History(self, request: kv.KVHistoryRequest, context: _Context) -> kv.KVHistoryResponse:  # noqa: N802
        async def history(plane: Plane, table: TableRef, deadline: float) -> kv.KVHistoryResponse:
            text = await self._forms.of(plane.connection, table, request.form, deadline)
            return await history_of(plane, table, request, deadline, text)

        with self._load:
            return await self._answer(request.table, context, history)

    async def GetMany(self, request: kv.KVGetManyRequest, context: _Context) -> kv.KVGetManyResponse:  # noqa: N802
        async def get_many(plane: Plane, table: TableRef, deadline: float) -> kv.KVGetManyResponse:
            token = parse_token(request.after)
            past = past_of(table, request)
            wanted = past or freshness_of(table, token, request)
            asked: Sequence[bytes] = request.keys
            text = request.form and await self._forms.of(plane.connection, table, request.form, deadline)
            if text:
                check_count(request.keys)
                asked = await text.converted(
                    sum(map(len, request.keys)), lambda form: [form.key(key) for key in request.keys]
                )
            keys, places = await run_in_turn(len(asked), lambda: placed_keys(table, asked))
            shares = [[keys[place] for place in mine] for mine in places.values()]
            results = await read_shares(plane, table, shares, wanted, deadline)

            if text:
                await text.meet(value for result in results for value in result.values)

            def reply(form: JsonTable | None = None) -> kv.KVGetManyResponse:
                entries: list[kv.KVEntry | None] = [None] * len(keys)
                for mine, result in zip(places.values(), results, strict=True):
                    for number, place in enumerate(mine):
                        entries[place] = entry_of(keys[place], result, number)
                check_size(_sizes(entries if form is None else _shown_each(form, entries)))
                applied = {partition: result.applied for partition, result in zip(places, results, strict=True)}
                return kv.KVGetManyResponse(
                    entries=[entry for entry in entries if entry is not None],
                    token=token_text(table, applied, token_of(past, token)),
                )

            if text:
                size = sum(len(value) for result in results for value in result.values if value is not None)
                return await text.converted(len(keys) * READ_ITEMS + size, reply)
            return await run_in_turn(len(keys), reply)

        with self._load:
            return await self._answer(request.table, context, get_many)

    async def Scan(self, request: kv.KVScanRequest, context: _Context) -> None:  # noqa: N802
        async def pages(plane: Plane, table: TableRef, deadline: float) -> None:
            text = await self._forms.of(plane.connection, table, request.form, deadline)
            async with self._streams.served(context):
                with self._streams.budget.stream() as held:
                    await _sent(context, scan_pages(plane.connection, table, request, deadline, held, text))

        with self._load:
            await self._stream(request.table, context, pages)

    async def Find(self, request: kv.KVFindRequest, context: _Context) -> None:  # noqa: N802
        async def pages(plane: Plane, table: TableRef, deadline: float) -> None:
            rows, as_text = await self._forms.of_rows(plane.connection, table, request.form, deadline)
            async with self._streams.served(context):
                with self._streams.budget.stream() as held:
                    found = find_pages(plane.connection, table, request, deadline, held, rows, as_text=as_text)
                    await _sent(context, found)

        with self._load:
            await self._stream(request.table, context, pages)

    async def Watch(self, request: kv.KVWatchRequest, context: _Context) -> None:  # noqa: N802
        async def changes(plane: Plane, table: TableRef, deadline: float) -> None:
            text = await self._forms.of(plane.connection, table, request.form, deadline)
            if text is not None:
                text.lasts()
            watch = ChangeStream(plane.connection, table, request, deadline - self._loop.time(), text)
            await self._streams.send_on(context, watch.messages)

        await self._stream(request.table, context, changes)

    async def EndToken(self, request: kv.KVEndTokenRequest, context: _Context) -> kv.KVEndTokenResponse:  # noqa: N802
        async def end_token(plane: Plane, table: TableRef, deadline: float) -> kv.KVEndTokenResponse:
            description = await plane.connection.describe_table(table.name, timeout=deadline - self._loop.time())
            latest = {part.partition: part.latest for part in description.partitions}
            return kv.KVEndTokenResponse(token=token_text(description.table, latest, None))

        return await self._answer(request.table, context, end_token)

    # --- writes

    async def Put(self, request: kv.KVPutRequest, context: _Context) -> kv.KVPutResponse:  # noqa: N802
        async def put(plane: Plane, table: TableRef, deadline: float) -> kv.KVPutResponse:
            asked = request
            text = request.form and await self._forms.of(plane.connection, table, request.form, deadline)
            if text:
                size = len(request.key) + len(request.value)
                asked = await text.stored(size, lambda form: stored_write(form, request))
            record, judged = put_record(asked)
            written, token = await _write(plane, table, record, judged, request.after, deadline)
            return kv.KVPutResponse(version=written.offset, token=token)

        return await self._answer(request.table, context, put)

    async def Delete(self, request: kv.KVDeleteRequest, context: _Context) -> kv.KVDeleteResponse:  # noqa: N802
        async def delete(plane: Plane, table: TableRef, deadline: float) -> kv.KVDeleteResponse:
            text = request.form and await self._forms.of(plane.connection, table, request.form, deadline)
            record, judged = delete_record(request, text.form.key(request.key) if text else request.key)
            _, token = await _write(plane, table, record, judged, request.after, deadline)
            return kv.KVDeleteResponse(version=-1, token=token)

        return await self._answer(request.table, context, delete)

    async def Update(self, request: kv.KVUpdateRequest, context: _Context) -> kv.KVUpdateResponse:  # noqa: N802
        async def update(plane: Plane, table: TableRef, deadline: float) -> kv.KVUpdateResponse:
            asked = request
            text = request.form and await self._forms.of(plane.connection, table, request.form, deadline)
            if text:
                size = len(request.key) + len(request.patch)
                asked = await text.stored(size, lambda form: stored_update(form, request))
            record = update_record(asked)
            written, token = await _write(plane, table, record, True, request.after, deadline)
            value = written.results[0] if written.results else None
            return kv.KVUpdateResponse(value=value or b"", version=written.offset, token=token)

        return await self._answer(request.table, context, update)

    async def Write(self, request: kv.KVWriteRequest, context: _Context) -> kv.KVWriteResponse:  # noqa: N802
        async def write(plane: Plane, table: TableRef, deadline: float) -> kv.KVWriteResponse:
            writes: Sequence[kv.KVWrite] = request.writes
            text = request.form and await self._forms.of(plane.connection, table, request.form, deadline)
            if text:
                check_group(request.writes)
                size = request.ByteSize()
                writes = await text.stored(size, lambda form: [stored_write(form, each) for each in request.writes])
            records = await run_in_turn(len(writes), lambda: group_of(writes))
            written, token = await _write(plane, table, records, True, request.after, deadline)
            values = written.results or [None] * len(request.writes)

            def reply() -> kv.KVWriteResponse:
                results = [
                    kv.KVWriteResult(version=-1 if each.delete else written.offset + number, value=value or b"")
                    for number, (each, value) in enumerate(zip(request.writes, values, strict=True))
                ]
                return kv.KVWriteResponse(results=results, token=token)

            return await run_in_turn(len(values), reply)

        return await self._answer(request.table, context, write)

    # --- common to all

    async def _answer(self, name: str, context: _Context, call: Callable[[Plane, TableRef, float], Awaitable[T]]) -> T:
        """Find the table, make the call, and turn its error into a status."""
        deadline = self._loop.time() + time_left_s(context)
        try:
            plane = await self._plane()
            table = await plane.connection.find_table(name, timeout=deadline - self._loop.time())
            try:
                return await call(plane, table, deadline)
            except TableNotFound:
                # Just dropped and made again: the name means the new table. Nothing was done to the old one.
                found = await plane.connection.find_table(name, timeout=deadline - self._loop.time())
                if found.id == table.id:
                    raise
                return await call(plane, found, deadline)
        except DuramenError as error:
            await abort(context, error)

    async def _stream(
        self, name: str, context: _Context, send: Callable[[Plane, TableRef, float], Awaitable[None]]
    ) -> None:
        """`_answer` for a stream, which sends its messages itself."""
        deadline = self._loop.time() + time_left_s(context)
        try:
            plane = await self._plane()
            await send(plane, await plane.connection.find_table(name, timeout=deadline - self._loop.time()), deadline)
        except DuramenError as error:
            await abort(context, error)


async def _write(
    plane: Plane, table: TableRef, records: Columns, judged: bool, after: str, deadline: float
) -> tuple[CallOutcome, str]:
    """Write records of one partition; what became of them, and the reply's token."""
    token: Token | None = parse_token(after)
    check_token(table, token)
    partition = await run_in_turn(len(records.keys), lambda: partition_of_group(table, records.keys))
    place = partition_id(table.id, partition)
    written = await plane.writes.submit(table, place, records, outcomes=judged, deadline=deadline)
    return written, token_text(table, {partition: Offset(written.last)}, token)


def _sizes(entries: Iterable[kv.KVEntry | None]) -> Iterator[int]:
    return (entry.ByteSize() for entry in entries if entry is not None)


def _shown_each(form: JsonTable, entries: Iterable[kv.KVEntry | None]) -> Iterator[kv.KVEntry]:
    for entry in entries:
        if entry is not None:
            yield from shown_entries(form, [entry])


async def _text_of(text: TableText, value: bytes | None) -> bytes | None:
    """The text of a stored value; None where there is none."""
    if value is None:
        return None
    await text.meet([value])
    return await text.converted(len(value), lambda form: form.value_text(value))


async def _sent(context: _Context, made: AsyncIterator[Any]) -> None:
    """Send a stream's messages."""
    async with aclosing(cast("Any", made)) as messages:
        async for message in messages:
            await context.write(message)
