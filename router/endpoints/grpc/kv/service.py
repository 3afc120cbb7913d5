"""The server's side of `duramen.v1.KV`: each call, from its message to its reply."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import Any, Final, TypeVar, cast

import grpc

from log_tier.access.user_turns import run_in_turn
from log_tier.concurrency.sized_work import Turn
from log_tier.model.batch import Columns
from log_tier.model.errors import DuramenError, LimitExceeded, TableNotFound
from log_tier.model.identifiers import Offset, Partition, partition_id
from log_tier.model.record import check_key
from log_tier.model.table_ref import TableRef
from log_tier.model.tokens import Token
from log_tier.rows.json_rows.json_table import JsonTable
from log_tier.rpc.open_streams import OpenStreams
from log_tier.rpc.problems import abort
from log_tier.rpc.time_left import time_left_s
from router.data.freshness import Freshness
from router.data.gather.pending_calls import CallOutcome
from router.data.requests import READ_REPLY_BYTES_MAX, ReadResult
from router.endpoints.grpc.kv.finds import find_pages
from router.endpoints.grpc.kv.forms import TableText, TextForms
from router.endpoints.grpc.kv.freshness import check_token, freshness_of, parse_token
from router.endpoints.grpc.kv.plane import OpenPlane, Plane
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

__all__ = ["GET_MANY_KEYS_MAX", "KVService"]

_Context = grpc.aio.ServicerContext[Any, Any]

T = TypeVar("T")

# A reply is held whole by both ends, and a key costs some microseconds of the event loop.
GET_MANY_KEYS_MAX: Final = 10_000

# To begin the read of a partition costs as much as to read so many keys.
_READ_ITEMS: Final = 10


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
            freshness = freshness_of(table, token, request)
            text = request.form and await self._forms.of(plane.connection, table, request.form, deadline)
            key = check_key(text.form.key(request.key) if text else request.key)
            partition = table.partition_of(key)
            result = await _read(plane, table, [key], freshness, deadline)
            return kv.KVGetResponse(
                value=await _text_of(text, result.values[0]) if text else result.values[0],
                version=result.versions[0],
                expires_at_ms=result.expiries[0] if result.expiries else 0,
                token=token_text(table, {partition: result.applied}, token),
            )

        with self._load:
            return await self._answer(request.table, context, get)

    async def GetMany(self, request: kv.KVGetManyRequest, context: _Context) -> kv.KVGetManyResponse:  # noqa: N802
        async def get_many(plane: Plane, table: TableRef, deadline: float) -> kv.KVGetManyResponse:
            token = parse_token(request.after)
            freshness = freshness_of(table, token, request)
            asked: Sequence[bytes] = request.keys
            text = request.form and await self._forms.of(plane.connection, table, request.form, deadline)
            if text:
                check_count(request.keys)
                asked = await text.converted(
                    sum(map(len, request.keys)), lambda form: [form.key(key) for key in request.keys]
                )
            keys, places = await run_in_turn(len(asked), lambda: _placed_keys(table, asked))
            results = await _together(
                places.values(),
                lambda mine: _read(plane, table, [keys[place] for place in mine], freshness, deadline),
            )

            if text:
                await text.meet(value for result in results for value in result.values)

            def reply(form: JsonTable | None = None) -> kv.KVGetManyResponse:
                entries: list[kv.KVEntry | None] = [None] * len(keys)
                for mine, result in zip(places.values(), results, strict=True):
                    for number, place in enumerate(mine):
                        entries[place] = entry_of(keys[place], result, number)
                _check_size(_sizes(entries if form is None else _shown_each(form, entries)))
                applied = {partition: result.applied for partition, result in zip(places, results, strict=True)}
                return kv.KVGetManyResponse(
                    entries=[entry for entry in entries if entry is not None],
                    token=token_text(table, applied, token),
                )

            if text:
                size = sum(len(value) for result in results for value in result.values if value is not None)
                return await text.converted(len(keys) * _READ_ITEMS + size, reply)
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


async def _read(
    plane: Plane, table: TableRef, keys: Sequence[bytes], freshness: Freshness, deadline: float
) -> ReadResult:
    """Read keys of one partition."""
    partition = partition_id(table.id, table.partition_of(keys[0]))
    return await plane.reads.submit(
        table,
        partition,
        keys,
        after=freshness.after(partition.partition),
        strong=freshness.strong,
        seen=False,
        deadline=deadline,
        lag_max_ms=freshness.lag_max_ms,
    )


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


async def _together(
    shares: Iterable[Sequence[int]], read: Callable[[Sequence[int]], Coroutine[Any, Any, ReadResult]]
) -> list[ReadResult]:
    """The reads of all shares, or the first error, with nobody left waiting. Some of them begin in each turn."""
    turn = Turn()
    tasks: list[asyncio.Task[ReadResult]] = []
    try:
        async with asyncio.TaskGroup() as group:
            for share in shares:
                tasks.append(group.create_task(read(share)))
                if turn.is_full(_READ_ITEMS):
                    await turn.end()
    except* DuramenError as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


def _placed_keys(table: TableRef, keys: Sequence[bytes]) -> tuple[Sequence[bytes], dict[Partition, list[int]]]:
    """The keys, and where in them those of each partition are."""
    check_count(keys)
    places: dict[Partition, list[int]] = {}
    for place, key in enumerate(keys):
        places.setdefault(table.partition_of(check_key(key)), []).append(place)
    return keys, places


def check_count(keys: Sequence[bytes]) -> None:
    """Raises `LimitExceeded` for more keys than a GetMany takes."""
    if len(keys) > GET_MANY_KEYS_MAX:
        raise LimitExceeded(
            f"a GetMany asks for at most {GET_MANY_KEYS_MAX} keys, this one for {len(keys)}: split it",
            limit=GET_MANY_KEYS_MAX,
            size=len(keys),
        )


def _sizes(entries: Iterable[kv.KVEntry | None]) -> Iterator[int]:
    return (entry.ByteSize() for entry in entries if entry is not None)


def _shown_each(form: JsonTable, entries: Iterable[kv.KVEntry | None]) -> Iterator[kv.KVEntry]:
    for entry in entries:
        if entry is not None:
            yield from shown_entries(form, [entry])


def _check_size(sizes: Iterable[int]) -> None:
    """Raises `LimitExceeded` as soon as they are too many for a reply."""
    size = 0
    for each in sizes:
        size += each
        if size > READ_REPLY_BYTES_MAX:
            raise LimitExceeded(
                f"the reply would have {size} bytes, a reply has at most {READ_REPLY_BYTES_MAX}: ask for fewer keys",
                limit=READ_REPLY_BYTES_MAX,
                size=size,
            )


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
