"""Scans over several partitions, against a sorted model."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duramen import aio
from duramen.client.table import Table
from log_tier.model.record import VALUE_BYTES_MAX
from router.data.requests import SCAN_PAGE_FIRST

keys = st.binary(min_size=1, max_size=3) | st.sampled_from(
    [
        b"a",
        b"\xff",
        b"\xff\xff",
        b"\xff\xff\xff",
        b"a\xff",
        b"a\xff\xff",
        b"b",
        b"\x00",
        b"a\x00",
        b"\xff" * 511,
        b"a" * 511,
    ]
)
bounds = st.none() | st.binary(max_size=3) | keys


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    found=st.dictionaries(keys, st.binary(max_size=3), max_size=40),
    partitions=st.integers(1, 5),
    scans=st.lists(
        st.tuples(bounds, bounds, st.booleans(), st.none() | st.integers(0, 12), st.booleans()), min_size=1, max_size=12
    ),
    more=st.sampled_from([0, 190, 200, 210]),
)
def test_every_scan_is_a_slice_of_the_model(
    found: dict[bytes, bytes], partitions: int, scans: list[Any], more: int
) -> None:
    """With so many `more` keys in the middle that pages end before, at and behind the interesting ones."""
    found = {b"a\x01%d" % number: b"" for number in range(more)} | found

    async def scenario(folder: str) -> None:
        db = await aio.open(Path(folder) / "db")
        try:
            table = await db.create_table("t", partitions=partitions)
            await table.put_many(found)
            for start, end, reverse, limit, by_prefix in scans:
                await check_scan(table, found, start, end, reverse, limit, by_prefix)
        finally:
            await db.close()

    with TemporaryDirectory() as folder:
        asyncio.run(scenario(folder))


async def check_scan(
    table: Table,
    model: dict[bytes, bytes],
    start: bytes | None,
    end: bytes | None,
    reverse: bool,
    limit: int | None,
    by_prefix: bool,
) -> None:
    if by_prefix:
        prefix = start or b""
        scan = table.scan(prefix=prefix, reverse=reverse, limit=limit)
        expected = sorted((pair for pair in model.items() if pair[0].startswith(prefix)), reverse=reverse)
    else:
        scan = table.scan(start=start, end=end, reverse=reverse, limit=limit)
        expected = sorted(
            (pair for pair in model.items() if (start or b"") <= pair[0] and (end is None or pair[0] < end)),
            reverse=reverse,
        )
    pairs = [pair async for pair in scan]
    assert pairs == expected[:limit]
    if limit is not None and pairs and not by_prefix:
        last = pairs[-1][0]
        rest = (
            table.scan(start=start, end=last, reverse=True)
            if reverse
            else table.scan(start=last + b"\x00", end=end, reverse=False)
        )
        assert [pair async for pair in rest] == expected[limit:], "a scan is resumed after its last key"


@pytest.mark.parametrize("reverse", [False, True])
async def test_neighbours_on_both_sides_of_a_pages_end(flights: Table, reverse: bool) -> None:
    """Nothing lies between `a` and `a` + 0x00, and nothing may get lost there: the first page ends at each of them."""
    found = [b"a", b"a\x00", b"a\x00\x00", b"a\x00\x01", b"a\x01", b"b", b"\xff", b"\xff\x00", b"\xff\xff"]
    found += [b"%s%03d" % (b"\xff\xff" if reverse else b"A", number) for number in range(SCAN_PAGE_FIRST - 1)]
    await flights.put_many([(key, b"v") for key in found])
    expected = sorted(found, reverse=reverse)
    for left_out in range(9):
        bound = expected[left_out]
        wanted = [key async for key, _ in flights.scan(end=bound + b"\x00" if reverse else None, reverse=reverse)]
        assert wanted == (expected[left_out:] if reverse else expected)
        if not reverse:
            assert [key async for key, _ in flights.scan(start=bound)] == expected[left_out:]


async def test_a_page_always_makes_progress(flights: Table) -> None:
    """Values near and over what a page holds: at least one entry comes each time, in order, over gRPC."""
    sizes = {b"k%02d" % number: (VALUE_BYTES_MAX if number % 3 == 0 else 1 << 20) for number in range(14)}
    for key, size in sizes.items():
        await flights.put(key, bytes(size))
    for reverse in (False, True):
        pages = [page async for page in flights.scan_pages(reverse=reverse)]
        assert all(pages)
        assert [(key, len(value)) for page in pages for key, value in page] == sorted(sizes.items(), reverse=reverse)


async def test_a_scan_is_no_older_than_what_it_showed(flights: Table) -> None:
    """Writes while it goes on: keys before the current page are gone by, those behind it are seen."""
    await flights.put_many([(b"k%04d" % number, b"old") for number in range(600)])
    scan = flights.scan()
    first = [await anext(scan) for _ in range(200)]
    await flights.put_many([(b"k%04d" % number, b"new") for number in range(600)])
    await flights.get_many([b"k%04d" % number for number in range(600)])  # in this session, so they are applied now
    rest = [pair async for pair in scan]
    assert first == [(b"k%04d" % number, b"old") for number in range(200)]
    assert rest == [(b"k%04d" % number, b"new") for number in range(200, 600)]
