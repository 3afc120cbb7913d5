"""How long a watch tries to begin: its position is fixed within its timeout, or the caller hears why not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Literal

import pytest
from kit.client.tcp_proxy import TcpProxy
from kit.deadlines import until, within

import duramen
from duramen import aio
from duramen.client.model.results import Change
from duramen.client.table import Table
from duramen.client.watch import Watch
from duramen.server.roles.all_in_one import SingleServer

DEADLINE_S = 30


@pytest.fixture
async def proxy() -> AsyncIterator[TcpProxy]:
    made = TcpProxy(0)
    await made.start()
    yield made
    await made.close()


@pytest.fixture
async def server(tmp_path: Path, proxy: TcpProxy) -> AsyncIterator[SingleServer]:
    opened = await SingleServer.open(tmp_path / "data", port=0)
    proxy.target_port = opened.port
    yield opened
    await opened.close()


@pytest.fixture
async def flights(server: SingleServer, proxy: TcpProxy) -> AsyncIterator[Table]:
    database = await aio.connect(f"127.0.0.1:{proxy.port}", timeout=DEADLINE_S)
    yield await database.create_table("flights", partitions=3)
    await database.close()
    await proxy.cut()  # a server that closes waits for calls under way, and for those behind it too


async def _begun(flights: Table) -> Watch[Change]:
    return await flights.watch(timeout=DEADLINE_S)


@pytest.mark.parametrize("start", ["now", "earliest"])
async def test_a_silent_server_does_not_hold_up_the_beginning_of_a_watch(
    proxy: TcpProxy, flights: Table, start: Literal["now", "earliest"]
) -> None:
    proxy.swallow_replies = True
    with pytest.raises(duramen.DeadlineExceeded):
        await flights.watch(start=start, timeout=0.3)


async def test_nor_one_that_falls_silent_before_a_watch_connects_again(proxy: TcpProxy, flights: Table) -> None:
    async with aclosing(await flights.watch(timeout=0.3)) as changes:
        proxy.swallow_replies = True
        await proxy.cut()
        with pytest.raises(duramen.Disconnected, match="watch again with the last change's token"):
            await anext(aiter(changes))


async def test_a_watch_begins_as_soon_as_the_server_is_back(proxy: TcpProxy, flights: Table) -> None:
    """As every other call does, it tries until its timeout."""
    refused = 0

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal refused
        refused += 1
        writer.close()

    await proxy.stop()
    away = await asyncio.start_server(refuse, "127.0.0.1", proxy.port)
    beginning = asyncio.ensure_future(_begun(flights))
    await until(lambda: refused >= 2)
    away.close()
    await away.wait_closed()
    await proxy.start()
    async with within(DEADLINE_S), aclosing(await beginning) as changes:
        await flights.put(b"UA1545", b"departed")
        assert (await anext(aiter(changes))).key == b"UA1545"


async def test_a_watch_that_cannot_begin_says_for_how_long_it_tried(proxy: TcpProxy, flights: Table) -> None:
    await proxy.stop()
    with pytest.raises(duramen.Disconnected, match=r"\(waited up to 0\.3 s; watch again\)"):
        await flights.watch(timeout=0.3)
