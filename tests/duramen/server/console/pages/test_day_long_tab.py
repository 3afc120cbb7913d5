"""A tab that is left open for a day: what it holds stays bounded, however many events it has seen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from kit.browser import Browser
from kit.event_stream import event_stream

from duramen import aio
from duramen.server.console import history_keeper
from duramen.server.roles.all_in_one import SingleServer

pytestmark = pytest.mark.embedded_log_only  # a page is the same with every log

WARM_EVENTS = 150
EVENTS = 800
LOOK_S = 0.02
"""Between two looks at the server: a second of a real day."""
FASTER = 50
"""The page's clock, by which it asks for the past and for changes again."""

HEAP_GROWTH_MAX = 300_000
"""Bytes. If each event left what was parsed of it, it would be half as much again."""
NODES_GROWTH_MAX = 400
LISTENERS_GROWTH_MAX = 20


def held(browser: Browser) -> dict[str, int]:
    """What the page holds, without what could be collected."""
    for _ in range(3):
        browser.protocol("HeapProfiler.collectGarbage")
    found = {each["name"]: each["value"] for each in browser.protocol("Performance.getMetrics")["metrics"]}
    return {name: int(found[name]) for name in ("JSHeapUsedSize", "Nodes", "JSEventListeners")}


def check_bounded(before: dict[str, int], after: dict[str, int]) -> None:
    grown = {name: after[name] - before[name] for name in before}
    assert grown["JSHeapUsedSize"] <= HEAP_GROWTH_MAX, (before, after)
    assert grown["Nodes"] <= NODES_GROWTH_MAX, (before, after)
    assert grown["JSEventListeners"] <= LISTENERS_GROWTH_MAX, (before, after)


@asynccontextmanager
async def written_to(server: SingleServer) -> AsyncIterator[None]:
    """Every partition changes all the time, and so does the catalog."""

    async def write() -> None:
        async with await aio.connect(f"127.0.0.1:{server.port}") as db:
            table = await db.create_table("flights", partitions=16)
            number = 0
            while True:
                await table.put_many({b"k%d" % each: b"v%d" % number for each in range(64)})
                number += 1
                if number % 50 == 0:
                    await db.create_table(f"t{number % 250}", partitions=1, if_missing=True)
                    await db.drop_table(f"t{number % 250}")
                await asyncio.sleep(LOOK_S)

    writing = asyncio.create_task(write())
    try:
        yield
    finally:
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)


async def test_a_night_page_of_a_day(browser: Browser, server: SingleServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_keeper, "WATCHED_S", LOOK_S)

    def opened() -> None:
        browser.open(f"http://127.0.0.1:{server.http_port}/")
        browser.wait("document.querySelectorAll('#partitions tbody tr[data-name]').length > 10")
        browser.protocol("Performance.enable")
        browser.script(f"const real = performance.now.bind(performance); performance.now = () => {FASTER} * real()")

    async with written_to(server), event_stream(server.http_port) as events:

        async def look_on(count: int) -> None:
            first = (await events.next()).number
            while (await events.next()).number < first + count:
                pass

        await asyncio.to_thread(opened)
        await look_on(WARM_EVENTS)
        before = await asyncio.to_thread(held, browser)
        await look_on(EVENTS)
        after = await asyncio.to_thread(held, browser)
    check_bounded(before, after)
