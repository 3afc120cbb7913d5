"""What is decided about lost nodes, situation by situation, and that the catalog's fold takes one decision alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from kit.cluster.situations import ZERO, folded, seen, with_nodes, with_table

from log_tier.catalog.cluster_map import ClusterMap
from log_tier.catalog.commands import AbortJob, StartJob, TaskDone, TaskFailed, TaskPlan, TaskReady
from log_tier.model.errors import CommandRejected
from router.admin.planners.cluster_view import Situation
from router.admin.planners.heal import JobDecision, decide_healing, newest_of
from router.admin.planners.move import plan_drain
from router.admin.planners.plan import check_plan


@pytest.fixture
def four() -> ClusterMap:
    """Four nodes, a table of four partitions with two replicas each."""
    return with_table(with_nodes("n1", "n2", "n3", "n4"), ["n1 n2", "n2 n3", "n3 n4", "n4 n1"])


def decided(situation: Situation, lost: Sequence[str] = ("n2",), copies: int = 8) -> JobDecision:
    return decide_healing(situation, lost, copies=copies)


def moves(decision: JobDecision) -> list[str]:
    assert decision.plan is not None, decision
    return [f"{step.partition.partition}: {step.source} > {step.node}" for step in decision.plan.steps]


def begun(cluster: ClusterMap, decision: JobDecision) -> ClusterMap:
    assert decision.command is not None, decision
    return folded(cluster, decision.command)


def with_room(situation: Situation, **free: int) -> Situation:
    """The situation in which these nodes say how many bytes are free on their disks."""
    views = {node: replace(situation.nodes[node], disk_free=room, disk_used=1) for node, room in free.items()}
    return Situation(situation.cluster, {**situation.nodes, **views})


class TestOfWhatIsMissing:
    def test_nothing_is_lost(self, four: ClusterMap) -> None:
        assert decided(seen(four), lost=()) == JobDecision()

    def test_each_replica_of_the_lost_node_goes_to_one_that_has_none(self, four: ClusterMap) -> None:
        decision = decided(seen(four, lost=["n2"]))
        assert moves(decision) == ["0: n2 > n3", "1: n2 > n1"]
        assert (decision.short, decision.blocked) == (2, ())
        after = begun(four, decision)
        assert after.find("flights").readable(ZERO) == ("n1", "n2"), "the lost copy counts until the new one is level"

    def test_a_node_that_is_lost_for_a_short_time_is_waited_for(self, four: ClusterMap) -> None:
        assert decided(seen(four, lost=["n2"]), lost=()).command is None

    def test_a_node_that_is_back_is_not_healed_although_the_caller_says_so(self, four: ClusterMap) -> None:
        assert decided(seen(four), lost=["n2"]) == JobDecision()

    def test_a_node_that_was_forgotten_is_not_healed(self, four: ClusterMap) -> None:
        assert decided(seen(four, lost=["n2"]), lost=["n9"]) == JobDecision()

    def test_so_many_copies_at_once_and_the_most_urgent_first(self, four: ClusterMap) -> None:
        cluster = with_table(four, ["n2"], name="alone")
        assert moves(decided(seen(cluster, lost=["n2"]), copies=2))[0] == "0: n2 > n1"
        first = decided(seen(cluster, lost=["n2"]), copies=1)
        assert first.plan is not None
        assert [step.table_name for step in first.plan.steps] == ["alone"], "nobody else has a copy of it"

    def test_surplus_copies_are_not_replaced(self) -> None:
        cluster = with_table(with_nodes("n1", "n2", "n3", "n4"), ["n1 n2 n3"], replicas=2)
        assert decided(seen(cluster, lost=["n2"])) == JobDecision()

    def test_a_job_heals_one_node(self, four: ClusterMap) -> None:
        decision = decided(seen(four, lost=["n2", "n4"]), lost=["n2", "n4"])
        assert {line.split()[1] for line in moves(decision)} == {"n2"}


class TestOfWhatIsInTheWay:
    def test_fewer_nodes_than_copies(self) -> None:
        cluster = with_table(with_nodes("n1", "n2"), ["n1 n2"])
        decision = decided(seen(cluster, lost=["n2"]))
        assert decision.command is None
        assert decision.blocked == ("flights/0: no live node takes replicas that holds none of it: start another node",)

    def test_a_node_that_is_being_drained_gets_nothing(self, four: ClusterMap) -> None:
        cluster = folded(four, StartJob("drain", "node n3", (), {"node": "n3"}))
        assert moves(decided(seen(cluster, lost=["n2"]))) == ["0: n2 > n4", "1: n2 > n1"]

    def test_no_room(self, four: ClusterMap) -> None:
        situation = with_room(seen(four, lost=["n2"], sizes={0: 900, 1: 900}), n1=999, n3=999, n4=1000)
        assert moves(decided(situation)) == ["0: n2 > n4"], "it has room for one of them"
        situation = with_room(situation, n4=999)
        assert decided(situation).blocked == (
            "flights/0: no room for its 900 bytes at n3, n4: make some",
            "flights/1: no room for its 900 bytes at n1, n4: make some",
        )

    def test_a_disk_of_which_nothing_is_known_is_tried(self, four: ClusterMap) -> None:
        assert len(moves(decided(seen(four, lost=["n2"], sizes={0: 1 << 50})))) == 2

    def test_another_job_changes_the_replicas(self, four: ClusterMap) -> None:
        situation = seen(four, lost=["n2"])
        cluster = check_plan(four, plan_drain(situation, node="n2").command)
        decision = decided(seen(cluster, lost=["n2"]))
        assert decision.command is None
        assert decision.blocked[0].startswith("flights/0: job ")
        assert "(drain node n2) changes its replicas" in decision.blocked[0]

    def test_what_is_in_the_way_of_some_is_said_with_the_plan_of_the_others(self) -> None:
        cluster = with_table(with_nodes("n1", "n2", "n3"), ["n1 n2", "n1 n2 n3"])
        cluster = cluster.with_table(replace(cluster.find("flights"), replicas=3))
        decision = decided(seen(cluster, lost=["n2"]))
        assert moves(decision) == ["0: n2 > n3"]
        assert decision.blocked[0].startswith("flights/1: no live node")

    def test_more_than_half_are_lost(self, four: ClusterMap) -> None:
        lost = ["n1", "n2", "n3"]
        decision = decided(seen(four, lost=lost), lost=lost)
        assert decision.command is None
        assert decision.blocked == (
            "3 of 4 nodes do not answer here: this server may be what is cut off, so it moves nothing",
        )
        assert decided(seen(four, lost=["n1", "n2"])).command is not None


class TestOfAHealingUnderWay:
    def test_it_is_waited_for(self, four: ClusterMap) -> None:
        cluster = begun(four, decided(seen(four, lost=["n2"]), copies=1))
        decision = decided(seen(cluster, lost=["n2"]))
        assert (decision.command, decision.job, decision.short) == (None, cluster.version, 2)

    def test_the_rest_follows_when_it_is_done(self, four: ClusterMap) -> None:
        cluster = begun(four, decided(seen(four, lost=["n2"]), copies=1))
        job = cluster.version
        cluster = folded(cluster, TaskReady(job, 0, "n3"), TaskDone(job, 0, "n3"))
        assert moves(decided(seen(cluster, lost=["n2"]))) == ["1: n2 > n1"]

    def test_it_is_undone_when_its_node_is_back(self, four: ClusterMap) -> None:
        cluster = begun(four, decided(seen(four, lost=["n2"])))
        decision = decided(seen(cluster), lost=())
        assert decision.command == AbortJob(cluster.version)
        assert decision.reason == "node n2 is back, with what it had"
        after = begun(cluster, decision)
        assert after.find("flights").assignments == four.find("flights").assignments

    def test_what_is_level_already_is_not_undone(self, four: ClusterMap) -> None:
        cluster = begun(four, decided(seen(four, lost=["n2"]), copies=1))
        cluster = folded(cluster, TaskReady(cluster.version, 0, "n3"))
        assert decided(seen(cluster), lost=()).command is None, "the old copy goes with the next step"

    def test_a_node_that_is_back_keeps_what_would_be_missed(self, four: ClusterMap) -> None:
        """The partition's other node is lost by now: the copy that is there, and the new one, are two."""
        cluster = begun(four, decided(seen(four, lost=["n2"]), copies=1))
        cluster = folded(cluster, TaskReady(cluster.version, 0, "n3"))
        decision = decided(seen(cluster, lost=["n1"]), lost=())
        assert decision.command == AbortJob(cluster.version - 1)
        assert set(begun(cluster, decision).find("flights").readable(ZERO)) == {"n1", "n2", "n3"}

    def test_it_is_undone_when_a_target_is_lost_for_long(self, four: ClusterMap) -> None:
        cluster = begun(four, decided(seen(four, lost=["n2"])))
        assert decided(seen(cluster, lost=["n2", "n3"])).command is None, "it may come back"
        decision = decided(seen(cluster, lost=["n2", "n3"]), lost=["n2", "n3"])
        assert decision.command == AbortJob(cluster.version)
        assert decision.reason == "node n3, which was to get copies, is lost itself"

    def test_a_copy_that_failed_goes_elsewhere(self, four: ClusterMap) -> None:
        cluster = begun(four, decided(seen(four, lost=["n2"]), copies=1))
        cluster = folded(cluster, TaskFailed(cluster.version, 0, "n3", "DiskFull: no space"))
        decision = decided(seen(cluster, lost=["n2"]))
        assert decision.reason == "the copy of flights/0 to node n3 failed: DiskFull: no space"
        cluster = begun(cluster, decision)
        assert moves(decided(seen(cluster, lost=["n2"]), copies=1)) == ["0: n2 > n4"]

    def test_a_router_that_is_cut_off_undoes_nothing(self, four: ClusterMap) -> None:
        cluster = begun(four, decided(seen(four, lost=["n2"])))
        lost = ["n1", "n2", "n3"]
        assert decided(seen(cluster, lost=lost), lost=lost).command is None


