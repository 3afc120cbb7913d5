"""Asking other replicas: each way in which a part may end, with nodes whose replies the test sets."""

from __future__ import annotations

import asyncio

import pytest
from kit.cluster.scripted_members import TABLE, Behaviour, ScriptedCluster, ScriptedMember
from kit.deadlines import patience_s, until
from kit.virtual_loop import run_virtually

from log_tier.catalog.cluster_map import Assignment, ClusterMap, TableEntry
from log_tier.concurrency.persistent_map import PersistentMap
from log_tier.model.errors import (
    Disconnected,
    DuramenError,
    IndexDamaged,
    InvalidKey,
    NotHosted,
    Overloaded,
    ReplicaBehind,
    TableNotFound,
)
from log_tier.model.identifiers import NOTHING, Offset, Partition, PartitionId, TableId
from router.data.requests import ReadPart
from router.routing.targets import Through


@pytest.fixture
async def cluster() -> ScriptedCluster:
    return ScriptedCluster()


def part(partition: int = 0, after: int = -1) -> ReadPart:
    return ReadPart(PartitionId(TABLE, Partition(partition)), [b"k"], Offset(after))


def always(error: DuramenError) -> Behaviour:
    return lambda _: error


async def test_parts_that_one_node_can_answer_are_one_question(cluster: ScriptedCluster) -> None:
    assert await cluster.run(part(0), part(1), part(0)) == {}
    assert cluster.questions == 1
    assert sorted(cluster.answered) == [0, 1, 2]


async def test_parts_of_different_nodes_are_asked_at_once(cluster: ScriptedCluster) -> None:
    cluster.assign({0: ["n1"], 1: ["n2"]})
    cluster.nodes["n1"].gate.clear()
    running = asyncio.create_task(cluster.run(part(0), part(1)))
    await until(lambda: 1 in cluster.answered)
    cluster.nodes["n1"].gate.set()
    assert await running == {}
    assert cluster.answered == {0: "n1", 1: "n2"}


