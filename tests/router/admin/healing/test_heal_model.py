"""Healing in any cluster, whatever comes: never fewer live copies by its doing, bounded, and it comes to an end."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st
from kit.cluster.situations import folded, seen, with_nodes, with_table

from log_tier.catalog.cluster_map import ClusterMap
from log_tier.catalog.commands import AbortJob, Command, StartJob, TaskDone, TaskFailed, TaskReady
from log_tier.catalog.jobs import Task
from log_tier.model.errors import CommandRejected
from log_tier.model.identifiers import PartitionId
from router.admin.planners.heal import decide_healing
from router.admin.planners.plan import check_plan

COPIES = 2
EVENTS = ("decide", "decide", "decide late", "work", "work", "fail", "lose", "come back")


class _Cluster:
    """A map, the nodes that are lost, and those whose copy of a partition can be read."""

    def __init__(self, cluster: ClusterMap) -> None:
        self.map = cluster
        self.lost: set[str] = set()
        self.level = {
            (table.partition(number), replica.node)
            for table in cluster.tables.values()
            for number, assigned in enumerate(table.assignments)
            for replica in assigned
        }
        self.late: Command | None = None

    def live(self) -> Mapping[PartitionId, int]:
        """Live copies that can be read, by partition."""
        return {
            place: sum(
                node not in self.lost and (place, node) in self.level for node in table.readable(place.partition)
            )
            for table in self.map.tables.values()
            for place in table.partition_ids()
        }

    def returned_to(self, command: Command) -> PartitionId | None:
        """The partition of a move's last step, where the node that it leaves is back, and no router has seen that."""
        if not isinstance(command, TaskDone) or self.map.jobs[command.job].arguments["node"] in self.lost:
            return None
        return self.map.jobs[command.job].tasks[command.task].partition_id

    def decide(self) -> Command | None:
        return decide_healing(seen(self.map, lost=sorted(self.lost)), sorted(self.lost), copies=COPIES).command

    def submit(self, command: Command) -> None:
        before, returned = self.live(), self.returned_to(command)
        try:
            check_plan(self.map, command)
        except CommandRejected:
            return
        self.map = folded(self.map, command)
        now = self.live()
        for place, copies in before.items():
            # A node that comes back at the last moment of a move is one copy more than what is counted on.
            assert now[place] >= min(copies - (place == returned), self.map.tables[place.table].replicas), command
        healings = [job for job in self.map.jobs.values() if job.kind == "heal" and job.state in ("running", "failed")]
        assert len(healings) <= 1
        assert all(len(job.tasks) <= COPIES for job in healings)

    def tasks(self) -> list[tuple[int, int, Task]]:
        """What live nodes have to do."""
        return [
            (job.id, number, task)
            for job, number, task in self.map.unfinished_tasks()
            if job.state == "running" and task.node not in self.lost
        ]

    def work(self, job: int, number: int, task: Task) -> None:
        if task.state == "waiting":
            self.level.add((task.partition_id, task.node))
            self.submit(TaskReady(job, number, task.node))
        else:
            self.submit(TaskDone(job, number, task.node))

    def happen(self, event: str, pick: int) -> None:
        tasks = self.tasks()
        if event == "decide" and (command := self.decide()) is not None:
            self.late = command  # another router decided the same, and is slow
            self.submit(command)
        elif event == "decide late" and self.late is not None:
            self.submit(self.late)
        elif event == "work" and tasks:
            self.work(*tasks[pick % len(tasks)])
        elif event == "fail" and tasks:
            job, number, task = tasks[pick % len(tasks)]
            self.submit(TaskFailed(job, number, task.node, "DiskFull"))
        elif event == "lose":
            self.lost.add(sorted(self.map.nodes)[pick % len(self.map.nodes)])
        elif event == "come back" and self.lost:
            self.lost.discard(sorted(self.lost)[pick % len(self.lost)])


@st.composite
def clusters(draw: st.DrawFn) -> _Cluster:
    nodes = [f"n{number}" for number in range(1, draw(st.integers(2, 6)) + 1)]
    cluster = with_nodes(*nodes)
    for number in range(draw(st.integers(1, 2))):
        replicas = draw(st.integers(1, min(3, len(nodes))))
        holders = st.permutations(nodes).map(lambda order, count=replicas: " ".join(order[:count]))  # type: ignore[misc]
        cluster = with_table(cluster, draw(st.lists(holders, min_size=1, max_size=5)), name=f"t{number}")
    return _Cluster(cluster)


@given(clusters(), st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 30)), max_size=40))
def test_healing(cluster: _Cluster, events: list[tuple[str, int]]) -> None:
    for event, pick in events:
        cluster.happen(event, pick)

    rounds = 0
    while (command := cluster.decide()) is not None or cluster.tasks():
        rounds += 1
        assert rounds < 200, "it does not come to an end"
        if command is not None:
            cluster.submit(command)
        for task in cluster.tasks():
            cluster.work(*task)
            break
    decision = decide_healing(seen(cluster.map, lost=sorted(cluster.lost)), sorted(cluster.lost), copies=COPIES)
    takers = set(cluster.map.nodes) - cluster.lost
    if 2 * len(cluster.lost) > len(cluster.map.nodes):
        assert len(decision.blocked) == 1
        return
    for table in cluster.map.tables.values():
        for number, assigned in enumerate(table.assignments):
            members = {replica.node for replica in assigned}
            full = len(members - cluster.lost) >= table.replicas
            assert full or not takers - members, f"{table.name}/{number} is at {members}, {takers} are there"


def test_the_model_meets_what_it_is_about() -> None:
    """A life in which each kind of decision is made."""
    cluster = _Cluster(with_table(with_nodes("n1", "n2", "n3", "n4"), ["n1 n2", "n2 n3"]))
    kinds: list[type[Command]] = []
    for event, pick in [("lose", 1), ("decide", 0), ("come back", 0), ("decide", 0), ("lose", 1), ("decide", 0)]:
        before = cluster.map.version
        cluster.happen(event, pick)
        if event == "decide" and cluster.map.version > before:
            assert cluster.late is not None
            kinds.append(type(cluster.late))
    assert kinds == [StartJob, AbortJob, StartJob]
