"""Watches: from stored batches to changes, in messages that a client's default limit lets in.

W1  The changes of a partition are sent in the order of its log, each once, without rejected records and without the
    second copies of repeated ones.
W2  A message's token names what was sent up to and with it, in all partitions: a watch after it goes on exactly there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import aclosing
from typing import Any, Final, cast

from log_tier.concurrency.backoff import Backoff
from log_tier.concurrency.sized_work import each_sized
from log_tier.model.batch import decode_batch
from log_tier.model.batch_header import place_of, split_batches
from log_tier.model.errors import InvalidRequest, TableNotFound, Unavailable
from log_tier.model.identifiers import NOTHING, Offset, Partition
from log_tier.model.record import OPERATION_MASK, PLAIN_PUT, Operation
from log_tier.model.table_ref import TableRef
from log_tier.model.tokens import Token
from router.data.requests import WatchEvent
from router.data.seam import Connection
from router.endpoints.grpc.kv.freshness import check_token, parse_token
from router.endpoints.grpc.kv.results import token_text
from router.endpoints.grpc.kv.scans import MESSAGE_BYTES_MAX, MESSAGE_ENTRIES_MAX
from router.proto import kv_pb2 as kv

__all__ = ["watch_changes"]

# A node takes about 50 ms to report a replica that was opened.
_PAUSE_FIRST_S: Final = 0.05
_PAUSE_MAX_S: Final = 0.4

_SILENT: Final = frozenset({int(Operation.NOOP), int(Operation.VOID)})
"""Records that change nothing and say nothing to a subscriber."""


async def _start(
    connection: Connection, table: TableRef, request: kv.KVWatchRequest, token: Token | None, timeout: float
) -> dict[Partition, Offset]:
    """The first offset wanted of each partition; those that are not named begin at the end."""
    if request.start not in kv.KVWatchStart.values():
        raise InvalidRequest(f"start is one of {', '.join(kv.KVWatchStart.keys())}, not {request.start}")
    if token is not None:
        if request.start != kv.KV_WATCH_START_UNSPECIFIED:
            raise InvalidRequest("give one of after and start")
        named = check_token(table, token)
        every = map(Partition, range(table.partitions))
        return {partition: Offset(named.get(partition, NOTHING) + 1) for partition in every}
    if request.start == kv.KV_WATCH_START_EARLIEST:
        description = await connection.describe_table(table.name, timeout=timeout)
        if description.table.id != table.id:
            raise TableNotFound(f"table {table.name} was dropped and made again; watch it anew", table=table.name)
        return {part.partition: part.earliest for part in description.partitions}
    return {}


async def watch_changes(
    connection: Connection, table: TableRef, request: kv.KVWatchRequest, timeout: float
) -> AsyncIterator[kv.KVWatchResponse]:
    """Yield a message with the watch's place, then changes for ever. `timeout` in seconds is for finding its start."""
    backoff = Backoff(_PAUSE_FIRST_S, _PAUSE_MAX_S, deadline_s=asyncio.get_running_loop().time() + timeout)
    after = parse_token(request.after)
    start = await _start(connection, table, request, after, timeout)
    seen: dict[Partition, Offset] = {}
    while True:
        # A stream that ended goes on behind what was sent.
        begin = {partition: Offset(offset + 1) for partition, offset in seen.items()} or start
        try:
            async with aclosing(connection.watch(table.id, begin)) as events:
                async for event in events:
                    if event.positions is not None:
                        seen = {partition: Offset(position - 1) for partition, position in event.positions.items()}
                        yield kv.KVWatchResponse(token=token_text(table, seen, after))
                        continue
                    # A record has a few dozen bytes at least.
                    messages = each_sized(len(event.batches) // 32, _messages(table, event, seen, after))
                    async for message in messages:
                        yield message
        except Unavailable:
            # Of a table that was just made this server may not know yet who serves it.
            if seen or not await backoff.pause():
                raise
        else:
            await asyncio.sleep(backoff.next_s())


def _messages(
    table: TableRef, event: WatchEvent, seen: dict[Partition, Offset], after: Token | None
) -> Iterator[kv.KVWatchResponse]:
    """An event's changes from behind `seen` on, which learns how far they go."""
    partition = event.partition
    message, room = kv.KVWatchResponse(), MESSAGE_BYTES_MAX
    for change, offset in _changes(table, event, seen):
        if change is not None:
            if room <= 0 or len(message.changes) >= MESSAGE_ENTRIES_MAX:
                message.token = token_text(table, seen, after)
                yield message
                message, room = kv.KVWatchResponse(), MESSAGE_BYTES_MAX
            message.changes.append(change)
            room -= len(change.key) + len(change.value)
        seen[partition] = offset
    if message.changes:
        message.token = token_text(table, seen, after)
        yield message


def _changes(
    table: TableRef, event: WatchEvent, seen: Mapping[Partition, Offset]
) -> Iterator[tuple[kv.KVChange | None, Offset]]:
    """Every offset of an event that was not seen, with its change where it is one."""
    void = frozenset(event.void_offsets)
    shown = seen[event.partition]
    place = place_of(table.partition(event.partition))
    for data in split_batches(event.batches):
        batch = decode_batch(data, place)
        columns, timestamp_ms = batch.columns, batch.header.timestamp_ms
        attributes = columns.attributes
        for number, offset in enumerate(batch.offsets()):
            if offset <= shown:
                continue
            code = PLAIN_PUT if attributes is None else attributes[number] & OPERATION_MASK
            if offset in void or code in _SILENT:
                yield None, Offset(offset)
                continue
            yield (
                kv.KVChange(
                    operation=cast("Any", code),  # the numbers are the log's own
                    key=columns.keys[number],
                    value=None if code == Operation.DELETE else columns.values[number],
                    version=offset,
                    timestamp_ms=timestamp_ms,
                    partition=event.partition,
                ),
                Offset(offset),
            )
        if batch.header.last_offset > shown:
            yield None, batch.header.last_offset
