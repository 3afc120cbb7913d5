"""A client of `duramen.v1.KV` for each way to it: one server, a node of three, a router before three nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack

import pytest
from kit.clients.kv_servers import KVClient, served

from duramen.client.transport.loop_thread import LoopThread
from duramen.server.roles.all_in_one import SingleServer

# The log of the three nodes is a process of embedded logs, whatever log a run has chosen.
_WAYS = ["single", *(pytest.param(way, marks=pytest.mark.embedded_log_only) for way in ("node", "router"))]


@pytest.fixture(scope="module", params=_WAYS)
def ports(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[int]]:
    """Servers for all tests of a module: a start of three nodes takes longer than most tests."""
    loop, opened = LoopThread(), AsyncExitStack()
    folder = tmp_path_factory.mktemp("served")
    yield loop.run(lambda: opened.enter_async_context(served(request.param, folder)))
    loop.run(opened.aclose)
    loop.stop()


@pytest.fixture
async def clients(ports: list[int], table_name: str) -> AsyncIterator[list[KVClient]]:
    """One for each port; a table of the test's own is there, with one replica of each of six partitions."""
    made = [KVClient(port, table_name) for port in ports]
    await made[0].create()
    yield made
    for client in made:
        await client.channel.close(None)


@pytest.fixture
def client(clients: list[KVClient]) -> KVClient:
    return clients[0]


@pytest.fixture
async def single(emptied_server: SingleServer) -> AsyncIterator[KVClient]:
    """Of one server, for what does not depend on the way."""
    made = KVClient(emptied_server.port)
    await made.create()
    yield made
    await made.channel.close(None)
