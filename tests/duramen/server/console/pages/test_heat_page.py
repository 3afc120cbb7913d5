"""The map of heat: a field for each replica, of one server, of a cluster with a lost node, of a thousand × twenty."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from kit.browser import Browser
from kit.cluster.cluster_process import ClusterProcess
from kit.deadlines import patience_s

from duramen import aio
from duramen.server.roles.all_in_one import SingleServer
from router.admin.admin import Admin
from router.proto import admin_pb2 as pb

pytestmark = pytest.mark.embedded_log_only  # a page is the same with every log

CELLS = "[...document.querySelectorAll('.heat .field-cell')].map((each) => each.innerText)"
ROWS = "[...document.querySelectorAll('.heat tbody tr[data-name]')].map((each) => each.dataset.name)"


def large(applied: int) -> list[pb.AdminPartition]:
    """A thousand partitions of three replicas at twenty nodes, the first of which lags at one node."""
    partitions = []
    for number in range(1000):
        replicas = [
            pb.AdminReplica(
                node=f"n{(number + place) % 20 + 1}",
                role="member",
                state="ready",
                applied=applied * (number + 1),
                keys=number,
            )
            for place in range(3)
        ]
        partitions.append(
            pb.AdminPartition(table=f"t{number // 100}", partition=number % 100, wanted=3, ready=3, replicas=replicas)
        )
    partitions[0].replicas[0].MergeFrom(pb.AdminReplica(state="behind", lag_records=5000, lag_ms=7000))
    return partitions


async def test_what_is_written_is_hot(browser: Browser, server: SingleServer) -> None:
    stop = asyncio.Event()

    async def writes() -> None:
        async with await aio.connect(f"127.0.0.1:{server.port}") as db:
            table = db.table("orders")
            while not stop.is_set():
                await table.put(b"eu:07", b"v")
                await table.get(b"eu:07")
                await asyncio.sleep(0.002)

    def looked() -> None:
        browser.open(f"http://127.0.0.1:{server.http_port}/#/tables")
        browser.wait(f"{ROWS}.join() === 'all,orders/0,orders/1'")
        browser.wait(f"{CELLS}.filter((each) => Number(each) > 1).length === 2")  # its partition, and the node
        browser.press("m")
        browser.wait("document.querySelector('[aria-pressed=true]').innerText === 'reads /s'")
        browser.wait(f"{CELLS}.filter((each) => Number(each) >= 1).length === 2")
        browser.script("document.querySelectorAll('.heat .field-cell')[1].click()")
        assert "orders/0 at n1: member, ready" in browser.text(".picked")

    writing = asyncio.ensure_future(writes())
    try:
        await asyncio.to_thread(looked)
    finally:
        stop.set()
        await writing


async def test_a_thousand_partitions_at_twenty_nodes(
    browser: Browser, server: SingleServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = 0

    async def partitions(*_: Any) -> list[pb.AdminPartition]:
        nonlocal answers
        answers += 1
        return large(answers)

    monkeypatch.setattr(Admin, "partitions", partitions)

    def looked() -> None:
        browser.open(f"http://127.0.0.1:{server.http_port}/#/tables")
        browser.wait("document.querySelector('#page h2')?.innerText === '10 tables × 1,000 partitions × 20 nodes'")
        assert browser.script(f"return {ROWS}.length") < 70, "rows that are not seen are not there"
        assert browser.text(".heat .unwell") == "!"
        assert browser.script("return document.querySelector('.heat .unwell').title").startswith("t0/0 at n1: behind, ")
        browser.wait("!document.querySelector('.heat .sums .field-cell').title.includes('not known')")
        browser.script("scrollTo(0, document.body.scrollHeight)")
        browser.wait(f"{ROWS}.includes('t9/99')")
        assert browser.script(f"return {ROWS}.length") < 70
        drawn = browser.script(
            "const begun = performance.now(); for (let at = 0; at < 20; at += 1) {"
            " scrollTo(0, at * 1000); dispatchEvent(new Event('scroll')); document.body.offsetHeight; }"
            " return (performance.now() - begun) / 20"
        )
        assert drawn < patience_s(150), f"{drawn} ms for a picture"
        browser.script("scrollTo(0, 0)")
        browser.write(".find-tables", "t7/1")
        browser.wait(f"{ROWS}.length === 12")

    await asyncio.to_thread(looked)


def test_a_node_that_is_gone(browser: Browser, tmp_path: Path) -> None:
    cluster = ClusterProcess(tmp_path / "data", nodes=3, arguments=["--http-port", "0"])
    unwell = "[...document.querySelectorAll('.heat .unwell')].map((each) => each.title)"
    try:
        assert cluster.started is not None
        with cluster.connect() as db:
            db.create_table("flights", partitions=3, replicas=2).put(b"k", b"v")
        browser.open(f"http://127.0.0.1:{cluster.started['http_port']}/#/tables")
        browser.wait(f"{ROWS}.length === 4 && {unwell}.length === 0")
        cluster.pause("n2")
        browser.wait(f"{unwell}.length === 2 && {unwell}.every((each) => each.includes(' at n2: lost'))")
        browser.script("location.hash = '#/key/flights/k'")
        browser.wait("document.querySelector('.value-text')?.innerText === 'v'")
        browser.script("location.hash = '#/table/flights'")
        browser.wait("document.querySelector('#page').innerText.includes('3 partitions')")
        browser.wait("document.querySelector('#page').innerText.includes(' lost')")
        cluster.go_on("n2")
        browser.script("location.hash = '#/tables'")
        browser.wait(f"{ROWS}.length === 4 && {unwell}.length === 0")
    finally:
        cluster.close()
