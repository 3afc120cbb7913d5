"""What the night page has for the operator on top of its figures: what changed, with marks, and a history in danger."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from kit.browser import Browser
from kit.deadlines import patience_s

from duramen.server.kept.history_table import HistoryTable
from duramen.server.roles.all_in_one import SingleServer
from log_tier.rows.table_spec import TableSpec

pytestmark = pytest.mark.embedded_log_only  # what a browser shows of a server is the same with every log


async def test_marks_and_lines_of_what_changed(browser: Browser, server: SingleServer) -> None:
    for number in range(8):
        await server.data_plane.create_table(TableSpec(f"t{number}", 1), timeout=patience_s(30))

    def looked() -> None:
        browser.open(f"http://127.0.0.1:{server.http_port}/")
        browser.wait("document.querySelector('#changed-list')?.children.length === 6")
        assert browser.text("#changed-list li").endswith("create table t7 partitions=1 replicas=1"), "the newest first"
        assert browser.text("#changed-title").startswith("what changed in the last hour: ")
        browser.wait("document.querySelector('#tiles .events')?.getAttribute('d')?.startsWith('M')")
        browser.press("w")
        browser.wait("document.querySelector('#changed-title').innerText.startsWith('what changed in the last week')")
        browser.press("w")
        browser.script("document.querySelector('#changed a').click()")
        browser.wait("document.body.dataset.page === 'changes'")
        assert browser.script("return document.querySelector('#kept-note').hidden")

    await asyncio.to_thread(looked)


async def test_a_history_that_cannot_be_kept_is_said(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = "the disk of the log is full <b>bold</b>"
    monkeypatch.setattr(HistoryTable, "describe", lambda _: {"error": error})
    server = await SingleServer.open(tmp_path / "data", port=0)
    try:
        await server.serve_http(0, history=True)

        def looked() -> None:
            browser.open(f"http://127.0.0.1:{server.http_port}/")
            browser.wait("document.querySelector('#kept-note')?.hidden === false")
            assert browser.text("#kept-note").endswith(error)

        await asyncio.to_thread(looked)
    finally:
        await server.close()


async def test_an_address_fills_in_a_form(browser: Browser, server: SingleServer) -> None:
    def looked() -> None:
        browser.open(f"http://127.0.0.1:{server.http_port}/#/jobs/begin/drain/node=n1")
        browser.wait("document.querySelector('.value-node')?.value === 'n1'")
        assert browser.script("return document.querySelector('.verb').value") == "drain"
        assert not browser.script("return document.querySelector('.ask-first')"), "nobody has asked for a plan yet"

    await asyncio.to_thread(looked)
