"""From an address to a connection, over a whole cluster in this event loop."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from kit.client.tcp_proxy import TcpProxy
from kit.cluster.in_process import DEADLINE_S, TestCluster, cluster_of
from kit.cluster.one_machine import held
from kit.deadlines import patience_s, until

import duramen
from duramen import aio
from log_tier.access.client.client_target import parse_target
from log_tier.rows.table_spec import TableSpec
from router.remote.grpc_connection import GrpcConnection
from router.routing.failover import FailoverConnection
from router.routing.routed_connection import RoutedConnection

pytestmark = pytest.mark.embedded_log_only  # the clusters here have a log process of their own

UNREACHABLE = "127.0.0.1:1"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[TestCluster]:
    async with cluster_of(tmp_path, routers=2) as made:
        yield made


@pytest.fixture
async def connect() -> AsyncIterator[Callable[..., Any]]:
    opened: list[aio.Database] = []

    async def make(target: str | Sequence[str], **how: Any) -> aio.Database:
        opened.append(await aio.connect(target, **how))
        return opened[-1]

    yield make
    for database in opened:
        await database.close()


def routed(database: aio.Database) -> RoutedConnection:
    assert isinstance(database.connection, RoutedConnection)
    return database.connection


async def check_everything_works(database: aio.Database, name: str = "flights") -> None:
    """Each kind of call, once."""
    table = await database.create_table(name, partitions=4)
    await table.put_many({b"k%d" % number: b"v%d" % number for number in range(50)})
    assert await table.get(b"k7") == b"v7"
    assert await table.get(b"k7", level="strong") == b"v7"
    assert await table.get(b"k7", level=duramen.bounded(max_lag=10)) == b"v7"
    assert await table.get_many([b"k1", b"none", b"k2"], level=duramen.bounded(0.5)) == [b"v1", None, b"v2"]
    assert (await table.update(b"n", add=2)).value == 2
    with pytest.raises(duramen.ConditionFailed):
        await table.put(b"k7", b"w", if_absent=True)
    assert len([key async for key, _ in table.scan(prefix=b"k")]) == 50
    assert len([key async for key, _ in table.scan(prefix=b"k", level=duramen.bounded(1), reverse=True)]) == 50
    async with table.writer("rows") as writer:
        await writer.put(b"row", b"1")
    changes = table.watch(start="earliest")
    seen = [await anext(changes) for _ in range(52)]
    assert {change.key for change in seen} == {b"k%d" % number for number in range(50)} | {b"n", b"row"}
    await changes.aclose()
    description = await table.describe()
    assert sum(part.latest + 1 for part in description.partitions) == 53
    assert all(part.nodes for part in description.partitions)
    assert name in [found.name for found in await database.tables()]
    await database.drop_table(name)
    with pytest.raises(duramen.TableNotFound):
        await table.get(b"k7")


async def test_through_a_router_straight_to_the_nodes(cluster: TestCluster, connect: Callable[..., Any]) -> None:
    database = await connect(cluster.routers[0].address)
    await check_everything_works(database)
    asked = cluster.routers[0].connection.reads.questions.budget
    assert asked._left == 10, "the router was asked for no key"
    assert any("read" in node.gated.asked for node in cluster.nodes.values())


async def test_through_a_router_and_no_further(cluster: TestCluster, connect: Callable[..., Any]) -> None:
    database = await connect(cluster.routers[0].address, direct=False)
    assert type(database.connection) is GrpcConnection
    await check_everything_works(database)


async def test_from_a_node(cluster: TestCluster, connect: Callable[..., Any]) -> None:
    """A node sends the map too; what needs the catalog, it cannot do."""
    table = await (await connect(cluster.routers[0].address)).create_table("flights", partitions=2)
    await table.put(b"k", b"v")
    database = await connect(cluster.nodes["n1"].address)
    assert await database.table("flights").get(b"k", level="strong") == b"v"
    assert (await database.table("flights").describe()).table.name == "flights"


async def test_nodes_and_log_that_cannot_be_reached_from_here(
    tmp_path: Path, connect: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The map names addresses that mean nothing to the client; the router, which has the right ones, does it all."""
    async with cluster_of(tmp_path, routers=1) as cluster:
        view = type("View", (), {})()
        from duramen.client.transport import routing
        from log_tier.catalog.remote.cluster_view import view_of

        async def misled(message: Any) -> Any:
            found = await view_of(message)
            for node in found.map.nodes.values():
                object.__setattr__(node, "address", UNREACHABLE)
            found.log_url = f"grpc://{UNREACHABLE}"
            view.found = found
            return found

        monkeypatch.setattr(routing, "view_of", misled)
        table = await cluster.router.create_table(TableSpec("before", partitions=2), timeout=DEADLINE_S)
        await cluster.hosted(table)
        database = await connect(cluster.routers[0].address)
        connection = routed(database)
        monkeypatch.setattr(connection.maps, "_feed", _Frozen(connection.maps))
        before = database.table("before")
        await before.put(b"k", b"v")
        assert await before.get(b"k") == b"v"
        assert (await before.update(b"n", add=1)).value == 1
        assert [key async for key, _ in before.scan()] == [b"k", b"n"]
        changes = before.watch(start="earliest")
        assert {(await anext(changes)).key for _ in range(2)} == {b"k", b"n"}
        await changes.aclose()
        assert not any(member.alive for member in connection.membership.members.values())
        assert connection.writes._log is None


