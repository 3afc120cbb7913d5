"""Scans: pages of the data plane, cut into messages that a client's default limit lets in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Final

from log_tier.access.user_turns import each_in_turn
from log_tier.model.errors import InvalidKey, InvalidRequest, InvalidToken
from log_tier.model.prefix_range import prefix_range
from log_tier.model.record import KEY_BYTES_MAX, check_key
from log_tier.model.table_ref import TableRef
from log_tier.rpc.stream_budget import HeldPage
from router.data.past.asked_past import refused_state
from router.data.past.past_requests import in_past
from router.data.requests import SCAN_PAGE_FIRST, ScanRequest, ScanResult, ScanWalk
from router.data.seam import Connection
from router.endpoints.grpc.kv.forms import TEXT_ITEM_BYTES, TableText
from router.endpoints.grpc.kv.freshness import freshness_of, parse_token
from router.endpoints.grpc.kv.past import past_of
from router.endpoints.grpc.kv.results import token_text
from router.endpoints.grpc.kv.texts import range_of_texts, shown_entries
from router.proto import kv_pb2 as kv

__all__ = [
    "MESSAGE_BYTES_MAX",
    "MESSAGE_ENTRIES_MAX",
    "check_limit",
    "entry_messages",
    "items_of",
    "range_of",
    "scan_pages",
]

MESSAGE_BYTES_MAX: Final = 1024 * 1024
"""Content of one message of a stream, give or take its last entry: gRPC clients take messages of 4 MiB unless they are
configured otherwise, and a larger one would end the scan."""

MESSAGE_ENTRIES_MAX: Final = 5000
"""Entries of one message of a stream: gRPC encodes it on the event loop, some 0.2 µs each."""


def range_of(request: kv.KVScanRequest) -> tuple[bytes, bytes | None]:
    """Start inclusive, end exclusive (None: to the last key)."""
    for name, bound in (("prefix", request.prefix), ("start", request.start), ("end", request.end)):
        if len(bound) > KEY_BYTES_MAX + 1:  # one more than a key: the next page starts at the last key and a zero byte
            raise InvalidKey(
                f"the scan's {name} has {len(bound)} bytes, keys have at most {KEY_BYTES_MAX}",
                size=len(bound),
                limit=KEY_BYTES_MAX,
            )
    if request.prefix and (request.start or request.end):
        raise InvalidRequest("give a prefix, or start and end, not both: to go on, give start and end")
    check_limit(request.limit)
    start, end = prefix_range(request.prefix) if request.prefix else (request.start, request.end or None)
    if request.start_after:
        if request.start or request.reverse:
            raise InvalidRequest("give one of start_after, start and reverse: backwards, end is exclusive")
        start = max(start, check_key(request.start_after) + b"\0")
    return start, end


def check_limit(limit: int) -> None:
    """Raises `InvalidRequest`."""
    if limit < 0:
        raise InvalidRequest(f"limit is 0 (all) or more, not {limit}")


async def scan_pages(
    connection: Connection,
    table: TableRef,
    request: kv.KVScanRequest,
    deadline: float,
    held: HeldPage,
    text: TableText | None = None,
) -> AsyncIterator[kv.KVScanResponse]:
    """Yield messages until the range or the limit is exhausted.

    A page is asked for when the messages of the one before it were taken, and each is larger than that one, up to
    what the server's other streams leave. So a scan that nobody reads holds a small page. `deadline` is the whole
    scan's, on the event loop's clock. Each page is at least as new as the one before it, and of the same version of
    the table as the first one; of the past, of the state of the first one. `text`: keys and values are given and shown
    as text. Raises as `freshness_of` and `past_of`, and `Overloaded`.
    """
    loop = asyncio.get_running_loop()
    asked = parse_token(request.after)
    past = past_of(table, request)
    if text is not None:
        request = range_of_texts(text.form, request)
    start, end = range_of(request)
    first, empty = ScanRequest(table.id, start, end, request.reverse, SCAN_PAGE_FIRST), True
    if past is None:
        freshness = freshness_of(table, asked, request)
        seen = dict(freshness.offsets)
        first = replace(
            first,
            after=freshness.named(table.partitions),
            strong=freshness.strong,
            lag_max_ms=freshness.lag_max_ms,
        )
    else:
        try:
            first, seen = in_past(past, first), dict(past.offsets)
        except InvalidToken as refused:
            raise await refused_state(connection, table, refused, max(0.0, deadline - loop.time())) from refused
    walk = ScanWalk(first, request.limit or None)
    while (wanted := walk.request()) is not None:
        wanted = replace(wanted, bytes_max=held.next_page(wanted.bytes_max))
        page = await connection.scan(wanted, timeout=max(0.0, deadline - loop.time()))
        held.got(sum(map(len, page.keys)) + sum(map(len, page.values)))
        seen.update(page.applied)
        walk.took(page)
        token = token_text(table, seen, asked)
        if text is not None:
            await text.meet(page.values)
        each = each_in_turn if text is None else text.each_sized
        async for message in each(items_of(page, text), entry_messages(page, token, text)):
            empty = False
            yield message
    if empty:
        yield kv.KVScanResponse(token=token_text(table, seen, asked))


def items_of(page: ScanResult, text: TableText | None) -> int:
    """How much there is to do for a page whose rows are looked at or shown as text."""
    return len(page.keys) if text is None else max(len(page.keys), sum(map(len, page.values)) // TEXT_ITEM_BYTES)


def entry_messages(page: ScanResult, token: str, text: TableText | None = None) -> Iterator[kv.KVScanResponse]:
    """The entries of a page in messages, each with the token. A page of rows that `text` knows."""
    message, room = kv.KVScanResponse(token=token), MESSAGE_BYTES_MAX
    for key, value, version in zip(page.keys, page.values, page.versions, strict=True):
        if room <= 0 or len(message.entries) >= MESSAGE_ENTRIES_MAX:
            yield message
            message, room = kv.KVScanResponse(token=token), MESSAGE_BYTES_MAX
        entry = message.entries.add(key=key, value=value, version=version)
        if text is not None:
            shown_entries(text.form, [entry])
        room -= len(entry.key) + len(entry.value)
    if message.entries:
        yield message
