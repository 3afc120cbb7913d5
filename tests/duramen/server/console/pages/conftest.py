"""A browser for the tests of this folder, which leave no error in it; and a server with some content."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from kit.browser import Browser, chromium
from kit.console_content import BINARY, HOSTILE

from duramen import aio
from duramen.server.roles.all_in_one import SingleServer


@pytest.fixture(scope="package")
def any_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("chromium")) as opened:
        yield opened


@pytest.fixture
def browser(any_browser: Browser) -> Iterator[Browser]:
    """No test leaves an error of a script, or something that the page's own policy refused."""
    any_browser.resize(1280, 900)
    any_browser.logged()
    yield any_browser
    any_browser.open("about:blank")
    expected = ("Failed to load resource", "net::ERR_")  # what is refused, a server that is gone
    assert [each for each in any_browser.logged() if not any(known in each for known in expected)] == []


@pytest.fixture
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SingleServer]:
    """With `orders` of two partitions."""
    opened = await SingleServer.open(tmp_path_factory.mktemp("served") / "data", port=0)
    await opened.serve_http(0)
    async with await aio.connect(f"127.0.0.1:{opened.port}") as db:
        table = await db.create_table("orders", partitions=2)
        for number in range(30):
            await table.put(b"eu:%02d" % number, b'{"seats":%d}' % number)
        await table.put(HOSTILE.encode(), f"value {HOSTILE}".encode())
        await table.put(BINARY, b"\x00\x01\xfe")
        await table.put(b"big", b"x" * (1 << 20))
        await table.put(b"soon", b"gone within the hour", ttl=3590.0)
    yield opened
    await opened.close()
