"""What a node learns of a newer map: against a comparison that goes through all tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from kit.log.map_script import table_id

from log_tier.catalog.cluster_map import ClusterMap
from log_tier.catalog.jobs import Job, JobState, JobTasks, Task, TaskState
from log_tier.model.identifiers import Partition
from serving_tier.jobs.wanted_tasks import TaskKey, WantedTasks

JOB_STATES: Sequence[JobState] = ("running", "running", "failed", "done")
TASK_STATES: Sequence[TaskState] = ("waiting", "ready", "done", "failed")


@st.composite
def maps(draw: st.DrawFn) -> list[ClusterMap]:
    """A line of maps, each with some change of some job, or a job more or less."""
    cluster, found = ClusterMap(), []
    for _ in range(draw(st.integers(1, 12))):
        number = draw(st.integers(1, 3))
        jobs = dict(cluster.jobs)
        job = jobs.get(number)
        if job is None:
            tasks = [
                Task("snapshot", table_id("flights"), Partition(0), draw(st.sampled_from(["n1", "n2"])))
                for _ in range(draw(st.integers(1, 4)))
            ]
            jobs[number] = Job(number, "snapshot", "all", "running", JobTasks(tasks), 0)
        elif draw(st.booleans()):
            at = draw(st.integers(0, len(job.tasks) - 1))
            changed = replace(
                job.tasks[at], state=draw(st.sampled_from(TASK_STATES)), node=draw(st.sampled_from(["n1", "n2"]))
            )
            jobs[number] = job.with_task(at, changed)
        elif draw(st.booleans()):
            jobs[number] = replace(job, state=draw(st.sampled_from(JOB_STATES)))
        else:
            del jobs[number]
        cluster = replace(cluster, jobs=jobs)
        found.append(cluster)
    return found


@given(maps())
def test_it_learns_what_a_look_at_every_task_shows(line: list[ClusterMap]) -> None:
    wanted = WantedTasks("n1")
    before: dict[TaskKey, Task] = {}
    for cluster in line:
        now = {(job.id, number): task for job, number, task in cluster.unfinished_tasks("n1")}
        changed, gone = wanted.update(cluster)
        assert sorted(changed) == sorted(key for key, task in now.items() if before.get(key) is not task)
        assert sorted(gone) == sorted(key for key in before if key not in now)
        assert wanted.update(cluster) == ([], [])
        before = now
