"""A question that nobody waits for any more: a real browser leaves the page, and the server's call ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kit.browser import Browser
from kit.deadlines import until

from duramen.server.roles.all_in_one import SingleServer

pytestmark = pytest.mark.embedded_log_only  # a page is the same with every log


class EndlessScans:
    """The scans of a server, which go on until a test says so."""

    def __init__(self, server: SingleServer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun: list[asyncio.Task[Any]] = []
        self.goes_on = asyncio.Event()
        scan = server.data_plane.scan

        async def endless(*arguments: Any, **options: Any) -> Any:
            task = asyncio.current_task()
            assert task is not None
            self.begun.append(task)
            await self.goes_on.wait()
            return await scan(*arguments, **options)

        monkeypatch.setattr(server.data_plane, "scan", endless)


def asks(browser: Browser, server: SingleServer) -> None:
    browser.open("about:blank")
    browser.open(f"http://127.0.0.1:{server.http_port}/#/query/orders")
    browser.wait("document.querySelector('.ask')")
    browser.script("document.querySelector('form.ask').requestSubmit()")


LEFT = {
    "another page of the console": "location.hash = '#/tables'",
    "another site": "location.href = 'about:blank'",
    "loaded again": "location.reload()",
    "asked anew": "document.querySelector('form.ask').requestSubmit()",
}


@pytest.mark.parametrize("how", LEFT)
async def test_who_leaves_the_page_ends_the_call(
    browser: Browser, server: SingleServer, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    scans = EndlessScans(server, monkeypatch)
    await asyncio.to_thread(asks, browser, server)
    await until(lambda: len(scans.begun) == 1)
    assert not scans.begun[0].done()
    await asyncio.to_thread(browser.script, LEFT[how])
    await until(lambda: scans.begun[0].done())
    assert scans.begun[0].cancelled() or scans.begun[0].exception() is None
    if how == "asked anew":
        await until(lambda: len(scans.begun) == 2)
        scans.goes_on.set()
        await asyncio.to_thread(
            browser.wait, "document.querySelector('#page .note-line').innerText.startsWith('Found ')"
        )
        assert not await asyncio.to_thread(browser.script, "return document.querySelector('.asking') !== null")


async def test_who_closes_the_tab_ends_the_call(
    browser: Browser, server: SingleServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    scans = EndlessScans(server, monkeypatch)

    def opened() -> str:
        first = browser.tab
        browser.new_tab()
        asks(browser, server)
        return first

    def closed(first: str) -> None:
        browser.close_tab()
        browser.turn_to(first)

    first = await asyncio.to_thread(opened)
    await until(lambda: len(scans.begun) == 1)
    await asyncio.to_thread(closed, first)
    await until(lambda: scans.begun[0].done())
    assert len(scans.begun) == 1


async def test_a_token_that_is_given_while_another_is_refused_is_tried(browser: Browser, server: SingleServer) -> None:
    """The answer to a stream that was asked for without it does not take it away."""

    def looked() -> None:
        browser.open(f"http://127.0.0.1:{server.http_port}/#/query")
        browser.wait("document.querySelector('.ask')")
        browser.script(
            """
            window.tried = [];
            const refused = () => new Response('{"error": "no user"}', { status: 401 });
            window.fetch = async (path, { headers }) => {
              window.tried.push(headers.Authorization ?? "nothing");
              if (window.tried.length === 1) sessionStorage.setItem("duramen-token", "given");
              return refused();
            };
            import("/console/feed.js").then(({ Feed }) => {
              window.states = [];
              new Feed(() => {}, (state) => window.states.push(state)).run();
            });
            """
        )
        browser.wait("window.states?.includes('login')")
        assert browser.script("return window.tried") == ["nothing", "Bearer given"]
        assert browser.script("return sessionStorage.getItem('duramen-token') ?? ''") == ""

    await asyncio.to_thread(looked)
