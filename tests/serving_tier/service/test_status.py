"""The status stream: everything first, then what changed, at least a heartbeat; shared by all who listen."""

from __future__ import annotations

import asyncio
import errno
import shutil
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from kit.cluster.two_nodes import DEADLINE_S, ZERO, ServedNode, TwoNodes
from kit.deadlines import patience_s, until, within

from log_tier.catalog.catalog import Catalog
from log_tier.catalog.commands import CreateTable, RegisterNode
from log_tier.catalog.map_follower import MapFollower
from log_tier.model.errors import DiskFull, DuramenError, Overloaded, ShuttingDown, TableNotFound
from log_tier.model.identifiers import Offset, Partition, PartitionId, table_id_from_bytes
from serving_tier.jobs.worker import TaskProgress
from serving_tier.node.hosting import Hosting, PendingReplica
from serving_tier.node.node import Node
from serving_tier.node.node_load import Load
from serving_tier.proto import node_pb2
from serving_tier.service import status_feed as module
from serving_tier.service.status_feed import STATUS_SETTINGS, NodeStatusFeed, StatusSettings


class Follower:
    """What a router makes of a status stream."""

    def __init__(self, messages: Any) -> None:
        self._messages = messages
        self.last = node_pb2.NodeStatus()
        self.replicas: dict[PartitionId, node_pb2.ReplicaStatus] = {}
        self.count = 0

    async def hear(self) -> node_pb2.NodeStatus:
        async with within(DEADLINE_S):
            message: node_pb2.NodeStatus = await anext(self._messages)
        self.last, self.count = message, self.count + 1
        for each in message.replicas:
            self.replicas[PartitionId(table_id_from_bytes(each.table_id), Partition(each.partition))] = each
        for gone in message.gone:
            del self.replicas[PartitionId(table_id_from_bytes(gone.table_id), Partition(gone.partition))]
        return message

    async def until(self, condition: Any) -> node_pb2.NodeStatus:
        async with within(DEADLINE_S):
            while not condition(self):
                await self.hear()
        return self.last


@asynccontextmanager
async def following(served: ServedNode) -> AsyncIterator[Follower]:
    async with aclosing(served.wire.stream(served.stub.Status, node_pb2.StatusRequest())) as messages:  # type: ignore[type-var]
        yield Follower(messages)


async def test_the_first_message_reports_everything(nodes: TwoNodes) -> None:
    served = nodes.nodes[1]
    last = await nodes.write(b"a", b"b")
    await nodes.level(last)
    served.running[7, 2] = TaskProgress("copying", 3, 9)
    async with aclosing(served.wire.stream(served.stub.Status, node_pb2.StatusRequest(once=True))) as messages:  # type: ignore[type-var]
        received = [message async for message in messages]
    (status,) = received
    assert (status.node, status.identity, status.map_version, status.load) == ("n2", "identity of n2", -1, 0)
    assert (status.disk_free > 0, status.disk_used > 0, status.clock_ms > 1_600_000_000_000) == (True, True, True)
    (replica,) = status.replicas
    assert table_id_from_bytes(replica.table_id) == nodes.topic.id
    assert (replica.partition, replica.applied, replica.latest, replica.lag_ms) == (0, 1, 1, 0)
    assert (replica.state, replica.reason, replica.source, replica.keys) == ("ready", "", "log", 2)
    assert replica.bytes > 4096
    (task,) = status.tasks
    assert (task.job, task.task, task.phase, task.done, task.total) == (7, 2, "copying", 3, 9)


async def test_a_follower_hears_of_writes_and_of_nothing_twice(nodes: TwoNodes) -> None:
    name = PartitionId(nodes.topic.id, ZERO)
    async with following(nodes.nodes[0]) as follower:
        await follower.hear()
        assert follower.replicas[name].applied == -1
        for _ in range(3):
            last = await nodes.write(b"a")
            await nodes.level(last)
            await follower.until(lambda follower, last=last: follower.replicas[name].applied == last)
        quiet = await follower.hear()
        assert (list(quiet.replicas), list(quiet.gone), quiet.node) == ([], [], "n1")


