"""Watches: from stored batches to changes, in messages that a client's default limit lets in.

W1  The changes of a partition are sent in the order of its log, each once, without rejected records and without the
    second copies of repeated ones.
W2  A message's token names what was sent up to and with it, in all partitions: a watch after it goes on exactly there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing
from typing import Any, Final, cast

from log_tier.access.user_turns import each_in_turn
from log_tier.concurrency.backoff import Backoff
from log_tier.model.batch import decode_batch
from log_tier.model.batch_header import decoded_bytes, place_of, split_batches
from log_tier.model.errors import InvalidRequest, TableNotFound, Unavailable, UnknownFormat
from log_tier.model.identifiers import NOTHING, Offset, Partition
from log_tier.model.record import OPERATION_MASK, PLAIN_PUT, Operation
from log_tier.model.table_ref import TableRef
from log_tier.model.tokens import Token
from log_tier.rows.json_rows.json_table import JsonTable
from log_tier.rpc.stream_budget import HeldPage
from router.data.requests import WatchEvent
from router.data.seam import Connection
from router.endpoints.grpc.kv.forms import TEXT_ITEM_BYTES, TableText
from router.endpoints.grpc.kv.freshness import check_token, parse_token
from router.endpoints.grpc.kv.results import token_text
from router.endpoints.grpc.kv.scans import MESSAGE_BYTES_MAX, MESSAGE_ENTRIES_MAX
from router.endpoints.grpc.kv.texts import shown_change
from router.proto import kv_pb2 as kv

__all__ = ["ChangeStream"]

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


class ChangeStream:
    """A watch's messages, and how far they go: `messages` can be closed, and called again to go on behind them."""

    def __init__(
        self,
        connection: Connection,
        table: TableRef,
        request: kv.KVWatchRequest,
        timeout: float,
        text: TableText | None = None,
    ) -> None:
        """`timeout` in seconds is for finding the watch's start. `text`: keys and values are shown as text."""
        self._connection = connection
        self._table = table
        self._request = request
        self._timeout = timeout
        self._text = text
        self._sent: dict[Partition, Offset] = {}
        """How far the messages go in each partition, from the first one on."""

    async def messages(self, held: HeldPage) -> AsyncGenerator[kv.KVWatchResponse, None]:
        """Yield a message with the watch's place, then changes for ever. `held`: what the stream may hold."""
        connection, table, request = self._connection, self._table, self._request
        backoff = Backoff(_PAUSE_FIRST_S, _PAUSE_MAX_S, deadline_s=asyncio.get_running_loop().time() + self._timeout)
        after = parse_token(request.after)
        start = {} if self._sent else await _start(connection, table, request, after, self._timeout)
        while True:
            # A stream that ended goes on behind what was sent.
            begin = {partition: Offset(offset + 1) for partition, offset in self._sent.items()} or start
            try:
                async with aclosing(connection.watch(table.id, begin)) as events:
                    async for event in events:
                        if event.positions is None:
                            async for message in self._event_messages(event, after, held):
                                yield message
                        elif not self._sent:
                            self._sent = {part: Offset(position - 1) for part, position in event.positions.items()}
                            yield kv.KVWatchResponse(token=token_text(table, self._sent, after))
                        del event
            except Unavailable:
                # Of a table that was just made this server may not know yet who serves it.
                if self._sent or not await backoff.pause():
                    raise
            else:
                await asyncio.sleep(backoff.next_s())

    async def _event_messages(
        self, event: WatchEvent, after: Token | None, held: HeldPage
    ) -> AsyncIterator[kv.KVWatchResponse]:
        room = held.next_page(MESSAGE_BYTES_MAX)
        # A record has a few dozen bytes at least.
        items = len(event.batches) // 32
        if self._text is not None:
            items = sum(map(decoded_bytes, split_batches(event.batches))) // TEXT_ITEM_BYTES
        while True:
            form = None if self._text is None else self._text.form
            try:
                each = each_in_turn if self._text is None else self._text.each_sized
                made = each(items, _messages(self._table, event, dict(self._sent), after, room, form))
                async for message, size, last in made:
                    self._sent[event.partition] = last
                    if message is not None:
                        held.got(size)
                        yield message
                        held.release()
                return
            except UnknownFormat as unknown:
                # The row's schema is newer than what was known of the table: once more, behind what was sent.
                if self._text is None:
                    raise
                await self._text.learn(int(unknown.fields["schema"]))


def _messages(
    table: TableRef,
    event: WatchEvent,
    seen: dict[Partition, Offset],
    after: Token | None,
    room: int,
    form: JsonTable | None,
) -> Iterator[tuple[kv.KVWatchResponse | None, int, Offset]]:
    """An event's changes from behind `seen` on, which learns how far they go, with the bytes of keys and values; None
    for what follows the last change. `form`: the text that keys and values are shown as.
    """
    partition = event.partition
    message, left = kv.KVWatchResponse(), room
    for change, offset in _changes(table, event, seen, form):
        if change is not None:
            if left <= 0 or len(message.changes) >= MESSAGE_ENTRIES_MAX:
                message.token = token_text(table, seen, after)
                yield message, room - left, seen[partition]
                message, left = kv.KVWatchResponse(), room
            message.changes.append(change)
            left -= len(change.key) + len(change.value)
        seen[partition] = offset
    if message.changes:
        message.token = token_text(table, seen, after)
        yield message, room - left, seen[partition]
    yield None, 0, seen[partition]


def _changes(
    table: TableRef, event: WatchEvent, seen: Mapping[Partition, Offset], form: JsonTable | None
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
            key, value = columns.keys[number], None if code == Operation.DELETE else columns.values[number]
            if form is not None:
                key, value = shown_change(form, code, key, value)
            yield (
                kv.KVChange(
                    operation=cast("Any", code),  # the numbers are the log's own
                    key=key,
                    value=value,
                    version=offset,
                    timestamp_ms=timestamp_ms,
                    partition=event.partition,
                ),
                Offset(offset),
            )
        if batch.header.last_offset > shown:
            yield None, batch.header.last_offset
