"""A thousand partitions of three replicas at twenty nodes, by the status streams of a real cluster: is the page usable?

The streams were recorded with four nodes under load, one of which was killed (`kit.statuses`). Twenty gRPC servers say
them again, a real router follows them and merges them, and what a browser shows of it is bounded in bytes, in elements
of its document and in processor time. No time of the clock is a limit: a busy machine makes any task long.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from kit.browser import Browser
from kit.deadlines import until
from kit.event_stream import event_stream
from kit.statuses.large_cluster import RepeatingNode, large_cluster
from kit.statuses.recording import read_recording

from duramen.server.roles.router_role import RouterRole

pytestmark = pytest.mark.embedded_log_only  # a page is the same with every log

PARTITIONS = 1_000
EVENTS = 10

ELEMENTS_MAX = 3_000
"""Of the page's document. One row for each partition would be ten thousand."""
ROWS_MAX = 70
WHOLE_BYTES_MAX = 300_000
ROW_BYTES_MAX = 150
"""Of a partition in an event that says what has changed of it."""
HEAD_BYTES_MAX = 12_000
"""Of an event without its partitions: twenty nodes and the totals."""
TASK_S_MAX = 0.25
"""Processor time of the page for an event, and everything until the next one, a second later."""

NIGHT_ROWS = "document.querySelectorAll('#partitions tbody tr[data-name]').length"
HEAT_ROWS = "document.querySelectorAll('.heat tbody tr[data-name]').length"

Large = tuple[RouterRole, list[RepeatingNode]]


@pytest.fixture
async def large(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Large]:
    async with large_cluster(tmp_path_factory.mktemp("large")) as made:
        yield made


def spent_s(browser: Browser) -> float:
    """How much processor time the page has taken."""
    found = {each["name"]: each["value"] for each in browser.protocol("Performance.getMetrics")["metrics"]}
    return float(found["TaskDuration"])


def watch_tasks(browser: Browser) -> float:
    browser.protocol("Performance.disable")  # another test may have enabled it in this browser
    browser.protocol("Performance.enable", timeDomain="threadTicks")
    return spent_s(browser)


def check_usable(browser: Browser, rows: str, began_s: float, events: int) -> None:
    """After so many events since `began_s`."""
    assert browser.script(f"return {rows}") <= ROWS_MAX, "rows that are not seen are not there"
    assert browser.script("return document.querySelectorAll('*').length") <= ELEMENTS_MAX
    assert (spent_s(browser) - began_s) / events <= TASK_S_MAX


def test_the_recording_is_of_a_cluster_with_a_kill() -> None:
    said = read_recording()
    assert {each.node for each in said} == {0, 1, 2, 3}
    assert [each.node for each in said if each.message is None] == [1]
    states = {replica.state for _, _, message in said if message is not None for replica in message.replicas}
    assert {"ready", "bootstrapping"} <= states
    assert max(replica.applied for _, _, message in said if message is not None for replica in message.replicas) > 100


async def test_the_events_of_a_large_cluster_are_bounded(large: Large) -> None:
    router, nodes = large
    lost = False
    async with event_stream(router.http_port) as events:
        whole = await events.next()
        while len(whole.data["rows"]) < PARTITIONS:
            whole = await events.next()
        assert whole.size <= WHOLE_BYTES_MAX
        changed = 0
        while changed < EVENTS or not lost:
            event = await events.next()
            rows = event.data.get("rows", {})
            changed += bool(rows)
            assert event.size <= HEAD_BYTES_MAX + ROW_BYTES_MAX * len(rows), json.dumps(event.data)[:400]
            lost |= any(node.deaths for node in nodes)
    assert sum(len(node.placed) for node in nodes) == 3 * PARTITIONS


async def test_the_night_page_of_a_large_cluster(browser: Browser, large: Large) -> None:
    router, _ = large

    def opened() -> float:
        browser.open(f"http://127.0.0.1:{router.http_port}/")
        browser.wait("document.querySelector('#counts').innerText.startsWith('1,000 partitions')")
        return watch_tasks(browser)

    began_s = await asyncio.to_thread(opened)
    async with event_stream(router.http_port) as events:
        for _ in range(EVENTS):
            await events.next()

    def looked() -> None:
        check_usable(browser, NIGHT_ROWS, began_s, EVENTS)
        browser.script("scrollTo(0, document.body.scrollHeight)")
        browser.wait("document.querySelector('#partitions tr[data-name=\"t9/99\"]')")
        browser.press("/")
        browser.write("#find", "t7/1")
        browser.wait(f"{NIGHT_ROWS} === 11")

    await asyncio.to_thread(looked)


async def test_the_heat_map_of_a_large_cluster_shows_who_is_lost_and_who_is_back(
    browser: Browser, large: Large
) -> None:
    router, nodes = large
    nodes[1].stay_dead()  # until the page has shown it: it repeats the one that was killed
    title = "document.querySelector('#page h2')?.innerText"

    def opened() -> float:
        browser.open(f"http://127.0.0.1:{router.http_port}/#/tables")
        browser.wait(f"{title} === '10 tables × 1,000 partitions × 20 nodes'")
        return watch_tasks(browser)

    def unwell(node: str) -> str:
        return (
            f"[...document.querySelectorAll('.heat .unwell')].some((each) => each.title.includes(' at {node}: lost'))"
        )

    began_s = await asyncio.to_thread(opened)
    await until(lambda: nodes[1].deaths)
    await asyncio.to_thread(browser.wait, unwell("n2"))
    nodes[1].come_back()
    await asyncio.to_thread(browser.wait, f"!({unwell('n2')})")
    asked: Any = await asyncio.to_thread(browser.script, "return performance.getEntriesByType('resource').length")

    def looked() -> None:
        check_usable(browser, HEAT_ROWS, began_s, max(EVENTS, int(asked)))
        browser.script("scrollTo(0, document.body.scrollHeight)")
        browser.wait("document.querySelector('.heat tr[data-name=\"t9/99\"]')")
        browser.script("scrollTo(0, 0)")
        browser.write(".find-tables", "t7/1")
        browser.wait(f"{HEAT_ROWS} === 12")

    await asyncio.to_thread(looked)
