"""The planners: what they plan, what they refuse, and that the catalog's fold takes every plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from kit.cluster.situations import ZERO, folded, seen, with_nodes, with_snapshot, with_table

from log_tier.catalog.cluster_map import ClusterMap, VersionEntry
from log_tier.catalog.commands import AbortJob, StartJob, TaskDone, TaskFailed, TaskReady
from log_tier.model.errors import CommandRejected, InvalidRequest, OffsetTrimmed, TableNotFound, TokenAhead
from log_tier.model.identifiers import Offset, Partition, TableId
from log_tier.model.log import Bounds
from router.admin.answers.plans import describe_plan
from router.admin.planners.cluster_view import Situation
from router.admin.planners.move import plan_drain, plan_move, plan_retire
from router.admin.planners.plan import RATE_BYTES_S, Plan, Step, check_plan, plan_of
from router.admin.planners.rebalance import plan_rebalance
from router.admin.planners.restore import check_restorable, plan_restore_node, plan_restore_table
from router.admin.planners.resume import plan_abort, plan_resume
from router.admin.planners.set_replicas import plan_set_replicas
from router.admin.planners.upkeep import plan_compact, plan_snapshot, plan_trim


def shown(plan: Plan) -> list[str]:
    """A plan's steps as lines."""
    return [
        " ".join(
            [
                step.action,
                f"{step.table_name}/{step.partition.partition}",
                *([f"{step.source} >"] if step.source else []),
                step.node,
                *(f"{name}={value}" for name, value in sorted(step.arguments.items())),
            ]
        )
        for step in plan.steps
    ]


@pytest.fixture
def three() -> ClusterMap:
    """Three nodes, a table of three partitions with two replicas each."""
    return with_table(with_nodes("n1", "n2", "n3"), ["n1 n2", "n2 n3", "n3 n1"])


def taken(cluster: ClusterMap, plan: Plan) -> ClusterMap:
    """The map after a plan, which the fold must take."""
    return check_plan(cluster, plan.command)


class TestMove:
    def test_a_replica_goes_to_another_node(self, three: ClusterMap) -> None:
        plan = plan_move(
            seen(three, sizes={0: 5 * RATE_BYTES_S}), table="flights", partition=ZERO, source="n1", target="n3"
        )
        assert (plan.kind, plan.subject, shown(plan)) == ("move", "flights/0", ["move flights/0 n1 > n3"])
        assert (plan.bytes, plan.replicas_moved, plan.seconds) == (5 * RATE_BYTES_S, 1, 5.5)
        after = taken(three, plan)
        assert [tuple(each) for each in after.find("flights").assignments[0]] == [
            ("n1", "member"),
            ("n2", "member"),
            ("n3", "joining"),
        ]

    def test_a_lost_source_is_said_and_a_lost_target_refused(self, three: ClusterMap) -> None:
        plan = plan_move(seen(three, lost=["n1"]), table="flights", partition=ZERO, source="n1", target="n3")
        assert plan.notes == ("node n1 is not there (it was switched off): its copy is given up, not read",)
        with pytest.raises(CommandRejected, match="n3 is not there"):
            plan_move(seen(three, lost=["n3"]), table="flights", partition=ZERO, source="n1", target="n3")

    @pytest.mark.parametrize(
        ("table", "partition", "source", "target", "error"),
        [
            ("nope", 0, "n1", "n3", TableNotFound),
            ("flights", 3, "n1", "n3", InvalidRequest),
            ("flights", 0, "n9", "n3", InvalidRequest),
            ("flights", 0, "n1", "n9", InvalidRequest),
        ],
    )
    def test_what_is_not_there(
        self, three: ClusterMap, table: str, partition: int, source: str, target: str, error: type[Exception]
    ) -> None:
        with pytest.raises(error):
            plan_move(seen(three), table=table, partition=Partition(partition), source=source, target=target)

    def test_the_fold_refuses_what_contradicts_the_map(self, three: ClusterMap) -> None:
        for source, target in (("n3", "n3"), ("n1", "n2")):
            plan = plan_move(seen(three), table="flights", partition=ZERO, source=source, target=target)
            with pytest.raises(CommandRejected, match="holds"):
                taken(three, plan)


