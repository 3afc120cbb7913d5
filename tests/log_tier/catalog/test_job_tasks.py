"""The tasks of a job against a list, and what a change costs in a job of thousands."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st
from kit.log.map_script import table_id

from log_tier.catalog.catalog_fold import fold_command
from log_tier.catalog.cluster_map import ClusterMap, SnapshotEntry
from log_tier.catalog.commands import AddSnapshot, Command, CreateTable, RegisterNode, StartJob, TaskDone, TaskPlan
from log_tier.catalog.jobs import FINISHED, JobTasks, Task, TaskState
from log_tier.model.identifiers import Offset, Partition

NODES = ("n1", "n2", "n3")
TASKS = st.builds(
    Task,
    st.just("snapshot"),
    st.just(table_id("flights")),
    st.just(Partition(0)),
    st.sampled_from(NODES),
    state=st.sampled_from(get_args(TaskState)),
)


@given(st.lists(TASKS, min_size=1, max_size=9), st.lists(st.tuples(st.integers(0, 8), TASKS), max_size=12))
def test_they_are_a_list_that_knows_what_is_unfinished(begun: list[Task], changes: list[tuple[int, Task]]) -> None:
    model = list(begun)
    tasks = JobTasks(begun)
    for number, task in changes:
        before, was = tasks, list(model)
        tasks = tasks.with_task(number % len(model), task)
        model[number % len(model)] = task
        assert list(before) == was, "a change leaves what it was made of as it is"
    assert (list(tasks), len(tasks), tasks[-1]) == (model, len(model), model[-1])
    assert tasks == JobTasks(model)
    unfinished = [(number, task) for number, task in enumerate(model) if task.state not in FINISHED]
    assert list(tasks.unfinished()) == unfinished
    assert tasks.all_finished == (not unfinished)
    for node in NODES:
        assert dict(tasks.unfinished_of(node)) == {number: task for number, task in unfinished if task.node == node}


def fold(cluster: ClusterMap, command: Command) -> ClusterMap:
    number = Offset(cluster.version + 1)
    after, decision = fold_command(cluster, number, 0, f"id{number}", command)
    assert not decision.rejection
    return after


def job_of(size: int) -> ClusterMap:
    """A map with a job that takes a snapshot of each of `size` tables, of which the last two are still to be taken."""
    cluster = fold(ClusterMap(), RegisterNode("n1", "host:1", "a"))
    names = [f"t{number}" for number in range(size)]
    for name in names:
        cluster = fold(cluster, CreateTable(table_id(name), name, 1, 1))
    plans = tuple(TaskPlan("snapshot", table_id(name), Partition(0), "n1") for name in names)
    cluster = fold(cluster, StartJob("snapshot", "all", plans))
    for number in range(size - 2):
        cluster = fold(fold(cluster, snapshot_of(names[number])), done(cluster, number))
    return cluster


def done(cluster: ClusterMap, number: int) -> TaskDone:
    return TaskDone(max(cluster.jobs), number, "n1", "done")


def snapshot_of(name: str) -> AddSnapshot:
    return AddSnapshot(SnapshotEntry(f"s-{name}", table_id(name), Partition(0), Offset(9), 7, 1, 1, "path", "n1"))


def calls_of(work: Callable[[], object]) -> int:
    """How many Python calls, turns of generators among them, a piece of work makes."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


def test_a_task_that_is_done_costs_the_same_in_a_job_of_any_size() -> None:
    calls: dict[int, int] = {}
    for size in (20, 400):
        cluster = job_of(size)
        command, snapshot = done(cluster, size - 2), snapshot_of(f"t{size - 2}")
        calls[size] = calls_of(lambda: fold(fold(cluster, snapshot), command))  # noqa: B023 (called here)
    assert calls[400] <= calls[20] + 5, calls
