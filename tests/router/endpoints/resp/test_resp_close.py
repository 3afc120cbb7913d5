"""An endpoint whose close is cancelled, at whatever step, ends its connections all the same."""

from __future__ import annotations

import asyncio
import gc
import warnings
from contextlib import suppress
from pathlib import Path

import pytest
from kit.cluster.one_machine import one_machine
from kit.deadlines import patience_s, until, within
from kit.resp.raw_client import packed
from kit.resp.server_thread import open_resp

from log_tier.concurrency.tasks import end_tasks
from router.endpoints.resp.connection.client import Client
from router.endpoints.resp.server.resp_server import RespServer
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


ALONE = {
    "a transaction without keys": packed("MULTI") + packed("PING") + packed("EXEC"),
    "a command that waits": packed("WAIT", 5, 0),
    "reads in a row": packed("READFRESH", "strong") + packed("GET", "a") + packed("GET", "b"),
}
"""Each has a task of its own."""


async def only_client(server: RespServer) -> Client:
    await until(lambda: server.clients)
    (found,) = server.clients.values()
    assert isinstance(found, Client)
    return found


@pytest.mark.parametrize("words", ALONE.values(), ids=ALONE)
async def test_a_command_that_ends_before_its_first_step_leaves_nothing(tmp_path: Path, words: bytes) -> None:
    """As every command does that arrives while the server's tasks are cancelled."""
    async with one_machine(tmp_path) as data_plane:
        server = await open_resp(data_plane, RespSettings(port=0))
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        client = await only_client(server)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            client.data_received(words)
            async with asyncio.timeout(patience_s(30)):
                while client.task is None:  # noqa: ASYNC110  (a pause would let it begin)
                    await asyncio.sleep(0)  # the turn may be over before the last command
            await end_tasks(client.task)  # it has not begun
            client.task = None
            gc.collect()
        left = [text for each in warned if "never awaited" in (text := str(each.message))]
        assert left == []
        client.drop("it would wait for its reply")
        writer.close()
        await server.close()


async def test_what_arrives_while_tasks_are_ended_is_ended_too(tmp_path: Path) -> None:
    async with one_machine(tmp_path) as data_plane:
        server = await open_resp(data_plane, RespSettings(port=0))
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        client = await only_client(server)

        async def sends_when_it_ends() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                client.data_received(packed("WAIT", 5, 0))

        server.start(sends_when_it_ends())
        await server.close()
        assert client.task is not None, "it was taken"
        assert client.task.done()
        writer.close()