async def test_a_log_that_is_silent_at_first_is_written_to_when_it_answers(
    cluster: TestCluster, connect: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then, writes go through the server; the sequences of a writer go on across the change."""
    from duramen.client.transport import routing
    from log_tier.catalog.remote.cluster_view import view_of

    proxy = TcpProxy(int(cluster.routers[0]._log.url.rpartition(":")[2]))
    proxy.swallow_replies = True
    await proxy.start()

    async def by_proxy(message: Any) -> Any:
        found = await view_of(message)
        found.log_url = f"grpc://127.0.0.1:{proxy.port}"
        return found

    monkeypatch.setattr(routing, "view_of", by_proxy)
    monkeypatch.setattr(routing, "LOG_WAIT_S", 0.2)
    monkeypatch.setattr(routing, "LOG_AGAIN_MAX_S", 1.0)
    try:
        database = await connect(cluster.routers[0].address)
        writes = routed(database).writes
        table = await database.create_table("late", partitions=2)
        async with table.writer("rows") as writer:
            for number in range(20):
                if number == 10:
                    assert writes._log is None
                    proxy.swallow_replies = False
                    await proxy.cut()
                    await until(lambda: writes._log is not None)
                await writer.put(b"k%d" % number, b"%d" % number)
                await writer.flush()
        assert [len(await table.get(b"k%d" % number)) for number in range(20)] == [1] * 10 + [2] * 10
        assert sum(part.latest + 1 for part in (await table.describe()).partitions) == 20
    finally:
        await proxy.stop()
        await proxy.close()


class _Frozen:
    """Maps that hear of nothing newer, with their unreachable nodes."""

    def __init__(self, maps: Any) -> None:
        self.map = maps.map
        self._inner = maps._feed

    def advance(self, _: object) -> None:
        """Stay with the map that names unreachable nodes."""

    def fail(self, failure: duramen.DuramenError) -> None:
        self._inner.fail(failure)

    async def wait_for(self, predicate: Any, *, timeout: float | None = None) -> Any:
        return await self._inner.wait_for(predicate, timeout=timeout)


@pytest.mark.parametrize("form", ["commas", "list"])
async def test_the_first_of_several_that_answers(cluster: TestCluster, connect: Callable[..., Any], form: str) -> None:
    targets = [UNREACHABLE, cluster.routers[1].address, cluster.routers[0].address]
    database = await connect(", ".join(targets) if form == "commas" else targets)
    await check_everything_works(database)


@pytest.mark.parametrize("direct", [True, False])
async def test_a_router_that_is_lost_later(cluster: TestCluster, connect: Callable[..., Any], direct: bool) -> None:
    database = await connect([router.address for router in cluster.routers], direct=direct)
    await check_everything_works(database)
    await cluster.routers[0].stop()
    await database.tables()  # a question is asked again; a change whose connection breaks would fail
    await check_everything_works(database, "again")
    await cluster.routers[0].start()
    await cluster.routers[1].stop()
    await database.tables()
    await check_everything_works(database, "and-again")


async def test_every_router_is_away(cluster: TestCluster, connect: Callable[..., Any]) -> None:
    """Who goes straight to the nodes and the log needs none of them for its data."""
    database = await connect([router.address for router in cluster.routers])
    table = await database.create_table("flights", partitions=2)
    for router in cluster.routers:
        await router.stop()
    await table.put(b"k", b"v")
    assert await table.get(b"k") == b"v"
    assert (await table.update(b"n", add=1)).value == 1
    assert [key async for key, _ in table.scan()] == [b"k", b"n"]
    assert (await table.describe()).table.name == "flights"


async def test_nobody_answers() -> None:
    with pytest.raises(duramen.Disconnected):
        await aio.connect([UNREACHABLE, "127.0.0.1:2"], timeout=0.5)
    nothing: tuple[str | list[str], ...] = ("", " , ", [])
    for target in nothing:
        with pytest.raises(duramen.InvalidRequest, match="names no server"):
            await aio.connect(target)


async def test_a_server_that_does_not_speak(connect: Callable[..., Any], cluster: TestCluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:  # the system accepts, nobody reads
        silent = f"127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises((duramen.DeadlineExceeded, duramen.Disconnected)):
            await aio.connect(silent, timeout=0.2)
        database = await connect([silent, cluster.routers[0].address], timeout=patience_s(10.0))
        await check_everything_works(database)


def test_targets() -> None:
    assert parse_target("a:1") == (("a:1",), False, "")
    assert parse_target("a:1, b:2,") == (("a:1", "b:2"), False, "")
    assert parse_target(("a:1", "b:2")) == (("a:1", "b:2"), False, "")
    assert parse_target("duramens://a:1,[::1]:2") == (("a:1", "[::1]:2"), True, "")


async def test_too_many_replicas(cluster: TestCluster, connect: Callable[..., Any]) -> None:
    database = await connect(cluster.routers[0].address)
    with pytest.raises(duramen.CommandRejected, match="4 replicas"):
        await database.create_table("flights", replicas=4)
    table = await database.create_table("flights", partitions=3, replicas=2)
    assert [len(part.nodes) for part in (await table.describe()).partitions] == [2, 2, 2]
    for wrong in (0, -1, 1.5, True):
        with pytest.raises(duramen.InvalidRequest, match="replicas"):
            await database.create_table("more", replicas=wrong)


@pytest.mark.parametrize("wrong", [0, -1, 0.0005, 1e9, "1", True, None, float("nan")])
async def test_bounds_that_are_none(wrong: object) -> None:
    with pytest.raises(duramen.InvalidRequest, match="max_lag is a number of seconds"):
        duramen.bounded(wrong)  # type: ignore[arg-type]


async def test_a_session_survives_the_loss_of_nodes(cluster: TestCluster, connect: Callable[..., Any]) -> None:
    """Read-your-writes and monotonic reads, while nodes lag and die in turn."""
    database = await connect(cluster.routers[0].address)
    table = await database.create_table("flights", partitions=1)
    topic = await database.connection.find_table("flights", timeout=DEADLINE_S)
    await cluster.hosted(topic)
    for number, name in enumerate(("n1", "n2", "n3")):
        with held(cluster.replicas(topic, 0)[number - 1]):
            for turn in range(20):
                await table.put(b"k", b"%d" % turn)
                assert await table.get(b"k", timeout=DEADLINE_S) == b"%d" % turn
        await cluster.nodes[name].stop()
        for turn in range(20):
            await table.put(b"k", b"%d" % turn)
            assert await table.get(b"k", timeout=DEADLINE_S) == b"%d" % turn
        await cluster.nodes[name].start()
        await until(lambda name=name: routed(database).membership.members[name].alive)  # type: ignore[misc]


async def test_a_watch_goes_on_through_the_loss_of_its_nodes(cluster: TestCluster, connect: Callable[..., Any]) -> None:
    database = await connect(cluster.routers[0].address)
    table = await database.create_table("flights", partitions=2)
    changes = table.watch(start="earliest", timeout=DEADLINE_S)
    seen: list[tuple[int, int]] = []
    for name in ("n1", "n2", "n3", "n1"):
        await table.put_many({b"k%d" % number: b"v" for number in range(20)})
        seen += [(change.partition, change.offset) for change in [await anext(changes) for _ in range(20)]]
        await cluster.nodes[name].stop()
        await table.put_many({b"k%d" % number: b"v" for number in range(20)})
        seen += [(change.partition, change.offset) for change in [await anext(changes) for _ in range(20)]]
        await cluster.nodes[name].start()
        await until(lambda name=name: routed(database).membership.members[name].alive)  # type: ignore[misc]
    await changes.aclose()
    assert len(seen) == len(set(seen)) == 160
    for partition in range(2):
        offsets = [offset for where, offset in seen if where == partition]
        assert offsets == list(range(len(offsets)))


async def test_several_servers_are_asked_in_turn() -> None:
    """What may have had an effect is not sent to the next one by itself."""
    asked: list[str] = []

    class Server:
        def __init__(self, name: str, error: duramen.DuramenError | None) -> None:
            self.name, self.error = name, error

        async def _answer(self, what: str) -> list[Any]:
            asked.append(f"{self.name} {what}")
            if self.error is not None:
                raise self.error
            return [what]

        async def read(self, parts: object, **_: object) -> list[Any]:
            return await self._answer("read")

        async def write(self, parts: object, **_: object) -> list[Any]:
            return await self._answer("write")

    async def ask(error: duramen.DuramenError, *calls: str, return_s: float = 2.0) -> list[str]:
        asked.clear()
        servers: Any = [Server("a", error), Server("b", None)]
        several: Any = FailoverConnection(servers, return_s=return_s)
        for call in calls:
            try:
                await getattr(several, call)([], timeout=1.0)
            except duramen.DuramenError:
                asked.append("failed")
        return list(asked)

    lost, unsent = duramen.Disconnected("lost"), duramen.Disconnected("refused", sent=0)
    assert await ask(lost, "read", "read") == ["a read", "b read", "b read"]
    assert await ask(lost, "write", "write") == ["a write", "failed", "b write"]
    assert await ask(unsent, "write", "write") == ["a write", "b write", "b write"]
    assert await ask(duramen.ShuttingDown("bye"), "write") == ["a write", "b write"]
    assert await ask(duramen.DeadlineExceeded("slow"), "read", "read") == ["a read", "failed", "b read"]
    assert await ask(lost, "read", return_s=0.0) == ["a read", "failed"], "where nobody answers, that is said"
    assert await ask(duramen.ReplicaBehind("behind"), "read", "read") == ["a read", "failed", "a read", "failed"]
