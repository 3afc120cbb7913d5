"""The frame of the console's pages: which one an address shows, the keys and links, and what a long day leaves."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from kit.browser import Browser

from duramen.server.roles.all_in_one import SingleServer
from duramen.server.roles.log_role import LogRole

pytestmark = pytest.mark.embedded_log_only  # a page is the same with every log

PAGE = "document.body.dataset.page"
LINKS = "[...document.querySelectorAll('#pages a')].map((each) => each.innerText)"


async def test_pages_by_address_and_by_keys(browser: Browser, server: SingleServer) -> None:
    def looked() -> None:
        browser.open(f"http://127.0.0.1:{server.http_port}/")
        browser.wait(f"{PAGE} === 'night' && {LINKS}.includes('tables')")
        for letter, page in (("t", "tables"), ("l", "log"), ("q", "query"), ("k", "key"), ("n", "night")):
            browser.press("g", letter)
            browser.wait(f"{PAGE} === arguments[0]", page)
            assert browser.text("#pages a[aria-current]") == page
            assert browser.script("return document.querySelector('#night').hidden") is (page != "night")
            if page in ("key", "query"):
                browser.script("document.activeElement.blur()")
        browser.press("?")
        browser.wait("document.querySelector('#help').open")
        listed = browser.text("#keys")
        assert "g t" in listed.replace("\n", " ")
        assert "the next partition" in listed
        browser.press("\ue00c")  # Escape
        browser.script("history.back()")
        browser.wait(f"{PAGE} === 'key'")
        for unknown in ("#/nothing", "#//", "#/%ff%", f"#/{'x' * 3000}"):
            browser.script("location.hash = '#/tables'")
            browser.wait(f"{PAGE} === 'tables'")
            browser.script("location.hash = arguments[0]", unknown)
            browser.wait(f"{PAGE} === 'night'")

    await asyncio.to_thread(looked)


async def test_a_log_server_has_no_pages_of_data(browser: Browser, tmp_path: Path) -> None:
    log = await LogRole.open(tmp_path / "log", host="127.0.0.1", port=0)
    await log.serve_http(0)

    def looked() -> None:
        browser.open(f"http://127.0.0.1:{log.http_port}/#/tables")
        browser.wait(f"document.body.dataset.link === 'live' && {PAGE} === 'night'")
        assert browser.script("return document.querySelector('#pages').hidden")
        browser.press("g", "t")
        browser.wait("document.documentElement.dataset.theme === 'dark'", None)
        browser.script("localStorage.clear()")

    try:
        await asyncio.to_thread(looked)
    finally:
        await log.close()


async def test_a_browser_whose_clock_is_wrong(browser: Browser, server: SingleServer) -> None:
    source = "const now = Date.now; Date.now = () => now() + 3600_000;"

    def looked() -> None:
        made = browser.protocol("Page.addScriptToEvaluateOnNewDocument", source=source)
        try:
            browser.open(f"http://127.0.0.1:{server.http_port}/#/key/orders/soon")
            browser.wait("document.querySelector('#server').innerText.includes('clock is 1 h 0 min ahead')")
            browser.wait("document.querySelector('.answer dl')")
            assert ", in 59 min" in browser.text(".answer dl"), "by the server's clock"
        finally:
            browser.protocol("Page.removeScriptToEvaluateOnNewDocument", identifier=made["identifier"])

    await asyncio.to_thread(looked)


async def test_many_tabs_of_one_browser(browser: Browser, server: SingleServer) -> None:
    """A browser opens six connections to a server. A tab that nobody sees leaves its own to the others, and looks."""
    hide = (
        "Object.defineProperty(document, 'hidden', {configurable: true, get: () => arguments[0]});"
        "document.dispatchEvent(new Event('visibilitychange'));"
    )
    at = f"http://127.0.0.1:{server.http_port}/"
    assert server.sight is not None

    def looked() -> None:
        first, handles = browser.tab, []
        browser.open(at)
        browser.wait("document.body.dataset.link === 'live'")
        for _ in range(8):
            browser.script(hide, True)
            handles.append(browser.new_tab())
            browser.open(f"{at}#/query/orders")
            browser.wait("document.body.dataset.link === 'live'")
        browser.wait("document.querySelector('form.ask')")
        browser.script("document.querySelector('form.ask').requestSubmit()")
        browser.wait("document.querySelectorAll('.entries tr').length > 1")
        for handle in handles:
            browser.turn_to(handle)
            browser.close_tab()
        browser.turn_to(first)
        assert browser.script("return document.title").startswith("all is well"), "it rests, and has lost nothing"
        browser.script(hide, False)
        seen = browser.text("#server")
        browser.wait("document.querySelector('#server').innerText !== arguments[0]", seen)
        assert browser.script("return document.body.dataset.link") == "live"

    await asyncio.to_thread(looked)


async def test_a_tab_that_is_used_all_day_keeps_nothing(browser: Browser, server: SingleServer) -> None:
    """Every page is shown often: neither nodes nor listeners nor memory grow with how often."""
    fragments = ["#/tables", "#/table/orders", "#/key/orders/big", "#/log/orders/0", "#/query/orders", "#/"]

    def held() -> dict[str, Any]:
        for _ in range(2):
            browser.protocol("HeapProfiler.collectGarbage")
        metrics = browser.protocol("Performance.getMetrics")["metrics"]
        return {each["name"]: each["value"] for each in metrics}

    def around(times: int) -> None:
        for _ in range(times):
            for fragment in fragments:
                browser.script("location.hash = arguments[0]", fragment)
                page = fragment.split("/")[1] or "night"
                browser.wait(f"{PAGE} === arguments[0]", page)

    def looked() -> None:
        browser.protocol("Performance.enable")
        browser.open(f"http://127.0.0.1:{server.http_port}/")
        around(3)
        before = held()
        around(12)
        after = held()
        assert after["Nodes"] <= before["Nodes"] * 1.5 + 500, (before, after)
        assert after["JSEventListeners"] <= before["JSEventListeners"] * 1.2 + 20, (before, after)
        assert after["JSHeapUsedSize"] <= before["JSHeapUsedSize"] * 1.5 + 1e6, (before, after)

    await asyncio.to_thread(looked)


async def test_a_duration_in_the_largest_two_units(browser: Browser, server: SingleServer) -> None:
    said = {0.0: "0 s", 0.0042: "4.2 ms", 9.94: "9.9 s", 99.4: "99 s", 119.7: "2 min 0 s", 179.6: "3 min 0 s",
            3599.7: "1 h 0 min", 3600.0: "1 h 0 min", 7259.0: "2 h 0 min", 172_800.0: "2.0 days"}  # fmt: skip

    def looked() -> None:
        browser.open(f"http://127.0.0.1:{server.http_port}/#/query")
        ask = "return import('/console/words.js').then((words) => arguments[0].map(words.duration))"
        assert browser.script(ask, list(said)) == list(said.values())

    await asyncio.to_thread(looked)