async def test_what_changed_does_not_wait_for_a_heartbeat(nodes: TwoNodes) -> None:
    nodes.nodes[0].feed.settings = StatusSettings(heartbeat_s=1000.0)
    name = PartitionId(nodes.topic.id, ZERO)
    async with following(nodes.nodes[0]) as follower:
        await follower.hear()
        last = await nodes.write(b"a")
        await follower.until(lambda follower: follower.replicas[name].applied == last)
        assert [each.applied for each in follower.last.replicas] == [last]


async def test_a_silent_node_is_heard_at_least_every_second(nodes: TwoNodes) -> None:
    async with following(nodes.nodes[0]) as follower:
        await follower.hear()
        loop = asyncio.get_running_loop()
        begun = loop.time()
        for _ in range(4):
            await follower.hear()
        assert loop.time() - begun >= 3 * STATUS_SETTINGS.heartbeat_s - STATUS_SETTINGS.push_every_s, (
            "and not all the time"
        )


async def test_replicas_come_and_go(nodes: TwoNodes) -> None:
    served = nodes.nodes[0]
    node = served.node
    other = await nodes.log.create_topic("hotels", partitions=2)
    async with following(served) as follower:
        await follower.hear()
        assert len(follower.replicas) == 1
        served.hosts.pending[PartitionId(other.id, ZERO)] = PendingReplica(
            other, other.partition(ZERO), "copying from n2", 1, 2
        )
        node.refusals[PartitionId(other.id, Partition(1))] = DiskFull("no room for it")
        await follower.until(lambda follower: len(follower.replicas) == 3)
        coming, refused = (
            follower.replicas[PartitionId(other.id, ZERO)],
            follower.replicas[PartitionId(other.id, Partition(1))],
        )
        assert (coming.state, coming.reason, coming.applied) == ("bootstrapping", "copying from n2 1 of 2", -1)
        assert (refused.state, refused.reason) == ("stopped", "no room for it")
        del served.hosts.pending[PartitionId(other.id, ZERO)]
        await node.host(other, other.partition(ZERO), source="peer n2 at 7")
        await follower.until(lambda follower: follower.replicas[PartitionId(other.id, ZERO)].state == "ready")
        assert follower.replicas[PartitionId(other.id, ZERO)].source == "peer n2 at 7"
        await node.unhost(PartitionId(other.id, ZERO), TableNotFound("dropped"))
        node.refusals.clear()
        await follower.until(lambda follower: len(follower.replicas) == 1)


async def test_a_replica_that_stops_says_why(nodes: TwoNodes) -> None:
    name = PartitionId(nodes.topic.id, ZERO)
    async with following(nodes.nodes[0]) as follower:
        await follower.hear()
        nodes.replicas[0]._stop("failed", DuramenError("a bug of ours"))
        await follower.until(lambda follower: follower.replicas[name].state == "stopped")
        assert follower.replicas[name].reason == "a bug of ours"


async def test_sizes_are_reported_again_when_they_changed(nodes: TwoNodes) -> None:
    nodes.nodes[0].feed.settings = StatusSettings(sizes_every_s=0.0)
    name = PartitionId(nodes.topic.id, ZERO)
    async with following(nodes.nodes[0]) as follower:
        await follower.hear()
        before = follower.replicas[name].bytes
        await nodes.write(*[b"%d" % n for n in range(5000)], value=bytes(100))
        await follower.until(lambda follower: follower.replicas[name].keys == 5000)
        assert follower.replicas[name].bytes > before


async def test_load_is_what_is_under_way_and_how_late_the_loop_is(nodes: TwoNodes) -> None:
    served = nodes.nodes[0]
    async with following(served) as follower:
        await follower.hear()
        with served.load, served.load:
            busy = await follower.until(lambda follower: follower.last.load >= 2)
        assert busy.load >= served.load.under_way + 2
        idle = await follower.until(lambda follower: follower.last.load < 2)
        assert idle.load < 2, "what has ended does not count"
        await asyncio.sleep(0)
        _block(0.3)
        late = await follower.until(lambda follower: follower.last.load > 100)
        assert 100 < late.load < 1000 * patience_s(DEADLINE_S), "in milliseconds"


