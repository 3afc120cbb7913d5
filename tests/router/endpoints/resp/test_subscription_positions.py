"""A subscription that was confirmed misses nothing: three nodes, written to at another one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from kit.cluster.in_process import TestCluster, cluster_of, written
from kit.cluster.one_machine import puts
from kit.deadlines import until, within
from kit.resp.raw_client import Status, packed, read_reply

from log_tier.catalog.map_follower import MapFollower
from log_tier.model.errors import DuramenError, IndexDamaged, LogDamaged, OffsetTrimmed, TableExists
from log_tier.model.identifiers import PartitionId
from log_tier.model.table_ref import TableRef
from log_tier.rows.table_spec import TableSpec
from router.data.requests import WritePart
from router.endpoints.resp.server.resp_server import RespServer
from router.endpoints.resp.server.sockets import RespSettings, RespSockets

DEADLINE_S = 20.0
KEYS = 60


class Listener:
    """A connection that reads replies and messages."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._data = b""

    def send(self, *words: bytes | str) -> None:
        self._writer.write(packed(*words))

    async def reply(self) -> Any:
        async with within(DEADLINE_S):
            while True:
                try:
                    found, end = read_reply(self._data)
                except IndexError:
                    more = await self._reader.read(1 << 16)
                    assert more, "the server has ended the connection"
                    self._data += more
                else:
                    self._data = self._data[end:]
                    return found

    async def call(self, *words: bytes | str) -> Any:
        self.send(*words)
        return await self.reply()

    async def ended(self) -> bool:
        """Has the server ended the connection, with nothing more to read?"""
        async with within(DEADLINE_S):
            return await self._reader.read(1) == b""


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[TestCluster]:
    async with cluster_of(tmp_path) as made:
        yield made


class FailingWatches:
    """A connection whose watches end with `error` once it is set; with `once`, those that are open then."""

    def __init__(self, inner: Any, *, once: bool = False) -> None:
        self._inner = inner
        self._once = once
        self.error: DuramenError | None = None
        self.fails = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def watch(self, *args: Any) -> AsyncIterator[Any]:
        if self.error is not None and not self._once:
            raise self.error
        events = self._inner.watch(*args)
        try:
            yield await anext(events)  # the positions
            await self.fails.wait()
            assert self.error is not None
            if self._once:
                self.fails.clear()
            raise self.error
        finally:
            await events.aclose()

    def fail(self, error: DuramenError) -> None:
        self.error = error
        self.fails.set()


@asynccontextmanager
async def endpoint(cluster: TestCluster, connection: Any = None) -> AsyncIterator[RespServer]:
    """The RESP endpoint of the cluster's router."""
    settings = RespSettings(port=0)
    router = cluster.routers[0]
    opened = await RespServer.open(
        connection or router.connection,
        MapFollower(router.catalog),
        settings,
        RespSockets.take(settings),
        node=None,
        node_id="r",
    )
    try:
        yield opened
    finally:
        await opened.close()


@asynccontextmanager
async def listener(server: RespServer) -> AsyncIterator[Listener]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        yield Listener(reader, writer)
    finally:
        writer.close()
        await writer.wait_closed()


async def put(cluster: TestCluster, node: str, table: TableRef, key: bytes) -> None:
    """Acknowledged by that node alone."""
    batch = puts((key, b"v"))
    await written(cluster.nodes[node].data_plane, WritePart(PartitionId(table.id, table.partition_of(key)), batch))


async def make(cluster: TestCluster, name: str) -> TableRef:
    try:
        table = await cluster.router.create_table(TableSpec(name, partitions=3), timeout=DEADLINE_S)
    except TableExists:  # a listener to a numbered table makes it
        table = await cluster.router.find_table(name, timeout=DEADLINE_S)
    await cluster.hosted(table)
    return table


@pytest.mark.parametrize("pattern", ["__keyspace@0__:*", "__key*@*__:*"])
async def test_writes_at_another_node_after_the_confirmation_are_notified(cluster: TestCluster, pattern: str) -> None:
    table = await make(cluster, "default")
    async with endpoint(cluster) as server, listener(server) as mine:
        assert await mine.call("PSUBSCRIBE", pattern) == [b"psubscribe", pattern.encode(), 1]
        expected = {b"k%d" % number for number in range(KEYS)}
        for key in sorted(expected):
            await put(cluster, "n2", table, key)
        while expected:
            kind, _, channel, name = await mine.reply()
            assert kind == b"pmessage"
            if b"__keyspace@0__:" in channel:
                assert name == b"set"
                expected.remove(channel.removeprefix(b"__keyspace@0__:"))