@pytest.mark.parametrize(
    "error",
    [
        NotHosted("not here"),
        Disconnected("lost"),
        Overloaded("full"),
        IndexDamaged("a page cannot be read"),
        DuramenError("a bug"),
        ReplicaBehind("slow"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_nodes_trouble_sends_its_parts_elsewhere(cluster: ScriptedCluster, error: DuramenError) -> None:
    cluster.assign({0: ["n1", "n2"], 1: ["n1", "n2"]})
    cluster.nodes["n1"].behaviour = always(error)
    for _ in range(20):  # whichever is chosen first
        cluster.answered.clear()
        assert await cluster.run(part(0), part(1)) == {}
        assert cluster.answered == {0: "n2", 1: "n2"}
    assert len(cluster.nodes["n1"].asked) > 0


async def test_only_the_parts_that_failed_go_elsewhere(cluster: ScriptedCluster) -> None:
    for node in cluster.nodes.values():
        node.behaviour = lambda number: NotHosted("not here") if number == 1 and cluster.questions == 1 else None
    assert await cluster.run(part(0), part(1), part(1)) == {}
    first, second = sorted(
        (node for node in cluster.nodes.values() if node.asked), key=lambda node: -len(node.asked[0])
    )
    assert (first.asked, second.asked) == ([[0, 1, 2]], [[1]])


async def test_the_requests_own_error_is_final(cluster: ScriptedCluster) -> None:
    for node in cluster.nodes.values():
        node.behaviour = lambda number: InvalidKey("empty") if number == 0 else None
    failed = await cluster.run(part(0), part(1))
    assert {number: type(error) for number, error in failed.items()} == {0: InvalidKey}
    assert cluster.questions == 1


async def test_what_every_replica_says_for_good_is_the_answer(cluster: ScriptedCluster) -> None:
    for node in cluster.nodes.values():
        node.behaviour = always(IndexDamaged(f"of {node.id}"))
    failed = await cluster.run(part(0))
    assert type(failed[0]) is IndexDamaged
    assert sorted(len(node.asked) for node in cluster.nodes.values()) == [1, 1, 1]


async def test_what_may_pass_is_asked_again_until_it_does(cluster: ScriptedCluster) -> None:
    for node in cluster.nodes.values():
        node.behaviour = lambda _: Overloaded("full") if cluster.questions < 10 else None
    assert await cluster.run(part(0)) == {}
    assert cluster.questions == 10


async def test_what_does_not_pass_fails_at_the_deadline_with_its_reason(cluster: ScriptedCluster) -> None:
    for node in cluster.nodes.values():
        node.behaviour = always(Overloaded("full"))
    failed = await cluster.run(part(0), timeout=patience_s(0.5))
    assert type(failed[0]) is Overloaded
    assert cluster.questions > 3


def test_thousands_of_tries_are_no_recursion() -> None:
    async def story() -> int:
        cluster = ScriptedCluster()
        for node in cluster.nodes.values():
            node.behaviour = lambda _: Overloaded("full") if cluster.questions < 3000 else None
        assert await cluster.run(part(0), timeout=3600.0) == {}
        return cluster.questions

    assert run_virtually(story()) == 3000


async def test_a_lost_node_is_asked_only_where_nobody_else_is_left(cluster: ScriptedCluster) -> None:
    cluster.nodes["n1"].lose()
    for _ in range(20):
        assert await cluster.run(part(0)) == {}
    assert not cluster.nodes["n1"].asked
    cluster.nodes["n2"].lose()
    cluster.nodes["n3"].lose()
    assert await cluster.run(part(0)) == {}
    assert cluster.questions == 21


async def test_a_lost_node_does_not_use_up_the_deadline(cluster: ScriptedCluster) -> None:
    for node in cluster.nodes.values():
        node.lose()
    cluster.nodes["n1"].gate.clear()
    cluster.nodes["n2"].gate.clear()
    assert await cluster.run(part(0)) == {}
    assert cluster.answered == {0: "n3"}


async def test_a_lagging_replica_keeps_a_part_only_for_a_while(cluster: ScriptedCluster) -> None:
    cluster.assign({0: ["n1", "n2"], 1: ["n1"]})
    for node in cluster.nodes.values():
        node.behaviour = always(ReplicaBehind("slow"))
    cluster.nodes["n3"].lose()
    running = asyncio.create_task(cluster.run(part(0, after=9), timeout=60.0))
    await until(lambda: cluster.questions >= 3)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert cluster.patiences[:3] == [0.1, 0.1, 0], (
        "when all have kept it waiting, it waits for as long as there is time"
    )


async def test_the_only_replica_may_keep_a_part_waiting(cluster: ScriptedCluster) -> None:
    cluster.assign({0: ["n1"], 1: ["n1"]})
    assert await cluster.run(part(0, after=9)) == {}
    assert cluster.nodes["n1"].patiences == [0]


async def test_a_part_that_waits_does_not_go_to_a_node_that_is_away(cluster: ScriptedCluster) -> None:
    cluster.assign({0: ["n1", "n2"], 1: ["n1"]})
    cluster.nodes["n2"].lose()
    cluster.nodes["n1"].behaviour = lambda _: ReplicaBehind("slow") if cluster.questions == 1 else None
    assert await cluster.run(part(0, after=9)) == {}
    assert not cluster.nodes["n2"].asked
    assert cluster.nodes["n1"].patiences == [0.1, 0]


async def test_the_callers_patience_is_the_callers(cluster: ScriptedCluster) -> None:
    for node in cluster.nodes.values():
        node.behaviour = always(ReplicaBehind("slow"))
    failed = await cluster.run(part(0, after=9), patience=0.02)
    assert type(failed[0]) is ReplicaBehind
    assert cluster.questions == 1
    assert [node.patiences for node in cluster.nodes.values() if node.asked] == [[0.02]]


async def test_a_map_that_changes_meanwhile_names_new_replicas(cluster: ScriptedCluster) -> None:
    cluster.assign({0: ["n1"], 1: ["n1"]})
    cluster.nodes["n1"].behaviour = always(NotHosted("moved away"))
    running = asyncio.create_task(cluster.run(part(0)))
    await until(lambda: bool(cluster.nodes["n1"].asked))
    cluster.assign({0: ["n2"], 1: ["n1"]})
    assert await running == {}
    assert cluster.answered == {0: "n2"}


async def test_joining_replicas_are_not_asked(cluster: ScriptedCluster) -> None:
    table = cluster.maps.map.tables[TABLE]
    assigned = (Assignment("n1", "joining"), Assignment("n2", "leaving"))
    entry = TableEntry(TABLE, table.name, 1, 3, (assigned,))
    cluster.maps.advance(ClusterMap(version=Offset(9), tables=PersistentMap({TABLE: entry})))
    for _ in range(10):
        assert await cluster.run(part(0)) == {}
    assert not cluster.nodes["n1"].asked


async def test_a_partition_that_nobody_holds(cluster: ScriptedCluster) -> None:
    cluster.assign({0: [], 1: ["n1"]})
    cluster.nodes["n3"].lose()
    failed = await cluster.run(part(0), part(1), timeout=patience_s(0.2))
    assert type(failed[0]) is NotHosted
    assert "n3: it was lost" in failed[0].message
    assert cluster.answered == {1: "n1"}


async def test_parts_of_unknown_tables_fail_by_themselves() -> None:
    cluster = ScriptedCluster(map_wait_s=0.01)
    unknown = ReadPart(PartitionId(TableId("BBBBBBBBBBBBBBBBBBBBBB"), Partition(0)), [b"k"])
    failed = await cluster.run(part(0), unknown, part(7), part(1))
    assert {number: type(error) for number, error in failed.items()} == {1: TableNotFound, 2: TableNotFound}
    assert "flights has partitions 0 to 1, not 7" in failed[2].message
    assert sorted(cluster.answered) == [0, 3]


async def test_a_table_that_the_node_has_not_heard_of(cluster: ScriptedCluster) -> None:
    entry = cluster.maps.map.tables[TABLE]
    cluster.maps.advance(ClusterMap(version=Offset(5)))
    running = asyncio.create_task(cluster.run(part(0)))
    await asyncio.sleep(0)
    cluster.maps.advance(ClusterMap(version=Offset(6), tables=PersistentMap({TABLE: entry})))
    assert await running == {}


async def test_a_table_that_a_server_has_named_is_waited_for_as_long_as_its_call_may_take() -> None:
    """The server's map is later than ours, so a later one says what became of the table."""
    cluster = ScriptedCluster(map_wait_s=0.0)
    before = cluster.maps.map.tables
    cluster.maps.advance(ClusterMap(version=Offset(5)))
    cluster.routes.expect(TABLE)
    running = asyncio.create_task(cluster.run(part(0)))
    done, _ = await asyncio.wait([running], timeout=0.1)
    assert not done, "the map is not there yet"
    cluster.maps.advance(ClusterMap(version=Offset(6), tables=before))
    assert await running == {}


async def test_a_table_that_a_server_has_named_and_that_was_dropped_since() -> None:
    cluster = ScriptedCluster(map_wait_s=0.0)
    cluster.maps.advance(ClusterMap(version=Offset(5)))
    cluster.routes.expect(TABLE)
    running = asyncio.create_task(cluster.run(part(0), timeout=60.0))
    await asyncio.sleep(0)
    cluster.maps.advance(ClusterMap(version=Offset(6), dropped=(TABLE,)))
    assert type((await running)[0]) is TableNotFound


async def test_a_dropped_table_is_not_waited_for(cluster: ScriptedCluster) -> None:
    cluster.maps.advance(ClusterMap(version=Offset(5), dropped=(TABLE,)))
    failed = await cluster.run(part(0), timeout=60.0)
    assert type(failed[0]) is TableNotFound


async def test_a_server_that_may_reach_them(cluster: ScriptedCluster) -> None:
    """It is asked where no node answers, and only there."""

    class Server(ScriptedMember, Through):
        alive = True

    server = Server("", 0)
    cluster.reach_through(server)
    assert await cluster.run(part(0)) == {}
    assert not server.asked
    for node in cluster.nodes.values():
        node.lose()
    assert await cluster.run(part(0)) == {}
    assert server.asked == [[0]]
    server.behaviour = always(Disconnected("it is away too"))
    assert await cluster.run(part(0)) == {}
    assert cluster.questions == 2


async def test_stopped_replicas_come_last_and_do_answer(cluster: ScriptedCluster) -> None:
    cluster.nodes["n1"].stands("stopped")
    cluster.nodes["n2"].stands("stopped")
    cluster.nodes["n3"].stands("behind")
    for _ in range(10):
        assert await cluster.run(part(0, after=5)) == {}
    assert len(cluster.nodes["n3"].asked) == 10
    cluster.nodes["n3"].lose()
    assert await cluster.run(part(0, after=5)) == {}
    assert len(cluster.nodes["n3"].asked) == 10


async def test_no_parts_at_all(cluster: ScriptedCluster) -> None:
    assert await cluster.run() == {}
    assert NOTHING == -1
    assert cluster.questions == 0
