"""An endpoint whose close is cancelled, at whatever step, ends its connections all the same."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest
from kit.cluster.one_machine import one_machine
from kit.deadlines import within
from kit.resp.server_thread import open_resp

from router.endpoints.resp.server.sockets import RespSettings


@pytest.mark.parametrize("turns", [1, 2, 4, 8])
async def test_a_cancelled_close_ends_its_connections(tmp_path: Path, turns: int) -> None:
    async with one_machine(tmp_path) as data_plane:
        server = await open_resp(data_plane, RespSettings(port=0))
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"SET key value\r\n")
        async with within(10):
            assert await reader.readline() == b"+OK\r\n"
        closing = asyncio.create_task(server.close())
        for _ in range(turns):
            await asyncio.sleep(0)
        closing.cancel()
        async with within(10):
            with suppress(asyncio.CancelledError):
                await closing
            assert await reader.read() == b""
        writer.close()
        assert not server.clients
        await server.close()
