"""A client of `duramen.v1.KV` for each way to it: one server, a node of three, a router before three nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kit.clients.kv_servers import KVClient, served

from duramen.server.roles.all_in_one import SingleServer

# The log of the three nodes is a process of embedded logs, whatever log a run has chosen.
_WAYS = ["single", *(pytest.param(way, marks=pytest.mark.embedded_log_only) for way in ("node", "router"))]


@pytest.fixture(params=_WAYS)
async def clients(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[list[KVClient]]:
    """One for each port; the table is there, with one replica of each of six partitions."""
    async with served(request.param, tmp_path) as ports:
        made = [KVClient(port) for port in ports]
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
