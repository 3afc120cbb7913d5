"""What is decided about nodes that have too much, and that the catalog's fold takes one decision alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kit.cluster.situations import folded, seen, with_nodes, with_table

from log_tier.catalog.cluster_map import ClusterMap
from log_tier.catalog.commands import AbortJob, StartJob, TaskDone, TaskFailed, TaskPlan, TaskReady
from log_tier.catalog.map_json import map_from_json, map_to_json
from log_tier.model.errors import CommandRejected, InvalidRequest
from router.admin.planners.automate import plan_automate
from router.admin.planners.cluster_view import Situation
from router.admin.planners.heal import JobDecision, decide_healing
from router.admin.planners.move import plan_drain, plan_move
from router.admin.planners.plan import check_plan
from router.admin.planners.strains import strains_of
from router.admin.relief.decision import HealingFirst, decide_relief

DISK = 1000


@pytest.fixture
def four() -> ClusterMap:
    """Four nodes, and a table whose first node has most."""
    return with_table(with_nodes("n1", "n2", "n3", "n4"), ["n1 n2", "n1 n3", "n1 n4", "n2 n3"])


def full(cluster: ClusterMap, *nodes: str, free: int = 100, lost: tuple[str, ...] = ()) -> Situation:
    """These nodes have a tenth of their disk free, others most of it; each replica has 80 bytes."""
    situation = seen(cluster, sizes=dict.fromkeys(range(4), 80), lost=lost)
    views = {
        node: replace(view, disk_free=free if node in nodes else 900, disk_used=DISK - (free if node in nodes else 900))
        for node, view in situation.nodes.items()
        if view.alive
    }
    return Situation(cluster, {**situation.nodes, **views})


NOT_LOST = HealingFirst()


def decided(situation: Situation, *lasting: str, healing: HealingFirst = NOT_LOST, copies: int = 8) -> JobDecision:
    lost = [node for node in situation.nodes if not situation.is_alive(node)]
    return decide_relief(situation, strains_of(situation), lasting, healing=healing, lost=lost, copies=copies)


def begun(cluster: ClusterMap, decision: JobDecision) -> ClusterMap:
    assert decision.command is not None, decision
    return folded(cluster, decision.command)


def job_of(cluster: ClusterMap) -> int:
    return max(cluster.jobs)


class TestWhatIsDecided:
    def test_nobody_has_too_much(self, four: ClusterMap) -> None:
        assert decided(full(four), "n1") == JobDecision()

    def test_a_node_is_watched_first(self, four: ClusterMap) -> None:
        assert decided(full(four, "n1")) == JobDecision()

    def test_a_full_node_gives_what_is_needed_and_no_more(self, four: ClusterMap) -> None:
        decision = decided(full(four, "n1"), "n1")
        assert decision.plan is not None
        assert [(step.source, step.bytes) for step in decision.plan.steps] == [("n1", 80), ("n1", 80)]
        assert decision.reason == "has 0 MiB of its disk free, 10%"
        assert isinstance(decision.command, StartJob)
        assert dict(decision.command.arguments) == {"node": "n1", "strain": "full", "after": -1, "bytes": 160}

    def test_one_node_at_a_time_the_first_for_which_something_can_be_done(self, four: ClusterMap) -> None:
        decision = decided(full(four, "n1", "n2"), "n2")
        assert decision.plan is not None
        assert {step.source for step in decision.plan.steps} == {"n2"}
        stuck = decided(full(four, "n1", "n2", "n3", "n4"), "n1", "n2")
        assert stuck.command is None
        assert stuck.blocked[0] == "node n1 stays full: no other node has room for what could go"

    def test_so_many_copies_in_one_job(self, four: ClusterMap) -> None:
        decision = decided(full(four, "n1"), "n1", copies=1)
        assert decision.plan is not None
        assert len(decision.plan.steps) == 1

    def test_a_router_that_sees_few_nodes_moves_nothing(self, four: ClusterMap) -> None:
        decision = decided(full(four, "n1", lost=("n2", "n3", "n4")), "n1")
        assert decision.command is None
        assert "may be what is cut off" in decision.blocked[0]

    def test_a_lost_node_goes_first(self, four: ClusterMap) -> None:
        waits = HealingFirst(wait="node n4 is lost, and is waited for")
        assert decided(full(four, "n1", lost=("n4",)), "n1", healing=waits) == JobDecision(blocked=(waits.wait,))

    def test_jobs_that_move_replicas_go_first(self, four: ClusterMap) -> None:
        operators = folded(four, plan_drain(full(four), node="n4").command)
        decision = decided(full(operators, "n1"), "n1")
        assert decision.command is None
        assert decision.blocked == (f"job {job_of(operators)} (drain node n4) moves replicas: it goes first",)


class TestOfAReliefUnderWay:
    def test_it_is_waited_for_also_when_its_node_is_well_again(self, four: ClusterMap) -> None:
        under_way = begun(four, decided(full(four, "n1"), "n1"))
        assert decided(full(under_way, "n1"), "n1") == JobDecision(job=job_of(under_way))
        assert decided(full(under_way)) == JobDecision(job=job_of(under_way))

    def test_a_failed_one_is_undone_and_that_node_does_not_get_it_again(self, four: ClusterMap) -> None:
        first = decided(full(four, "n1"), "n1", copies=1)
        assert first.plan is not None
        under_way, (step,) = begun(four, first), first.plan.steps
        failed = folded(under_way, TaskFailed(job_of(under_way), 0, step.node, "DiskFull: no"))
        undone = decided(full(failed, "n1"), "n1")
        assert undone.command == AbortJob(job_of(under_way))
        assert "failed: DiskFull: no" in undone.reason
        again = decided(full(folded(failed, AbortJob(job_of(failed))), "n1"), "n1", copies=1)
        assert again.plan is not None
        (other,) = again.plan.steps
        assert (other.partition, other.node) != (step.partition, step.node)

    def test_it_is_undone_when_a_target_is_lost_or_a_healing_has_something_to_do(self, four: ClusterMap) -> None:
        first = decided(full(four, "n1"), "n1", copies=1)
        assert first.plan is not None
        under_way, (step,) = begun(four, first), first.plan.steps
        lost = decided(full(under_way, "n1", lost=(step.node,)), "n1")
        assert lost.command == AbortJob(job_of(under_way))
        assert lost.reason == f"node {step.node}, which was to get copies, is lost itself"
        yields = decided(full(under_way, "n1"), "n1", healing=HealingFirst("w", "u"))
        assert (yields.command, yields.reason) == (AbortJob(job_of(under_way)), "u")
        ready = folded(under_way, TaskReady(job_of(under_way), 0, step.node))
        level = decided(full(ready, "n1"), "n1", healing=HealingFirst("w", "u"))
        assert level.command is None, "it is done soon"


class TestWhatTheFoldTakes:
    def test_of_two_decisions_one(self, four: ClusterMap) -> None:
        one, other = decided(full(four, "n1"), "n1"), decided(full(four, "n2"), "n2")
        assert one.command is not None
        assert other.command is not None
        under_way = folded(four, one.command)
        with pytest.raises(CommandRejected, match="relieves node n1 already"):
            check_plan(under_way, other.command)
        over = folded(under_way, AbortJob(job_of(under_way)))
        with pytest.raises(CommandRejected, match="decide anew"):
            check_plan(over, other.command)

    def test_none_during_a_healing_or_a_move(self, four: ClusterMap) -> None:
        relief = decided(full(four, "n1"), "n1").command
        assert relief is not None
        healing = decide_healing(seen(four, lost=["n2"]), ["n2"], copies=1).command
        assert healing is not None
        with pytest.raises(CommandRejected, match="a relief waits for it"):
            check_plan(folded(four, healing), relief)
        table = four.find("flights")
        move = plan_move(seen(four), table="flights", partition=table.partition(3).partition, source="n3", target="n4")
        with pytest.raises(CommandRejected, match="a relief waits for it"):
            check_plan(folded(four, move.command), relief)

    def test_a_healing_begins_while_a_relief_is_under_way(self, four: ClusterMap) -> None:
        relief = decided(full(four, "n1"), "n1", copies=1)
        assert relief.plan is not None
        under_way = begun(four, relief)
        lost = decide_healing(seen(under_way, lost=["n3"]), ["n3"], copies=8)
        assert lost.command is not None
        check_plan(under_way, lost.command)

    def test_nothing_but_moves_away_from_its_node(self, four: ClusterMap) -> None:
        relief = decided(full(four, "n1"), "n1").command
        assert isinstance(relief, StartJob)
        table = four.find("flights")
        strange = replace(relief, tasks=(TaskPlan("move", *table.partition(3), "n1", {"from": "n3"}),))
        with pytest.raises(CommandRejected, match="moves replicas away from it, and does nothing else"):
            check_plan(four, strange)

    def test_none_that_an_operator_has_switched_off(self, four: ClusterMap) -> None:
        relief = decided(full(four, "n1"), "n1").command
        healing = decide_healing(seen(four, lost=["n2"]), ["n2"], copies=1).command
        assert relief is not None
        assert healing is not None
        off = folded(four, plan_automate(seen(four), what="relieve", off=True).command)
        assert not plan_automate(seen(off), what="relieve", off=True).begins_empty, "it is off already"
        assert (off.by_hand, off.jobs[job_of(off)].state) == (("relieve",), "done")
        assert map_from_json(map_to_json(off)).by_hand == ("relieve",)
        assert b"by_hand" not in map_to_json(four)
        with pytest.raises(CommandRejected, match="an operator has switched it off"):
            check_plan(off, relief)
        check_plan(off, healing)
        both = folded(off, plan_automate(seen(off), what="heal", off=True).command)
        assert both.by_hand == ("heal", "relieve")
        with pytest.raises(CommandRejected, match="an operator has switched it off"):
            check_plan(both, healing)
        on = folded(both, plan_automate(seen(both), what="relieve").command)
        assert on.by_hand == ("heal",)
        check_plan(on, relief)

    def test_what_is_automatic_has_a_name(self, four: ClusterMap) -> None:
        with pytest.raises(InvalidRequest, match="not 'everything'"):
            plan_automate(seen(four), what="everything", off=True)
        with pytest.raises(CommandRejected, match="should name heal or relieve"):
            check_plan(four, StartJob("automate", "", (), {"what": "drain", "off": 1}))
        assert list(plan_automate(full(begun(four, decided(full(four, "n1"), "n1"))), what="relieve", off=True).notes)


def test_a_relief_comes_to_its_end_and_the_node_is_well(four: ClusterMap) -> None:
    decision = decided(full(four, "n1"), "n1")
    assert decision.plan is not None
    cluster = begun(four, decision)
    for number, step in enumerate(decision.plan.steps):
        cluster = folded(
            cluster, TaskReady(job_of(cluster), number, step.node), TaskDone(job_of(cluster), number, step.node)
        )
    assert cluster.jobs[job_of(cluster)].state == "done"
    assert decided(full(cluster, "n1", free=260), "n1") == JobDecision()
