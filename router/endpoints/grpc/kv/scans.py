"""Scans: pages of the data plane, cut into messages that a client's default limit lets in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Final

from log_tier.concurrency.sized_work import each_sized
from log_tier.model.errors import InvalidKey, InvalidRequest
from log_tier.model.record import KEY_BYTES_MAX
from log_tier.model.table_ref import TableRef
from log_tier.rpc.stream_budget import HeldPage
from router.data.requests import SCAN_PAGE_FIRST, ScanRequest, ScanResult, ScanWalk
from router.data.seam import DataPlane
from router.endpoints.grpc.kv.freshness import freshness_of, parse_token
from router.endpoints.grpc.kv.results import token_text
from router.proto import kv_pb2 as kv
from serving_tier.index.scan import prefix_range

__all__ = ["MESSAGE_BYTES_MAX", "MESSAGE_ENTRIES_MAX", "scan_pages"]

MESSAGE_BYTES_MAX: Final = 1024 * 1024
"""Content of one message of a stream, give or take its last entry: gRPC clients take messages of 4 MiB unless they are
configured otherwise, and a larger one would end the scan."""

MESSAGE_ENTRIES_MAX: Final = 5000
"""Entries of one message of a stream: gRPC encodes it on the event loop, some 0.2 µs each."""


def _range(request: kv.KVScanRequest) -> tuple[bytes, bytes | None]:
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
    if request.limit < 0:
        raise InvalidRequest(f"limit is 0 (all) or more, not {request.limit}")
    if request.prefix:
        return prefix_range(request.prefix)
    return request.start, request.end or None


async def scan_pages(
    connection: DataPlane, table: TableRef, request: kv.KVScanRequest, deadline: float, held: HeldPage
) -> AsyncIterator[kv.KVScanResponse]:
    """Yield messages until the range or the limit is exhausted.

    A page is asked for when the messages of the one before it were taken, and each is larger than that one, up to
    what the server's other streams leave. So a scan that nobody reads holds a small page. `deadline` is the whole
    scan's, on the event loop's clock. Each page is at least as new as the one before it, and of the same version of
    the table as the first one. Raises as `freshness_of`, and `Overloaded`.
    """
    loop = asyncio.get_running_loop()
    asked = parse_token(request.after)
    freshness = freshness_of(table, asked, request)
    start, end = _range(request)
    seen, empty = dict(freshness.offsets), True
    first = ScanRequest(
        table.id,
        start,
        end,
        request.reverse,
        SCAN_PAGE_FIRST,
        after=freshness.named(table.partitions),
        strong=freshness.strong,
        lag_max_ms=freshness.lag_max_ms,
    )
    walk = ScanWalk(first, request.limit or None)
    while (wanted := walk.request()) is not None:
        wanted = replace(wanted, bytes_max=held.next_page(wanted.bytes_max))
        page = await connection.scan(wanted, timeout=max(0.0, deadline - loop.time()))
        held.got(sum(map(len, page.keys)) + sum(map(len, page.values)))
        seen.update(page.applied)
        walk.took(page)
        token = token_text(table, seen, asked)
        async for message in each_sized(len(page.keys), _messages(page, token)):
            empty = False
            yield message
    if empty:
        yield kv.KVScanResponse(token=token_text(table, seen, asked))


def _messages(page: ScanResult, token: str) -> Iterator[kv.KVScanResponse]:
    message, room = kv.KVScanResponse(token=token), MESSAGE_BYTES_MAX
    for key, value, version in zip(page.keys, page.values, page.versions, strict=True):
        if room <= 0 or len(message.entries) >= MESSAGE_ENTRIES_MAX:
            yield message
            message, room = kv.KVScanResponse(token=token), MESSAGE_BYTES_MAX
        message.entries.add(key=key, value=value, version=version)
        room -= len(key) + len(value)
    if message.entries:
        yield message
