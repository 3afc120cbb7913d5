"""Scans, page by page, and searches, which have one page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from duramen.client.context import ClientContext
from duramen.client.lookup import TableLookup
from duramen.client.model.consistency import SESSION, Asked, AsOf, Level
from duramen.client.model.scan_range import ScanRange
from duramen.client.transport.retry import ask_until
from log_tier.model.errors import PermissionDenied, TableNotFound
from log_tier.model.table_ref import TableRef
from log_tier.model.tokens import Token
from router.data.requests import SCAN_PAGE_FIRST, ScanRequest, ScanResult, ScanWalk, TextSearch
from router.data.seam import CallerReads, FirstPage

__all__ = ["begun_scan", "scan_table", "scanned_pages", "search_table", "table_pages"]


def begun_scan(direct: CallerReads, asked_range: ScanRange) -> FirstPage | None:
    """The first page of a scan at level `session`, read in the caller's thread; None: `table_pages` reads it."""
    start, end, reverse, limit, index_name, index_number, key_prefix = asked_range
    if limit == 0 or (end is not None and start >= end):
        return None
    size = SCAN_PAGE_FIRST if limit is None else min(SCAN_PAGE_FIRST, limit)
    return direct.first_page(
        start,
        end,
        reverse=reverse,
        limit=size,
        index_name=index_name,
        index_number=index_number,
        key_prefix=key_prefix,
    )


def scanned_pages(
    lookup: TableLookup,
    asked_range: ScanRange,
    at: AsOf | None,
    after: str | Token | None,
    level: Level,
    timeout: float | None,
) -> AsyncGenerator[list[tuple[bytes, bytes]], None]:
    """The pages of a scan, of the present where `at` is None. Raises what `Table.scan` does."""
    if at is None:
        return table_pages(lookup, asked_range, after, level, timeout)
    from duramen.client.past.past_scans import past_pages

    return past_pages(lookup, asked_range, at, after, level, timeout)


async def table_pages(
    lookup: TableLookup,
    asked_range: ScanRange,
    after: str | Token | None,
    level: Level,
    timeout: float | None,
    begun: FirstPage | None = None,
) -> AsyncGenerator[list[tuple[bytes, bytes]], None]:
    """The pages of a scan of the table behind a name. Raises what `Table.scan` does. `begun`: they follow this one, and
    are of its table, whatever the name stands for by now.
    """
    context = lookup.context
    seconds, deadline = context.timeout(timeout), context.deadline(timeout)
    if begun is None:
        ref = lookup.ref or await lookup.resolve(deadline)
        ref, asked = await lookup.asked(ref, after, level, deadline)
    else:
        ref, asked = begun.table, SESSION
    pages = scan_table(context, ref, asked_range, asked, deadline, seconds, begun and begun.page)
    try:
        async for page in pages:
            yield list(zip(page.keys, page.values, strict=True))
    except (TableNotFound, PermissionDenied) as error:
        raise lookup.gone(error) from error
    finally:
        await pages.aclose()


async def scan_table(
    context: ClientContext,
    ref: TableRef,
    asked_range: ScanRange,
    asked: Asked,
    deadline: float,
    timeout: float,
    begun: ScanResult | None = None,
) -> AsyncGenerator[ScanResult, None]:
    """Yield pages until the range or the limit is exhausted; each page is at least as new as the one before it, and of
    the same version of the table as the first one, whatever is swapped in meanwhile.

    Where a page is lost, the scan asks for it again: for the first one until `deadline`, which is on the event loop's
    clock, for each other one for `timeout` seconds. `begun`: the first page, where it was read already.
    """
    start, end, reverse, limit, index_name, index_number, _ = asked_range
    loop = asyncio.get_running_loop()
    first = ScanRequest(
        ref.id,
        start,
        end,
        reverse,
        SCAN_PAGE_FIRST,
        after=asked.named(context.session, ref),
        strong=asked.strong,
        partitions=asked_range.partitions_of(ref),
        lag_max_ms=asked.lag_max_ms,
        index=index_name,
        index_number=index_number,
    )
    walk = ScanWalk(first, limit)
    if begun is not None:
        walk.took(begun)
    while (request := walk.request()) is not None:

        async def ask(remaining: float, request: ScanRequest = request) -> ScanResult:
            return await context.connection.scan(request, timeout=remaining)

        page = await ask_until(deadline, ask)
        if asked.seen:
            context.session.saw_all(ref, page.applied)
        walk.took(page)
        yield page
        deadline = loop.time() + timeout


async def search_table(
    lookup: TableLookup,
    search: TextSearch,
    limit: int,
    *,
    after: str | Token | None,
    level: Level,
    timeout: float | None,
) -> ScanResult:
    """The rows of the table behind a name that a search finds. Raises what `RowTable.search` does."""
    context = lookup.context
    deadline = context.deadline(timeout)
    ref = lookup.ref or await lookup.resolve(deadline)
    ref, asked = await lookup.asked(ref, after, level, deadline)
    request = ScanRequest(
        ref.id,
        limit=limit,
        after=asked.named(context.session, ref),
        strong=asked.strong,
        lag_max_ms=asked.lag_max_ms,
        search=search,
    )
    try:
        page = await ask_until(deadline, lambda remaining: context.connection.scan(request, timeout=remaining))
    except (TableNotFound, PermissionDenied) as error:
        raise lookup.gone(error) from error
    if asked.seen:
        context.session.saw_all(ref, page.applied)
    return page
