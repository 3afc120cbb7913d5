"""A browser and a server of this process, for the operator's pages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from kit.browser import Browser, chromium

from duramen.server.roles.all_in_one import SingleServer


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("chromium")) as opened:
        opened.resize(1280, 900)
        yield opened


@pytest.fixture(autouse=True)
def nothing_is_refused(request: pytest.FixtureRequest) -> Iterator[None]:
    """No test leaves an error of a script, or something that the page's own policy refused."""
    if "browser" not in request.fixturenames:
        yield
        return
    browser: Browser = request.getfixturevalue("browser")
    browser.logged()
    yield
    browser.script("sessionStorage.clear()")
    browser.open("about:blank")
    expected = ("Failed to load resource", "net::ERR_")  # a server that is gone, a call that is refused
    assert [each for each in browser.logged() if not any(known in each for known in expected)] == []


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[SingleServer]:
    opened = await SingleServer.open(tmp_path / "data", port=0)
    await opened.serve_http(0)
    yield opened
    await opened.close()