class TestDrain:
    def test_everything_goes_to_the_least_loaded_of_the_others(self) -> None:
        cluster = with_table(with_nodes("n1", "n2", "n3"), ["n1", "n1", "n1", "n2"])
        plan = plan_drain(seen(cluster), node="n1")
        assert shown(plan) == ["move flights/0 n1 > n3", "move flights/1 n1 > n2", "move flights/2 n1 > n3"]
        after = taken(cluster, plan)
        assert after.nodes["n1"].draining
        assert next(iter(after.jobs.values())).kind == "drain"

    def test_a_lost_node_is_emptied_and_never_filled(self) -> None:
        cluster = with_table(with_nodes("n1", "n2", "n3"), ["n1 n2"])
        assert shown(plan_drain(seen(cluster, lost=["n1"]), node="n1")) == ["move flights/0 n1 > n3"]
        with pytest.raises(CommandRejected, match=r"cannot be emptied.*\(n2\).*flights/0"):
            plan_drain(seen(cluster, lost=["n3"]), node="n1")

    def test_where_everybody_holds_it_already(self, three: ClusterMap) -> None:
        cluster = with_table(three, ["n1 n2 n3"], name="everywhere")
        with pytest.raises(CommandRejected, match=r"one of everywhere/0 already.*set-replicas"):
            plan_drain(seen(cluster), node="n2")

    def test_an_empty_node_is_drained_all_the_same(self, three: ClusterMap) -> None:
        cluster = with_table(with_nodes("n1", "n2"), ["n1"])
        plan = plan_drain(seen(cluster), node="n2")
        assert (plan.steps, plan.begins_empty) == ((), True)
        assert taken(cluster, plan).nodes["n2"].draining

    def test_a_drained_node_can_be_taken_into_service_again(self) -> None:
        cluster = with_table(with_nodes("n1", "n2"), ["n1"])
        drained = taken(cluster, plan_drain(seen(cluster), node="n2"))
        plan = plan_drain(seen(drained), node="n2", undo=True)
        assert (plan.kind, plan.begins_empty) == ("undrain", True)
        again = plan_drain(seen(drained), node="n2")
        assert (shown(again), again.begins_empty) == ([], False), "it is drained already"
        assert not plan_drain(seen(folded(drained, plan.command)), node="n2", undo=True).begins_empty
        assert not folded(drained, plan.command).nodes["n2"].draining

    def test_retire_forgets_the_node(self) -> None:
        cluster = with_table(with_nodes("n1", "n2"), ["n1"])
        assert "n2" not in taken(cluster, plan_retire(seen(cluster), node="n2")).nodes
        plan = plan_retire(seen(cluster), node="n1")
        assert shown(plan) == ["move flights/0 n1 > n2"]
        after = taken(cluster, plan)
        job = max(after.jobs)
        after = folded(after, TaskReady(job, 0, "n2"), TaskDone(job, 0, "n2"))
        assert set(after.nodes) == {"n2"}
        assert after.find("flights").readable(ZERO) == ("n2",)


class TestSetReplicas:
    def test_more_go_to_the_least_loaded(self) -> None:
        cluster = with_table(with_nodes("n1", "n2", "n3"), ["n1", "n2"])
        plan = plan_set_replicas(seen(cluster), table="flights", replicas=3)
        assert shown(plan) == ["add flights/0 n3", "add flights/0 n2", "add flights/1 n1", "add flights/1 n3"]
        assert taken(cluster, plan).find("flights").replicas == 3
        again = plan_set_replicas(seen(taken(cluster, plan)), table="flights", replicas=3)
        assert (shown(again), again.begins_empty) == ([], False), "who presses later begins no job of nothing"
        with pytest.raises(CommandRejected, match="start more nodes"):
            plan_set_replicas(seen(cluster, lost=["n3"]), table="flights", replicas=3)

    def test_the_ones_that_are_missed_least_go(self, three: ClusterMap) -> None:
        def going(situation: Situation) -> list[str]:
            plan = plan_set_replicas(situation, table="flights", replicas=1)
            after = taken(three, plan)
            assert all(len(assigned) == 1 for assigned in after.find("flights").assignments)
            return shown(plan)

        lost = going(seen(three, lost=["n2"]))
        assert lost[:2] == ["remove flights/0 n2", "remove flights/1 n2"]
        assert going(seen(three, behind={"n1": "behind"}))[0] == "remove flights/0 n1"

    def test_a_partition_that_loses_its_ready_replica_is_named(self, three: ClusterMap) -> None:
        plan = plan_set_replicas(seen(three, lost=["n1", "n2"]), table="flights", replicas=1)
        assert plan.notes == ("no replica that stays is ready in partition 0",)

    @pytest.mark.parametrize("replicas", [0, -1, 65])
    def test_numbers_that_make_no_sense(self, three: ClusterMap, replicas: int) -> None:
        with pytest.raises(InvalidRequest):
            plan_set_replicas(seen(three), table="flights", replicas=replicas)


