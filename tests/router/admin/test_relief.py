"""Relieving nodes that are full or slow: what goes where, what stays, and by any cluster nothing gets worse."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.cluster.operated import Operated, operated, table_of
from kit.cluster.shown_disks import show_disks
from kit.cluster.situations import folded, seen, with_nodes, with_table
from kit.deadlines import until_true

from log_tier.model.identifiers import PartitionId
from router.admin import verbs
from router.admin.planners.cluster_view import Situation
from router.admin.planners.plan import Plan, check_plan
from router.admin.planners.rebalance import plan_rebalance
from router.admin.planners.relieve import MOVES_MAX, ROOM_PERCENT
from router.admin.planners.strains import FULL_PERCENT, SLOW_MS
from router.membership.views import NodeView

DISK = 100_000


def with_disks(situation: Situation, free: dict[str, int]) -> Situation:
    """Nodes with so much of `DISK` free; the others have said nothing of theirs."""
    nodes = dict(situation.nodes)
    for node, bytes_free in free.items():
        nodes[node] = replace(nodes[node], disk_free=bytes_free, disk_used=DISK - bytes_free)
    return replace(situation, nodes=nodes)


def lagging(situation: Situation, node: str, *partitions: int, lag_ms: int = SLOW_MS) -> Situation:
    """`node` is behind with these partitions of each table."""

    def late(view: NodeView) -> NodeView:
        return replace(
            view,
            replicas={
                name: each._replace(state="behind", lag_ms=lag_ms) if name.partition in partitions else each
                for name, each in view.replicas.items()
            },
        )

    return replace(situation, nodes={**situation.nodes, node: late(situation.nodes[node])})


def relief(situation: Situation) -> Plan:
    return plan_rebalance(situation, auto=True)


def moves(plan: Plan) -> list[str]:
    return [f"{step.partition.partition} {step.source}>{step.node}" for step in plan.steps]


def test_a_cluster_without_trouble_stays_uneven() -> None:
    cluster = with_table(with_nodes("n1", "n2", "n3"), ["n1 n2"] * 6)
    plan = relief(with_disks(seen(cluster), {"n1": 40_000, "n2": 16_000, "n3": 90_000}))
    assert (moves(plan), list(plan.notes)) == ([], ["no node is full, none lags, and none is hot"])
    assert moves(plan_rebalance(seen(cluster)))


def test_a_full_node_gives_the_one_replica_that_is_enough() -> None:
    cluster = with_table(with_nodes("n1", "n2", "n3"), ["n1"] * 4)
    situation = seen(cluster, sizes={0: 2000, 1: 30_000, 2: 15_000, 3: 6000})
    plan = relief(with_disks(situation, {"n1": 10_000, "n2": 80_000, "n3": 50_000}))
    assert moves(plan) == ["2 n1>n2"]
    assert plan.notes == ("node n1 has 0 MiB of its disk free, 10%",)


def test_where_none_is_enough_the_largest_go() -> None:
    cluster = with_table(with_nodes("n1", "n2", "n3"), ["n1"] * 4)
    situation = seen(cluster, sizes={0: 8000, 1: 9000, 2: 2000, 3: 0})
    assert moves(relief(with_disks(situation, {"n1": 8000, "n2": 80_000, "n3": 80_000}))) == ["1 n1>n2", "0 n1>n3"]


def test_to_plan_again_while_a_job_makes_room_adds_nothing() -> None:
    cluster = with_table(with_nodes("n1", "n2", "n3"), ["n1"] * 3)
    disks, sizes = {"n1": 10_000, "n2": 46_000, "n3": 30_000}, {0: 20_000, 1: 20_000, 2: 20_000}
    first = relief(with_disks(seen(cluster, sizes=sizes), disks))
    assert moves(first) == ["0 n1>n2"]
    assert moves(relief(with_disks(seen(folded(cluster, first.command), sizes=sizes), disks))) == []


def test_nobody_is_filled_to_relieve_another() -> None:
    cluster = with_table(with_nodes("n1", "n2", "n3"), ["n1"] * 3)
    situation = seen(cluster, sizes={0: 20_000, 1: 20_000, 2: 20_000})
    shared = relief(with_disks(situation, {"n1": 5000, "n2": 5000, "n3": 5000}))  # three nodes on one disk
    assert moves(shared) == []
    assert "node n1 stays full: no other node has room for what could go" in shared.notes
    tight = relief(with_disks(situation, {"n1": 5000, "n2": 44_000, "n3": 46_000}))
    assert moves(tight) == ["0 n1>n3"]


def test_a_slow_node_gives_half_of_what_lags() -> None:
    cluster = with_table(with_nodes("n1", "n2", "n3", "n4"), ["n1 n2"] * 5)
    situation = seen(cluster, sizes={0: 50, 1: 10, 2: 20, 3: 30, 4: 5})
    plan = relief(lagging(situation, "n1", 0, 1, 2))
    assert moves(plan) == ["1 n1>n3", "2 n1>n4"]
    assert plan.notes == ("node n1 lags with 3 of its replicas, while others are level",)


def test_who_lags_briefly_or_with_everybody_is_left_alone() -> None:
    cluster = with_table(with_nodes("n1", "n2", "n3"), ["n1 n2"] * 3)
    assert moves(relief(lagging(seen(cluster), "n1", 0, 1, lag_ms=SLOW_MS - 1))) == []
    both = lagging(lagging(seen(cluster), "n1", 0, 1), "n2", 0, 1)
    assert moves(relief(both)) == []  # the log is fast, or all of them are slow: no move helps
    alone = with_table(with_nodes("n1", "n2"), ["n1"] * 3)
    assert moves(relief(lagging(seen(alone), "n1", 0, 1))) == []


def test_what_a_job_changes_is_not_touched_and_a_drained_node_takes_nothing() -> None:
    cluster = with_table(with_nodes("n1", "n2", "n3"), ["n1 n2"] * 2)
    slow = lagging(seen(cluster), "n1", 0, 1)
    first = relief(slow)
    assert moves(first) == ["0 n1>n3"]
    under_way = lagging(seen(folded(cluster, first.command)), "n1", 0, 1)
    assert moves(relief(under_way)) == []
    lost = lagging(seen(cluster, lost=["n3"]), "n1", 0, 1)
    stuck = relief(lost)
    assert moves(stuck) == []
    assert "node n1 stays slow: no other node has room for what lags there" in stuck.notes


@st.composite
def troubled(draw: st.DrawFn) -> Situation:
    nodes = [f"n{number}" for number in range(1, draw(st.integers(1, 6)) + 1)]
    cluster = with_nodes(*nodes)
    for number in range(draw(st.integers(1, 2))):
        count = draw(st.integers(1, len(nodes)))
        held = [" ".join(draw(st.permutations(nodes))[:count]) for _ in range(draw(st.integers(1, 12)))]
        cluster = with_table(cluster, held, name=f"t{number}")
    sizes = draw(st.dictionaries(st.integers(0, 11), st.integers(0, DISK // 3)))
    lost = draw(st.lists(st.sampled_from(nodes), unique=True, max_size=len(nodes) - 1))
    situation = seen(cluster, sizes=sizes, lost=lost)
    alive = [node for node in nodes if node not in lost]
    for node in draw(st.lists(st.sampled_from(alive), unique=True)):
        partitions, lag_ms = draw(st.sets(st.integers(0, 11))), draw(st.sampled_from([0, SLOW_MS]))
        situation = lagging(situation, node, *partitions, lag_ms=lag_ms)
    return with_disks(situation, draw(st.dictionaries(st.sampled_from(alive), st.integers(0, DISK))))


@given(troubled())
def test_by_any_cluster_nothing_gets_worse(situation: Situation) -> None:
    plan = relief(situation)
    gained: Counter[str] = Counter()
    for step in plan.steps:
        gained[step.node] += step.bytes
    places = [PartitionId(*step.partition) for step in plan.steps]
    assert len(places) == len(set(places)) <= MOVES_MAX
    givers = {step.source for step in plan.steps}
    assert not givers & gained.keys(), "a node gives and takes"
    for node in gained:
        view = situation.nodes[node]
        size = view.disk_free + view.disk_used
        assert view.alive
        assert not size or (view.disk_free - gained[node]) * 100 >= size * ROOM_PERCENT, f"{node} is filled"
    for node in givers:
        view = situation.nodes[node]
        full = view.disk_free * 100 < (view.disk_free + view.disk_used) * FULL_PERCENT
        assert full or any(each.state == "behind" for each in view.replicas.values()), f"{node} has no trouble"
    check_plan(situation.cluster, plan.command)  # the fold takes it


async def sized(cluster: Operated) -> bool:
    """Does the router know how large each replica is?"""
    found = await cluster.admin.partitions("flights")
    return all(replica.bytes for each in found for replica in each.replicas)


async def test_a_full_node_is_relieved_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real nodes, one of which is shown another disk than it has."""
    show_disks(monkeypatch, {"n1"})
    keys = [b"k%d" % number for number in range(60)]
    async with operated(tmp_path / "cluster") as cluster:
        table = await table_of(cluster, keys)
        before = await cluster.holders("flights")
        held = sum("n1" in each.split() for each in before)
        assert held
        await until_true(lambda: sized(cluster))
        shown = await cluster.admin.start(verbs.Rebalance(auto=True), dry_run=True)
        assert shown.notes[0] == "node n1 has 50 MiB of its disk free, 5%"
        job = await cluster.done(verbs.Rebalance(auto=True))
        assert job.kind == "rebalance"
        assert await cluster.holders("flights") == ["n2 n3"] * len(before)
        assert await table.get_many(keys) == [b"1"] * len(keys)
        again = await cluster.admin.start(verbs.Rebalance(auto=True), dry_run=True)
        assert "node n1 stays full: nothing is left that could go" in again.notes
