"""A server with some content."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from kit.console_content import BINARY, HOSTILE

from duramen import aio
from duramen.server.roles.all_in_one import SingleServer


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