class TestTwoRoutersThatDecideAtOnce:
    def test_one_job(self, four: ClusterMap) -> None:
        one, other = (decided(seen(four, lost=["n2"])) for _ in range(2))
        cluster = begun(four, one)
        assert other.command is not None
        with pytest.raises(CommandRejected, match="heals node n2 already"):
            check_plan(cluster, other.command)

    def test_of_two_nodes_that_they_see_differently(self, four: ClusterMap) -> None:
        """The partitions have nothing in common: the rule of one job for each partition would take both."""
        cluster = begun(four, decided(seen(four, lost=["n2"])))
        other = decided(seen(four, lost=["n4"]), lost=["n4"], copies=1)
        assert other.command is not None
        with pytest.raises(CommandRejected, match="already"):
            check_plan(cluster, other.command)

    def test_a_decision_that_comes_when_the_job_is_over_is_void(self, four: ClusterMap) -> None:
        late = decided(seen(four, lost=["n4"]), lost=["n4"], copies=1)
        cluster = begun(four, decided(seen(four, lost=["n2"]), copies=1))
        job = cluster.version
        cluster = folded(cluster, TaskReady(job, 0, "n3"), TaskDone(job, 0, "n3"))
        assert late.command is not None
        with pytest.raises(CommandRejected, match=f"decided after job -1, and job {job} is the newest"):
            check_plan(cluster, late.command)

    def test_to_undo_it(self, four: ClusterMap) -> None:
        cluster = begun(four, decided(seen(four, lost=["n2"])))
        undo = decided(seen(cluster), lost=()).command
        assert isinstance(undo, AbortJob)
        cluster = folded(cluster, undo)
        with pytest.raises(CommandRejected, match="aborted already"):
            check_plan(cluster, undo)


class TestWhatTheFoldRefuses:
    def test_a_healing_that_is_something_else(self, four: ClusterMap) -> None:
        healing = newest_of(four, "heal")
        assert healing is None
        table = four.find("flights").id
        for task in (
            TaskPlan("remove", table, ZERO, "n2", {}),
            TaskPlan("move", table, ZERO, "n3", {"from": "n1"}),
        ):
            with pytest.raises(CommandRejected, match="moves replicas away from it, and does nothing else"):
                check_plan(four, StartJob("heal", "node n2", (task,), {"node": "n2", "after": -1}))
