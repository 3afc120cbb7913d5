"""Comparisons of two states of a table: the keys whose values differ, partition by partition."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from duramen.client.model.consistency import AsOf
from duramen.client.model.results import KeyDifference
from duramen.client.model.scan_range import ScanRange
from duramen.client.past.past_scans import past_request, walked_past
from duramen.client.past.states_lookup import StatesLookup
from duramen.client.transport.retry import ask_until
from log_tier.model.errors import InvalidRequest, InvalidToken
from log_tier.model.identifiers import Offset, Partition
from router.data.past.asked_past import AskedPast
from router.data.requests import SCAN_PAGE_FIRST, PastScan, ScanRequest, ScanResult

__all__ = ["difference_pages"]


async def difference_pages(
    lookup: StatesLookup, asked_range: ScanRange, before: AsOf, after: AsOf | None, timeout: float | None
) -> AsyncGenerator[list[KeyDifference[bytes, bytes]], None]:
    """The keys of a range whose values differ, in key order in each partition, and one partition behind the other.
    Raises what `Table.diff` does.
    """
    seconds, deadline = lookup.context.timeout(timeout), lookup.context.deadline(timeout)
    loop = asyncio.get_running_loop()
    earlier = await lookup.asked_past(before, deadline)
    later = await lookup.asked_past(after, deadline)
    ref = later.table
    if earlier.table.id != ref.id:
        raise InvalidRequest(f"{ref.name} was dropped and made again: its two states are of two tables")
    try:
        asked = past_request(earlier, asked_range), past_request(later, asked_range)
    except InvalidToken as refused:
        raise await lookup.refused_past(later, refused, deadline) from refused
    compared = await _offsets(lookup, earlier, asked[0], deadline)
    shown = await _offsets(lookup, later, asked[1], deadline)
    for partition in asked[1].partitions_asked(ref.partitions, ref.partitioner):
        first = ScanRequest(
            ref.id,
            asked_range.start,
            asked_range.end,
            limit=SCAN_PAGE_FIRST,
            after={partition: shown[partition]},
            partitions=(partition,),
            past=PastScan(compared=compared[partition]),
        )
        async with aclosing(walked_past(lookup, first, None, deadline, seconds)) as pages:
            async for page in pages:
                if page.keys:
                    yield _differences(page)
        deadline = loop.time() + seconds


async def _offsets(
    lookup: StatesLookup, past: AskedPast, request: ScanRequest, deadline: float
) -> Mapping[Partition, Offset]:
    """The offsets of a state. One request where it is that of a time."""
    if not past.time_ms:
        return past.offsets
    connection = lookup.context.connection
    page = await ask_until(deadline, lambda left_s: connection.scan(request, timeout=left_s))
    return page.applied


def _differences(page: ScanResult) -> list[KeyDifference[bytes, bytes]]:
    columns = (page.keys, page.before, page.before_versions, page.values, page.versions)
    return [
        KeyDifference(key, None if had < 0 else before, None if has < 0 else value)
        for key, before, had, value, has in zip(*columns, strict=True)
    ]
