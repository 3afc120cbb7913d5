"""One browser for all tests of the console's pages, which leave no error in it; and a server of this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from kit.browser import Browser, chromium

from duramen.server.roles.all_in_one import SingleServer


@pytest.fixture(scope="session")
def any_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("chromium")) as opened:
        yield opened


@pytest.fixture
def browser(any_browser: Browser) -> Iterator[Browser]:
    """No test leaves an error of a script, something that the page's own policy refused, or who it was."""
    any_browser.resize(1280, 900)
    any_browser.protocol("Emulation.setEmulatedMedia", features=[])
    any_browser.logged()
    yield any_browser
    any_browser.script("try { sessionStorage.clear() } catch { /* a page of no server */ }")
    any_browser.open("about:blank")
    expected = ("Failed to load resource", "net::ERR_")  # what is refused, a server that is gone
    assert [each for each in any_browser.logged() if not any(known in each for known in expected)] == []


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[SingleServer]:
    opened = await SingleServer.open(tmp_path / "data", port=0)
    await opened.serve_http(0)
    yield opened
    await opened.close()