async def test_the_confirmation_waits_for_the_position(cluster: TestCluster) -> None:
    await make(cluster, "default")
    async with endpoint(cluster) as server, listener(server) as mine:
        for node in cluster.nodes.values():
            node.gate.shut()
        mine.send("SUBSCRIBE", "__keyspace@0__:k")
        asked = [node.gated.asked for node in cluster.nodes.values()]
        await until(lambda: any("watch" in each for each in asked))
        assert not server.notifications.watching(0)
        assert not any(client.channels for client in server.clients.values())
        for node in cluster.nodes.values():
            node.gate.open()
        assert await mine.reply() == [b"subscribe", b"__keyspace@0__:k", 1]
        assert server.notifications.watching(0)


async def test_a_table_that_is_created_under_a_subscription_to_all(cluster: TestCluster) -> None:
    await make(cluster, "default")
    async with endpoint(cluster) as server, listener(server) as mine:
        assert await mine.call("PSUBSCRIBE", "*keyspace*") == [b"psubscribe", b"*keyspace*", 1]
        table = await make(cluster, "db5")
        for number in range(10):
            await put(cluster, "n3", table, b"{k}%d" % number)
        report = [(await mine.reply())[2:] for _ in range(10)]
        assert report == [[b"__keyspace@5__:{k}%d" % number, b"set"] for number in range(10)]


async def test_a_table_that_is_dropped_and_made_again(cluster: TestCluster) -> None:
    await make(cluster, "default")
    async with endpoint(cluster) as server, listener(server) as mine:
        assert await mine.call("SUBSCRIBE", "__keyevent@0__:set") == [b"subscribe", b"__keyevent@0__:set", 1]
        await cluster.router.drop_table("default", timeout=DEADLINE_S)
        table = await make(cluster, "default")
        for number in range(10):
            await put(cluster, "n1", table, b"{k}%d" % number)
        report = [(await mine.reply())[2] for _ in range(10)]
        assert report == [b"{k}%d" % number for number in range(10)]


@pytest.mark.parametrize("kind", ["SUBSCRIBE", "PSUBSCRIBE"])
async def test_a_watch_that_cannot_go_on_ends_the_connections_that_listen(
    cluster: TestCluster, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It was tried again for ever, and the clients waited for changes that never came."""
    await make(cluster, "default")
    await make(cluster, "db5")
    watched = FailingWatches(cluster.routers[0].connection)
    async with endpoint(cluster, watched) as server, listener(server) as mine, listener(server) as other:
        name = "__keyspace@0__:k" if kind == "SUBSCRIBE" else "__key*@*__:*"
        assert await mine.call(kind, name) == [kind.lower().encode(), name.encode(), 1]
        watched.fail(LogDamaged("a file is damaged"))
        assert await mine.ended()
        assert "end, its listeners are disconnected: a file is damaged" in caplog.text
        refused = await other.call(kind, name)
        assert "a file is damaged" in refused.text
        assert await other.call("PING") == Status("PONG")
        assert not server.notifications.watching(0)


async def test_a_watch_whose_log_was_trimmed_ends_the_connections_that_listen(
    cluster: TestCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """It went on behind the gap, and no client knew that it had missed something."""
    await make(cluster, "default")
    watched = FailingWatches(cluster.routers[0].connection, once=True)
    async with endpoint(cluster, watched) as server, listener(server) as mine, listener(server) as other:
        await mine.call("SUBSCRIBE", "__keyspace@0__:k")
        watched.fail(OffsetTrimmed("offset 3 is gone", partition=0, earliest=5))
        assert await mine.ended()
        assert "end, its listeners are disconnected: offset 3 is gone" in caplog.text
        # Who comes now begins at the log's end, and misses nothing.
        assert await other.call("SUBSCRIBE", "__keyspace@0__:k") == [b"subscribe", b"__keyspace@0__:k", 1]
        assert server.notifications.watching(0)


async def test_a_watch_that_may_go_on_later_is_tried_again(cluster: TestCluster) -> None:
    await make(cluster, "default")
    watched = FailingWatches(cluster.routers[0].connection)
    async with endpoint(cluster, watched) as server, listener(server) as mine:
        assert await mine.call("SUBSCRIBE", "__keyspace@0__:k") == [b"subscribe", b"__keyspace@0__:k", 1]
        watched.fail(IndexDamaged("it is built anew"))
        assert await mine.call("PING") == [b"pong", b""]
        assert server.notifications.watching(0)