def _block(seconds: float) -> None:
    """Keep the event loop busy."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while loop.time() < end:
        pass


async def test_one_computation_for_all_and_none_for_nobody(nodes: TwoNodes, monkeypatch: pytest.MonkeyPatch) -> None:
    feed = nodes.nodes[0].feed
    compared: list[bool] = []
    inner = feed._compare

    def compare(*, whole: bool) -> Any:
        compared.append(whole)
        return inner(whole=whole)

    monkeypatch.setattr(feed, "_compare", compare)
    followers = [Follower(feed.subscribe()) for _ in range(20)]
    for follower in followers:
        await follower.hear()
    assert compared == [True]
    await nodes.level(await nodes.write(b"a"))
    received = [await follower.hear() for follower in followers]
    assert all(message is received[0] for message in received)
    for follower in followers:
        await follower._messages.aclose()
    done = len(compared)
    assert feed._task is None
    async with within(DEADLINE_S):
        first = await feed.once()
    assert (len(compared), len(first.replicas)) == (done + 1, 1)


async def test_a_follower_that_does_not_keep_up_begins_anew(nodes: TwoNodes) -> None:
    feed = nodes.nodes[0].feed
    feed.settings = StatusSettings(push_every_s=0.001, heartbeat_s=0.001)
    slow = Follower(feed.subscribe())
    await slow.hear()
    begun = feed._number
    await until(lambda: feed._number > begun + module._KEPT)
    with pytest.raises(Overloaded, match="messages behind, and 64 are kept: begin anew"):
        await slow.hear()
    again = Follower(feed.subscribe())
    await again.hear()
    assert len(again.replicas) == 1
    await again._messages.aclose()


async def test_only_so_many_follow(nodes: TwoNodes) -> None:
    served = nodes.nodes[0]
    served.feed.settings = StatusSettings(subscribers_max=1)
    async with following(served) as first:
        await first.hear()
        async with following(served) as second:
            with pytest.raises(Overloaded, match="1 others follow this node's status already"):
                await second.hear()


async def test_a_disk_that_cannot_be_measured_ends_no_status(
    nodes: TwoNodes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(_: object) -> object:
        raise OSError(errno.EIO, "Input/output error")

    served = nodes.nodes[0]
    async with following(served) as follower:
        assert (await follower.hear()).disk_used > 0
        monkeypatch.setattr(shutil, "disk_usage", fails)
        await follower.until(lambda follower: follower.last.disk_used == 0)
        last = await nodes.write(b"a")
        await follower.until(lambda follower: any(each.applied == last for each in follower.replicas.values()))
    assert "is not known: [Errno 5] Input/output error" in caplog.text


async def test_a_bug_ends_the_followers_loudly(
    nodes: TwoNodes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    served = nodes.nodes[0]
    async with following(served) as follower:
        await follower.hear()
        monkeypatch.setattr(served.hosts, "pending", None)
        with pytest.raises(DuramenError, match="can no longer report its status"):
            await follower.until(lambda _: False)
    assert "ended by a bug" in caplog.text


async def test_a_server_that_stops_ends_its_streams(nodes: TwoNodes) -> None:
    served = nodes.nodes[0]
    async with following(served) as follower:
        await follower.hear()
        served.streams.end()
        with pytest.raises(ShuttingDown):
            await follower.until(lambda _: False)
    await until(lambda: served.feed._task is None)


async def test_real_hosting_is_what_the_feed_asks(nodes: TwoNodes, tmp_path: Path) -> None:
    """The shapes fit: a real catalog's map, hosted by a real node, reported by the feed."""
    catalog = await Catalog.open(nodes.log)
    node = await Node.open(nodes.log, tmp_path / "n9")
    try:
        await catalog.submit(RegisterNode("n9", "127.0.0.1:9", "the identity"))
        hosting = await Hosting.open(MapFollower(catalog), node, node_id="n9", identity="the identity")
        try:
            topic = await nodes.log.create_topic("hotels", partitions=3)
            await catalog.submit(CreateTable(topic.id, "hotels", 3, 1))
            await hosting.wait_version(catalog.map.version)
            await hosting.settled()
            status = await NodeStatusFeed(hosting, Load()).once()
            assert (status.node, status.identity) == ("n9", "the identity")
            assert status.map_version == catalog.map.version > Offset(0)
            assert sorted((each.partition, each.state) for each in status.replicas) == [
                (0, "ready"),
                (1, "ready"),
                (2, "ready"),
            ]
        finally:
            await hosting.close()
    finally:
        await node.close()
        await catalog.close()
