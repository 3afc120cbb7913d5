"""Scans of a table as it was, page by page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from duramen.client.model.consistency import AsOf, Level
from duramen.client.model.scan_range import ScanRange
from duramen.client.past.states_lookup import StatesLookup
from duramen.client.transport.retry import ask_until
from log_tier.model.errors import InvalidRequest, InvalidToken, PermissionDenied, TableNotFound
from log_tier.model.tokens import Token
from router.data.past.asked_past import AskedPast
from router.data.past.past_requests import in_past
from router.data.requests import SCAN_PAGE_FIRST, ScanRequest, ScanResult, ScanWalk

__all__ = ["past_pages", "past_request", "walked_past"]


async def past_pages(
    lookup: StatesLookup,
    asked_range: ScanRange,
    at: AsOf,
    after: str | Token | None,
    level: Level,
    timeout: float | None,
) -> AsyncGenerator[list[tuple[bytes, bytes]], None]:
    """The pages of a scan at a state. Raises what `Table.scan` does with `at`, and `InvalidRequest` where `after` or
    `level` is given too.
    """
    if after is not None or level != "session":
        raise InvalidRequest("a scan of the past names its state by at= alone: leave out after= and level=")
    seconds, deadline = lookup.context.timeout(timeout), lookup.context.deadline(timeout)
    past = await lookup.asked_past(at, deadline)
    try:
        request = past_request(past, asked_range)
    except InvalidToken as refused:
        raise await lookup.refused_past(past, refused, deadline) from refused
    async with aclosing(walked_past(lookup, request, asked_range.limit, deadline, seconds)) as pages:
        async for page in pages:
            if page.keys:
                yield list(zip(page.keys, page.values, strict=True))


def past_request(past: AskedPast, asked_range: ScanRange, limit: int = SCAN_PAGE_FIRST) -> ScanRequest:
    """The request for the first page. Raises `InvalidToken` where the token names no offset of a partition."""
    ref = past.table
    request = ScanRequest(
        ref.id,
        asked_range.start,
        asked_range.end,
        asked_range.reverse,
        limit,
        partitions=asked_range.partitions_of(ref),
    )
    return in_past(past, request)


async def walked_past(
    lookup: StatesLookup, first: ScanRequest, limit: int | None, deadline: float, timeout: float
) -> AsyncGenerator[ScanResult, None]:
    """The pages from a request on; some are empty. A lost page is asked for again: the first one until `deadline`, each
    other one for `timeout` seconds.
    """
    loop, connection = asyncio.get_running_loop(), lookup.context.connection
    walk = ScanWalk(first, limit)
    while (request := walk.request()) is not None:

        async def ask(remaining: float, request: ScanRequest = request) -> ScanResult:
            return await connection.scan(request, timeout=remaining)

        try:
            page = await ask_until(deadline, ask)
        except (TableNotFound, PermissionDenied) as error:
            raise lookup.gone(error) from error
        walk.took(page)
        yield page
        deadline = loop.time() + timeout