class TestRebalance:
    def test_a_new_node_gets_its_share(self) -> None:
        cluster = with_table(with_nodes("n1", "n2", "n3"), ["n1", "n2", "n1", "n2", "n1", "n2"])
        plan = plan_rebalance(seen(cluster, sizes={0: 9, 2: 5, 4: 7, 1: 3, 3: 4, 5: 8}))
        assert shown(plan) == ["move flights/2 n1 > n3", "move flights/1 n2 > n3"]
        taken(cluster, plan)

    def test_an_even_cluster_stays_as_it_is(self, three: ClusterMap) -> None:
        plan = plan_rebalance(seen(three))
        assert (plan.steps, plan.begins_empty) == ((), False)

    def test_a_lost_node_is_left_alone(self) -> None:
        cluster = with_table(with_nodes("n1", "n2", "n3"), ["n1", "n1", "n1", "n3"])
        plan = plan_rebalance(seen(cluster, lost=["n3"]))
        assert shown(plan) == ["move flights/0 n1 > n2"]
        assert plan.notes == ("node n3 is not there (it was switched off): it is left as it is",)

    def test_what_another_job_changes_is_not_touched(self) -> None:
        cluster = with_table(with_nodes("n1", "n2", "n3"), ["n1", "n1", "n1", "n1"])
        moving = plan_move(seen(cluster), table="flights", partition=ZERO, source="n1", target="n2")
        cluster = folded(cluster, moving.command)
        plan = plan_rebalance(seen(cluster))
        assert "flights/0" not in " ".join(shown(plan))
        taken(cluster, plan)


class TestUpkeep:
    def test_the_least_loaded_node_takes_the_snapshot(self, three: ClusterMap) -> None:
        plan = plan_snapshot(seen(three, loads={"n1": 5, "n2": 1, "n3": 2}))
        assert shown(plan) == ["snapshot flights/0 n2", "snapshot flights/1 n3", "snapshot flights/2 n1"]
        assert shown(plan_snapshot(seen(three, behind={"n2": "behind"}), table="flights"))[0] == "snapshot flights/0 n1"
        taken(three, plan)

    def test_a_partition_that_nobody_serves_refuses_all(self, three: ClusterMap) -> None:
        with pytest.raises(CommandRejected, match=r"holds flights/0 is there \(n1: it was switched off; n2"):
            plan_snapshot(seen(three, lost=["n1", "n2"]))

    def test_the_log_loses_only_what_a_snapshot_covers(self, three: ClusterMap) -> None:
        table = three.find("flights")
        bounds = {table.id: [Bounds(Offset(10), Offset(99))] * 3}
        with pytest.raises(CommandRejected, match=r"flights/0 is not touched: no verified snapshot"):
            plan_trim(seen(three), bounds, table="flights")
        for partition in range(3):
            three = with_snapshot(three, table, partition, 40 + partition)
        situation = seen(three)
        assert shown(plan_trim(situation, bounds, table="flights")) == [
            "trim flights/0 n1 before=41",
            "trim flights/1 n2 before=42",
            "trim flights/2 n3 before=43",
        ]
        assert shown(plan_compact(situation, bounds, table="flights", partition=1, below=20)) == [
            "compact flights/1 n2 below=20"
        ]
        for planner, argument in ((plan_trim, "before"), (plan_compact, "below")):
            with pytest.raises(CommandRejected, match=rf"{argument} 43 of flights/0 is beyond .* \(41\)"):
                planner(situation, bounds, table="flights", **{argument: 43})
        nothing = plan_trim(situation, bounds, table="flights", partition=0, before=10)
        assert (nothing.steps, nothing.notes) == ((), ("the log of flights/0 begins at 10: there is nothing below 10",))
        taken(three, plan_trim(situation, bounds, table="flights"))

    def test_an_empty_log_needs_no_snapshot(self, three: ClusterMap) -> None:
        table = three.find("flights")
        plan = plan_trim(seen(three), {table.id: [Bounds(Offset(0), Offset(-1))] * 3}, table="flights")
        assert (plan.steps, len(plan.notes)) == ((), 3)

    def test_a_replica_that_trimming_leaves_behind_is_named(self, three: ClusterMap) -> None:
        table = three.find("flights")
        three = with_snapshot(three, table, 0, 200)
        bounds = {table.id: [Bounds(Offset(0), Offset(250))] * 3}
        plan = plan_trim(seen(three), bounds, table="flights", partition=0)
        assert [note.split(":")[0] for note in plan.notes] == [
            "the replica of flights/0 at n1 has applied 99",
            "the replica of flights/0 at n2 has applied 99",
        ]

    @pytest.mark.parametrize("plan_it", [plan_trim, plan_compact])
    def test_a_snapshot_of_an_earlier_version_covers_nothing(self, three: ClusterMap, plan_it: Any) -> None:
        """What was live when it was taken is not what is read."""
        table = three.find("flights")
        three = with_snapshot(three, table, 0, 200)
        three = three.with_table(replace(table, versions=(VersionEntry(1, "kept"), VersionEntry(2, "live"))))
        bounds = {table.id: [Bounds(Offset(0), Offset(250))] * 3}
        with pytest.raises(CommandRejected, match="no verified snapshot"):
            plan_it(seen(three), bounds, table="flights", partition=0)

    @pytest.mark.parametrize(("plan_it", "what"), [(plan_trim, "trim"), (plan_compact, "compact")])
    def test_a_topic_of_others_is_theirs(self, three: ClusterMap, plan_it: Any, what: str) -> None:
        table = three.find("flights")
        three = with_snapshot(three, table, 0, 200)
        adopted = replace(table, adopted=True, over="orders-v1")
        three = three.with_table(adopted)
        bounds = {table.id: [Bounds(Offset(0), Offset(250))] * 3}
        with pytest.raises(CommandRejected, match=f"the topic 'orders-v1' of others, .*: it is theirs to {what}"):
            plan_it(seen(three), bounds, table="flights", partition=0)


