"""A process that is the whole cluster sees itself as others would see it, and without a connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from kit.deadlines import until, until_true

import duramen
import duramen.aio
from duramen.server.roles.all_in_one import SingleServer
from duramen.server.wiring.single_machine import NODE_ID
from log_tier.catalog.commands import RegisterNode
from log_tier.catalog.map_follower import MapFollower
from log_tier.model.errors import DeadlineExceeded, InvalidRequest
from log_tier.model.identifiers import Partition, PartitionId, table_id_to_bytes
from router.admin.client import AdminConnection
from router.admin.verbs import Stage, Swap
from router.membership import member
from router.membership.live_membership import LiveMembership
from router.membership.local_membership import LocalMembership
from router.membership.views import Membership, NodeView
from serving_tier.node.node_load import Load
from serving_tier.proto.node_pb2 import DigestRequest
from serving_tier.service import NodeStatusFeed
from serving_tier.service.replica_status import ReplicaStatus

DEADLINE_S = 20.0
KEYS = [b"k%d" % number for number in range(50)]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[SingleServer]:
    server = await SingleServer.open(tmp_path / "data", port=0)
    async with await duramen.aio.connect(f"127.0.0.1:{server.port}", timeout=DEADLINE_S) as database:
        flights = await database.create_table("flights", partitions=3)
        await flights.put_many(dict.fromkeys(KEYS, b"v"))
        # All is applied before the server measures its indexes for the first time: the next time is seconds later.
        await flights.get_many(KEYS, level="strong")
    yield server
    await server.close()


@pytest.fixture
async def local(server: SingleServer) -> AsyncIterator[LocalMembership]:
    feed = NodeStatusFeed(server.data_plane.hosting, Load())
    membership = LocalMembership(server.data_plane.hosting, feed)
    yield membership
    await membership.close()
    await feed.close()


def lasting(view: NodeView) -> NodeView:
    """Without what is another at every look."""
    replicas = {name: each._replace(lag_ms=0) for name, each in view.replicas.items()}
    return replace(view, silent_ms=0, clock_skew_ms=0, uptime_s=0, load=0, disk_free=0, disk_used=0, replicas=replicas)


def is_level(membership: Membership) -> bool:
    replicas = membership.nodes()[NODE_ID].replicas.values()
    return len(replicas) == 3 and all(each.state == "ready" and each.applied == each.latest for each in replicas)


async def test_it_sees_what_a_status_stream_would_say(server: SingleServer, local: LocalMembership) -> None:
    live = await LiveMembership.open(MapFollower(server.data_plane.catalog))
    try:
        # Measured once here, so when nothing moves any more: an acknowledged put may still be applied.
        await until(lambda: is_level(local))
        await local.measure()

        def agree() -> bool:
            seen, heard = local.nodes()[NODE_ID], live.nodes()[NODE_ID]
            return len(seen.replicas) == 3 and lasting(seen) == lasting(heard)

        await live.wait_for(agree, timeout=DEADLINE_S)
        assert local.nodes().keys() == live.nodes().keys()
        assert {each.state for each in local.nodes()[NODE_ID].replicas.values()} == {"ready"}
        both: list[Membership] = [local, live]
        name = next(iter(local.nodes()[NODE_ID].replicas))
        request = DigestRequest(table_id=table_id_to_bytes(name[0]), partition=name[1], offset=-1, buckets=256)
        request.offset = local.nodes()[NODE_ID].replicas[name].applied
        digests = [await each.digest(NODE_ID, request, timeout=DEADLINE_S) for each in both]
        assert digests[0] == digests[1]
        for each in both:
            assert list(each.failures()) == []
            with pytest.raises(InvalidRequest, match="'n9'"):
                await each.digest("n9", request, timeout=DEADLINE_S)
            with pytest.raises(DeadlineExceeded):
                await each.wait_for(lambda: False, timeout=0.01)
    finally:
        await live.close()


async def test_a_replica_is_looked_at_once_and_when_it_is_asked_for(
    server: SingleServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = NodeStatusFeed(server.data_plane.hosting, Load())
    looked: list[PartitionId] = []
    look = feed.replica

    def counted(name: PartitionId) -> ReplicaStatus:
        looked.append(name)
        return look(name)

    monkeypatch.setattr(feed, "replica", counted)
    replicas = LocalMembership(server.data_plane.hosting, feed).nodes()[NODE_ID].replicas
    first, second, third = replicas
    assert (len(replicas), looked) == (3, [])
    assert replicas[second] == replicas[second]
    assert looked == [second]
    with pytest.raises(KeyError):
        replicas[PartitionId(first.table, Partition(9))]
    assert PartitionId(first.table, Partition(9)) not in replicas
    assert third in replicas


async def test_a_change_wakes_who_waits_for_it(server: SingleServer, local: LocalMembership) -> None:
    def applied() -> int:
        return sum(each.applied for each in local.nodes()[NODE_ID].replicas.values())

    everything = len(KEYS) - len(local.nodes()[NODE_ID].replicas)  # offsets begin at 0 in each partition
    await until(lambda: applied() == everything)
    looks: list[int] = []

    def has_changed() -> bool:
        looks.append(applied())
        return looks[-1] > everything

    waiting = asyncio.create_task(local.wait_for(has_changed, timeout=DEADLINE_S))
    await until(lambda: looks)
    async with await duramen.aio.connect(f"127.0.0.1:{server.port}", timeout=DEADLINE_S) as database:
        await database.table("flights").put(b"new", b"v")
    await waiting
    assert (looks[0], looks[-1]) == (everything, everything + 1)


async def test_another_node_that_once_registered_is_lost(server: SingleServer, local: LocalMembership) -> None:
    await server.data_plane.catalog.submit(RegisterNode("n7", "127.0.0.1:1", "other"))
    view = local.nodes()["n7"]
    assert not view.alive
    assert view.reason == f"node {NODE_ID} is the only one here: this process holds the whole database"
    ((node, error),) = local.failures()
    assert (node, "n7 at 127.0.0.1:1 is not there" in error.message) == ("n7", True)


async def test_the_single_server_does_not_connect_to_itself(
    server: SingleServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: object) -> None:
        raise AssertionError("the server opens a status stream")

    monkeypatch.setattr(member.Member, "start", refuse)
    async with AdminConnection(f"127.0.0.1:{server.port}", timeout=DEADLINE_S) as admin:
        (node,) = await admin.nodes()
        assert (node.node, node.state, node.ready) == (NODE_ID, "alive", 3)
        assert [each.ready for each in await admin.partitions()] == [1, 1, 1]

        async def all_counted() -> bool:
            """Sizes are measured every few seconds, and the first time perhaps before all was applied."""
            return sum(each.keys for each in await admin.partitions()) == len(KEYS)

        await until_true(all_counted)
        (replica,) = (await admin.explain("flights", KEYS[0])).replicas
        assert (replica.node, replica.value) == (NODE_ID, "v")
        assert [each.verdict async for each in admin.verify("flights", Partition(0))] == ["single"]
        for change in (Stage("flights", "empty:"), Swap("flights")):
            plan = await admin.start(change)
            async for job in admin.follow_job(plan.job):
                last = job
            assert last.state == "done"
        assert [each.state for each in await admin.versions()] == ["kept", "live"]
