"""The membership over real status streams: who is there, who is lost, and how soon that is noticed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from unittest import mock

import pytest
from kit.cluster.in_process import DEADLINE_S, TestCluster, cluster_of, written
from kit.cluster.one_machine import puts
from kit.deadlines import patience_s, until, within
from kit.virtual_loop import run_virtually

from log_tier.catalog.cluster_map import NodeEntry
from log_tier.catalog.commands import RegisterNode
from log_tier.catalog.map_follower import MapFollower
from log_tier.model.errors import DeadlineExceeded, Disconnected, InvalidRequest
from log_tier.model.identifiers import Partition, PartitionId
from log_tier.model.table_ref import TableRef
from log_tier.rows.table_spec import TableSpec
from router.data.requests import ReadPart, WritePart
from router.data.seam import DataPlane
from router.membership.live_membership import SILENCE_MAX_S, LiveMembership
from router.membership.member import Member
from serving_tier.proto import node_pb2

ZERO = Partition(0)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[TestCluster]:
    async with cluster_of(tmp_path) as made:
        yield made


@pytest.fixture
async def table(cluster: TestCluster) -> TableRef:
    made = await cluster.router.create_table(TableSpec("flights", partitions=2), timeout=DEADLINE_S)
    await cluster.hosted(made)
    return made


@pytest.fixture
def membership(cluster: TestCluster) -> LiveMembership:
    return cluster.router.membership


def read_of(table: TableRef):  # type: ignore[no-untyped-def]
    return lambda connection: connection.read([ReadPart(PartitionId(table.id, ZERO), [b"k"])], timeout=DEADLINE_S)


async def test_what_the_nodes_say(cluster: TestCluster, table: TableRef, membership: LiveMembership) -> None:
    place = await written(cluster.router, WritePart(PartitionId(table.id, ZERO), puts((b"k", b"v"))))
    name = PartitionId(table.id, ZERO)

    def has_said(node: str) -> bool:
        """Its status says so: it comes some 50 ms later, and the first one after a write may say `replaying`."""
        replica = membership.nodes()[node].replicas.get(name)
        return replica is not None and (replica.applied, replica.state) == (place.base_offset, "ready")

    for node in ("n1", "n2", "n3"):
        await until(lambda node=node: has_said(node))  # type: ignore[misc]
        view = membership.nodes()[node]
        assert view.alive
        assert view.address == cluster.nodes[node].address
        assert (view.replicas[name].applied, view.replicas[name].state) == (place.base_offset, "ready")
        assert view.silent_ms < 1000 * patience_s(10)
        assert abs(view.clock_skew_ms) < 5000
    assert list(membership.failures()) == []


async def test_a_killed_node_is_lost_at_once(cluster: TestCluster, table: TableRef, membership: LiveMembership) -> None:
    cluster.nodes["n2"].gated.slow_s = 3600.0  # its heartbeats come all the same
    member = membership.members["n2"]
    asked = asyncio.create_task(member.ask(read_of(table)))
    await until(lambda: "read" in cluster.nodes["n2"].gated.asked)
    await cluster.nodes["n2"].stop()
    with pytest.raises(Disconnected):
        await asked
    await until(lambda: not member.alive)
    assert "it has said nothing" not in member.view.reason, "its end is noticed, not its silence"
    assert [node for node, _ in membership.failures()] == ["n2"]
    assert membership.nodes()["n2"].reason
    await until(lambda: "no Duramen server answers" in membership.nodes()["n2"].reason)
    assert "duramen up" not in membership.nodes()["n2"].reason, "who reads it has a cluster, and other things to do"


async def test_a_silent_node_is_lost_and_its_calls_end(
    cluster: TestCluster, table: TableRef, membership: LiveMembership
) -> None:
    member = membership.members["n2"]
    cluster.nodes["n2"].gate.shut()
    with pytest.raises(Disconnected, match=r"n2 at .* was lost during a request: it has said nothing for \d\.\d+ s"):
        await member.ask(read_of(table))  # long before its deadline
    assert not member.alive
    assert membership.members["n1"].alive
    assert membership.members["n3"].alive
    cluster.nodes["n2"].gate.open()
    await until(lambda: member.alive)
    (found,) = await member.ask(read_of(table))
    assert found.values == [None]


async def test_a_stream_from_a_silent_node_ends(
    cluster: TestCluster, table: TableRef, membership: LiveMembership
) -> None:
    stream = membership.members["n2"].follow(lambda connection: connection.watch(table.id, {}))
    assert (await anext(stream)).positions == {ZERO: 0, Partition(1): 0}
    cluster.nodes["n2"].gate.shut()
    with pytest.raises(Disconnected, match="was lost"):
        await anext(stream)


async def test_a_node_that_comes_back(cluster: TestCluster, table: TableRef, membership: LiveMembership) -> None:
    member = membership.members["n2"]
    await cluster.nodes["n2"].stop()
    await until(lambda: not member.alive)
    assert [node for node, _ in membership.failures()] == ["n2"]
    await cluster.nodes["n2"].start()
    await until(lambda: member.alive)
    assert membership.members["n2"] is member
    assert (list(membership.failures()), membership.nodes()["n2"].reason) == ([], "")
    (found,) = await member.ask(read_of(table))
    assert found.values == [None]


async def test_a_node_that_was_asked_while_it_was_away_answers_as_soon_as_it_is_back(
    cluster: TestCluster, table: TableRef, membership: LiveMembership
) -> None:
    """A channel that could not connect refuses its calls for up to a second, whether the node is back or not."""
    away = cluster.nodes["n2"]
    await away.stop()
    members = [Member(membership.members["n2"].entry, lambda: None) for _ in range(4)]
    for _ in range(100):
        for member in members:
            with pytest.raises(Disconnected):
                await member.ask(read_of(table))
        await asyncio.sleep(0.01)  # its attempts come ever later
    await away.start()
    for member in members:
        member.start()
    await until(lambda: all(member.alive for member in members))
    for member in members:
        (found,) = await member.ask(read_of(table))
        assert found.values == [None]
        await member.close()


async def test_a_question_that_is_under_way_when_a_node_is_back_keeps_its_connection(
    cluster: TestCluster, table: TableRef, membership: LiveMembership
) -> None:
    away, back = cluster.nodes["n2"], asyncio.Event()
    member = Member(membership.members["n2"].entry, lambda: None)

    async def patient(connection: DataPlane) -> bytes | None:
        with pytest.raises(Disconnected):
            await read_of(table)(connection)
        await back.wait()
        while True:
            with suppress(Disconnected):  # its channel tries again within a second
                (found,) = await read_of(table)(connection)
                return found.values[0]  # type: ignore[no-any-return]
            await asyncio.sleep(0.01)

    await away.stop()
    asked = asyncio.create_task(member.ask(patient))
    with pytest.raises(Disconnected):
        await member.ask(read_of(table))
    await away.start()
    member.start()
    await until(lambda: member.alive)
    back.set()
    async with within(DEADLINE_S):
        assert await asked is None
    await member.close()


async def test_a_node_that_says_goodbye(cluster: TestCluster, membership: LiveMembership) -> None:
    await cluster.nodes["n2"].stop_politely()
    await until(lambda: not membership.members["n2"].alive)
    assert "stopping" in membership.nodes()["n2"].reason


async def test_a_held_up_process_does_not_count_its_own_silence(
    membership: LiveMembership, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "router.membership")
    ticks = [member.heard_s for member in membership.members.values()]
    time.sleep(2 * SILENCE_MAX_S)
    await until(
        lambda: all(
            m.heard_s > before + 2 * SILENCE_MAX_S for m, before in zip(membership.members.values(), ticks, strict=True)
        )
    )
    assert all(member.alive for member in membership.members.values())
    assert "is lost" not in caplog.text


async def test_a_node_under_a_new_address(cluster: TestCluster, membership: LiveMembership) -> None:
    before = membership.members["n2"]
    catalog = cluster.nodes["n1"].data_plane.catalog
    await catalog.submit(RegisterNode("n2", cluster.nodes["n3"].address, "identity of n2"))
    await until(lambda: membership.members["n2"] is not before)
    await until(lambda: "node n3 answers" in membership.members["n2"].view.reason)
    assert not membership.members["n2"].alive
    with pytest.raises(Disconnected, match="was lost during a request: the cluster's map"):
        await until_closed(before)
    await catalog.submit(RegisterNode("n2", cluster.nodes["n2"].address, "identity of n2"))
    await until(lambda: membership.members["n2"].alive)


async def until_closed(member) -> None:  # type: ignore[no-untyped-def]
    async with within(DEADLINE_S):
        while True:
            await member.ask(lambda connection: connection.read([], timeout=1))
            await asyncio.sleep(0.001)


async def test_a_node_inside_a_program_has_no_address(cluster: TestCluster, membership: LiveMembership) -> None:
    await cluster.nodes["n1"].data_plane.catalog.submit(RegisterNode("inside", "", "another identity"))
    await until(lambda: "inside" in membership.nodes())
    assert "inside" not in membership.members
    assert not membership.nodes()["inside"].alive


async def test_digests(cluster: TestCluster, table: TableRef, membership: LiveMembership) -> None:
    place = await written(cluster.router, WritePart(PartitionId(table.id, ZERO), puts((b"k", b"v"))))
    replica = cluster.nodes["n2"].data_plane.node.replica(PartitionId(table.id, ZERO))
    await replica.wait_applied(place.base_offset, timeout=DEADLINE_S)
    from log_tier.model.identifiers import table_id_to_bytes

    request = node_pb2.DigestRequest(table_id=table_id_to_bytes(table.id), partition=0, offset=place.base_offset)
    reply = await membership.digest("n2", request, timeout=DEADLINE_S)
    assert (reply.offset, reply.keys) == (place.base_offset, 1)
    with pytest.raises(InvalidRequest, match=r"no node 'n9'; the nodes are: n1, n2, n3"):
        await membership.digest("n9", request, timeout=1)


async def test_a_membership_opens_while_all_nodes_are_down(cluster: TestCluster) -> None:
    for node in cluster.nodes.values():
        await node.stop()
    membership = await LiveMembership.open(MapFollower(cluster.routers[0].catalog))
    try:
        assert sorted(node for node, _ in membership.failures()) == ["n1", "n2", "n3"]
        with pytest.raises(DeadlineExceeded, match="n3"):
            await membership.wait_for(lambda: False, timeout=0.01)
    finally:
        await membership.close()
        await membership.close()


@pytest.mark.parametrize("times", [1, 2])
async def test_an_opening_that_is_cancelled_leaves_no_follower(cluster: TestCluster, times: int) -> None:
    """A client whose user gives up while it connects, a router that is stopped while it starts; or both, when the
    first one's cleaning up is not over.
    """

    def following() -> int:
        return sum(task.get_name().startswith("status of node") for task in asyncio.all_tasks())

    for node in cluster.nodes.values():
        node.status_gate.shut()
    before = following()
    opening = asyncio.create_task(LiveMembership.open(MapFollower(cluster.routers[0].catalog)))
    await until(lambda: following() == before + 3)
    for _ in range(times):
        opening.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert following() == before


async def test_a_quiet_node_is_the_more_loaded_one_before_it_is_lost(
    cluster: TestCluster, table: TableRef, membership: LiveMembership
) -> None:
    """A paused process keeps its connections; its equals are asked first as soon as a heartbeat is missing."""
    members = membership.members
    cluster.nodes["n1"].gate.shut()
    async with within(DEADLINE_S):
        while members["n1"].load < 1_000_000:
            assert members["n1"].alive, "it is quiet before it is lost"
            await asyncio.sleep(0.01)
    assert members["n2"].load < 1_000_000
    cluster.nodes["n1"].gate.open()


async def test_a_node_whose_follower_ends_by_a_bug_counts_as_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last status would else be believed for ever."""

    def broken(*_: object, **__: object) -> object:
        raise RuntimeError("a bug")

    monkeypatch.setattr("router.membership.member.renewed", broken)
    monkeypatch.setattr("router.membership.member.Wire.stream", lambda *_: _one_status())
    member = Member(NodeEntry("n1", "127.0.0.1:1", "a"), lambda: None)
    member.start()
    await until(lambda: member.known)
    assert not member.alive
    assert "status of node n1 ended (RuntimeError('a bug'))" in member.view.reason
    await member.close()


def test_a_node_whose_streams_all_end_is_asked_less_and_less() -> None:
    """It was asked some forty times a second, for ever: each first message counted as a success."""
    asked = 0

    async def ends(*_: object) -> AsyncIterator[node_pb2.NodeStatus]:
        nonlocal asked
        asked += 1
        yield node_pb2.NodeStatus(node="n1", identity="a")

    async def followed() -> None:
        member = Member(NodeEntry("n1", "127.0.0.1:1", "a"), lambda: None)
        member.start()
        await asyncio.sleep(100)
        await member.close()

    with mock.patch("router.membership.member.Wire.stream", ends):
        run_virtually(followed())
    assert 100 <= asked <= 400, "some two a second: the mean of pauses of up to a second"


async def _one_status() -> AsyncIterator[node_pb2.NodeStatus]:
    yield node_pb2.NodeStatus(node="n1")