class TestRestore:
    def test_a_node_rebuilds_what_it_holds(self, three: ClusterMap) -> None:
        plan = plan_restore_node(seen(three), node="n1", source="peer")
        assert shown(plan) == ["rebuild flights/0 n1 source=peer", "rebuild flights/2 n1 source=peer"]
        taken(three, plan)
        with pytest.raises(CommandRejected, match="restores its replicas itself"):
            plan_restore_node(seen(three, lost=["n1"]), node="n1")
        with pytest.raises(InvalidRequest, match="auto, snapshot, peer, log"):
            plan_restore_node(seen(three), node="n1", source="tape")
        with pytest.raises(InvalidRequest, match="flights is a table"):
            plan_restore_node(seen(three), node="flights")

    def test_a_table_is_copied_by_live_holders(self, three: ClusterMap) -> None:
        table = three.find("flights")
        offsets = {Partition(number): Offset(10 * number - 1) for number in range(3)}
        situation = seen(three, lost=["n1"])
        plan = plan_restore_table(situation, table=table, target=TableId("new"), target_name="past", offsets=offsets)
        assert [step.node for step in plan.steps] == ["n2", "n3", "n3"]
        assert [step.arguments["offset"] for step in plan.steps] == [-1, 9, 19]
        with pytest.raises(CommandRejected, match="no table has the id new"):
            taken(three, plan)

    def test_what_can_be_restored(self, three: ClusterMap) -> None:
        table = three.find("flights")
        whole, cut = Bounds(Offset(0), Offset(99)), Bounds(Offset(50), Offset(99))
        check_restorable(seen(three), table.partition(ZERO), Offset(-1), whole)
        check_restorable(seen(three), table.partition(ZERO), Offset(99), whole)
        with pytest.raises(TokenAhead, match="ends at 99"):
            check_restorable(seen(three), table.partition(ZERO), Offset(100), whole)
        with pytest.raises(OffsetTrimmed, match="none reaches"):
            check_restorable(seen(three), table.partition(ZERO), Offset(60), cut)
        three = with_snapshot(with_snapshot(three, table, 0, 20), table, 0, 49)
        check_restorable(seen(three), table.partition(ZERO), Offset(49), cut)
        with pytest.raises(OffsetTrimmed, match="earliest offset that can be restored is 49") as caught:
            check_restorable(seen(three), table.partition(ZERO), Offset(48), cut)
        assert caught.value.fields["earliest"] == 49
        with pytest.raises(OffsetTrimmed):
            check_restorable(seen(three), table.partition(ZERO), Offset(49), cut, time_ms=48)

    def test_what_can_be_restored_of_a_compacted_log(self, three: ClusterMap) -> None:
        """Records that the state at an offset needs may have been written again behind it, and dropped."""
        table = three.find("flights")
        compacted = Bounds(Offset(0), Offset(99), compacted=Offset(60))
        three = with_snapshot(three, table, 0, 20)
        for offset in (20, 59, 60, 99):
            check_restorable(seen(three), table.partition(ZERO), Offset(offset), compacted)
        for offset in (0, 19, 21, 58):
            with pytest.raises(OffsetTrimmed, match=r"is 59; below it, .* snapshots can \(20\)") as caught:
                check_restorable(seen(three), table.partition(ZERO), Offset(offset), compacted)
            assert caught.value.fields["earliest"] == 59


class TestResume:
    def begun(self, cluster: ClusterMap, plan: Plan) -> tuple[ClusterMap, int]:
        cluster = folded(cluster, plan.command)
        return cluster, max(cluster.jobs)

    def test_tasks_of_lost_nodes_go_to_live_ones(self) -> None:
        cluster = with_table(with_nodes("n1", "n2", "n3", "n4"), ["n1", "n1"])
        cluster, job = self.begun(cluster, plan_drain(seen(cluster), node="n1"))
        assert [task.node for task in cluster.jobs[job].tasks] == ["n2", "n3"]
        plan = plan_resume(seen(cluster, lost=["n2"]), job_id=job)
        assert shown(plan) == ["move flights/0 n1 > n4"]
        after = taken(cluster, plan)
        assert [task.node for task in after.jobs[job].tasks] == ["n4", "n3"]
        assert [each.node for each in after.find("flights").assignments[0]] == ["n1", "n4"]

    def test_failed_tasks_are_tried_again_where_they_were(self, three: ClusterMap) -> None:
        cluster, job = self.begun(three, plan_snapshot(seen(three)))
        cluster = folded(cluster, TaskFailed(job, 0, "n1", "disk_full: no room"), TaskDone(job, 1, "n2"))
        plan = plan_resume(seen(cluster), job_id=job)
        assert shown(plan) == ["snapshot flights/0 n1"]
        assert plan.steps[0].note == "again, after: disk_full: no room"
        assert taken(cluster, plan).jobs[job].tasks[0].state == "waiting"

    def test_work_goes_to_another_holder(self, three: ClusterMap) -> None:
        cluster, job = self.begun(three, plan_snapshot(seen(three)))
        assert [task.node for task in cluster.jobs[job].tasks] == ["n1", "n2", "n3"]
        plan = plan_resume(seen(cluster, lost=["n1"]), job_id=job)
        assert shown(plan) == ["snapshot flights/0 n2"]
        taken(cluster, plan)

    def test_what_only_the_lost_node_can_do_waits(self, three: ClusterMap) -> None:
        cluster, job = self.begun(three, plan_restore_node(seen(three), node="n1"))
        plan = plan_resume(seen(cluster, lost=["n1"]), job_id=job)
        assert len(plan.notes) == 2
        assert all("nobody else can do it" in note for note in plan.notes)
        assert taken(cluster, plan).jobs[job].state == "running"

    def test_abort(self, three: ClusterMap) -> None:
        cluster, job = self.begun(
            three, plan_move(seen(three), table="flights", partition=ZERO, source="n1", target="n3")
        )
        plan = plan_abort(seen(cluster), job_id=job)
        assert shown(plan) == ["move flights/0 n1 > n3"]
        after = taken(cluster, plan)
        assert [each.node for each in after.find("flights").assignments[0]] == ["n1", "n2"]
        with pytest.raises(CommandRejected, match="is aborted already"):
            taken(folded(cluster, AbortJob(job)), plan)
        with pytest.raises(InvalidRequest, match="there is no job 77"):
            plan_abort(seen(cluster), job_id=77)


class TestPlan:
    def test_the_id_is_of_what_it_does(self, three: ClusterMap) -> None:
        table = three.find("flights")

        def plan(**fields: object) -> Plan:
            given = {"source": "n1", "bytes": 5, **fields}
            return plan_of("move", "flights/0", [Step("move", table.partition(ZERO), "flights", "n3", **given)])  # type: ignore[arg-type]

        assert plan().id == plan(bytes=6).id
        assert plan().id != plan(source="n2").id
        assert isinstance(plan().command, StartJob)

    def test_the_estimate_is_that_of_the_busiest_node(self, three: ClusterMap) -> None:
        table = three.find("flights")
        steps = [
            Step("add", table.partition(ZERO), "flights", "n3", bytes=RATE_BYTES_S),
            Step("add", table.partition(1), "flights", "n3", bytes=RATE_BYTES_S),
            Step("add", table.partition(2), "flights", "n2", bytes=RATE_BYTES_S),
            Step("remove", table.partition(2), "flights", "n1"),
        ]
        answer = describe_plan(plan_of("set-replicas", "flights to 3", steps), dry_run=True)
        assert (answer.seconds, answer.bytes, answer.replicas_moved) == (3.0, 3 * RATE_BYTES_S, 3)
        assert (answer.dry_run, answer.HasField("job"), answer.rate_bytes_s) == (True, False, RATE_BYTES_S)
