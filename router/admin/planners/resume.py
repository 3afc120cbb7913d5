"""The plan that takes up a job again: failed tasks wait anew, and those of lost nodes go to live ones. Pure."""

from __future__ import annotations

from log_tier.catalog.actions import GAINS_REPLICA, SHORTENS_LOG, Action
from log_tier.catalog.cluster_map import ClusterMap, TableEntry
from log_tier.catalog.commands import AbortJob, ResumeJob
from log_tier.catalog.jobs import Job, Task
from log_tier.model.errors import InvalidRequest
from log_tier.model.identifiers import TableId
from router.admin.planners.choices import Choices
from router.admin.planners.cluster_view import Situation
from router.admin.planners.plan import Plan, Step

__all__ = ["job_of", "plan_abort", "plan_resume"]

_OVER = frozenset({"done", "aborted"})


def job_of(cluster: ClusterMap, job_id: int) -> Job:
    """A job. Raises `InvalidRequest` where the catalog has none of that id (any more)."""
    job = cluster.jobs.get(job_id)
    if job is None:
        raise InvalidRequest(f"there is no job {job_id} (any more): `duramen admin jobs` lists them", job=job_id)
    return job


def plan_resume(situation: Situation, *, job_id: int) -> Plan:
    """What is unfinished goes on: where it was if that node is there, else at another one that can do it."""
    job = job_of(situation.cluster, job_id)
    choices = Choices(situation)
    nodes: dict[str, str] = {}
    steps: list[Step] = []
    notes: list[str] = []
    for number, task in enumerate(job.tasks):
        if task.state in _OVER:
            continue
        name = _name(situation.cluster, task.table)
        node, note = task.node, ""
        if not situation.is_alive(task.node):
            other = _replacement(situation, choices, job, task)
            if other is None:
                note = f"waits for {task.node}, which is not there: nobody else can do it"
                notes.append(f"{task.action} of {name}/{task.partition} {note}")
            else:
                node = nodes[str(number)] = other
                note = f"instead of {task.node}, which is not there"
        elif task.state == "failed":
            note = f"again, after: {task.note}"
        else:
            continue  # it is being done
        size = _bytes(situation, task)
        source = str(task.arguments.get("from", ""))
        steps.append(Step(task.action, task.partition_id, name, node, source=source, bytes=size, note=note))
    return Plan(
        "resume", f"job {job_id} ({job.kind} {job.subject})", ResumeJob(job_id, nodes), steps, notes, begins_empty=True
    )


def plan_abort(situation: Situation, *, job_id: int) -> Plan:
    """What is not done is undone; what is done stays."""
    job = job_of(situation.cluster, job_id)
    steps = [
        Step(
            task.action,
            task.partition_id,
            _name(situation.cluster, task.table),
            task.node,
            source=str(task.arguments.get("from", "")),
            note=f"was {task.state}: undone",
        )
        for task in job.tasks
        if task.state not in _OVER
    ]
    done = sum(task.state == "done" for task in job.tasks)
    notes = [f"{done} of its {len(job.tasks)} tasks are done, and stay done"] if done else []
    return Plan("abort", f"job {job_id} ({job.kind} {job.subject})", AbortJob(job_id), steps, notes, begins_empty=True)


def _replacement(situation: Situation, choices: Choices, job: Job, task: Task) -> str | None:
    if task.table not in situation.cluster.tables:
        return None
    if task.action in GAINS_REPLICA:
        # What the job has for this partition already, and where it takes a replica from, is no place for another one.
        taken = [each.node for each in job.tasks if each.partition_id == task.partition_id]
        away = job.arguments.get("node")
        return choices.taker(task.partition_id, without=(*taken, *([str(away)] if away is not None else [])))
    if task.action in SHORTENS_LOG | {Action.SNAPSHOT, Action.SWAP, Action.ALTER}:
        return choices.worker(task.partition_id)
    if task.action == Action.COPY:
        source = situation.cluster.tables.get(TableId(str(task.arguments.get("source_table"))))
        return None if source is None else choices.worker(source.partition(int(task.arguments["source_partition"])))
    return None  # a rebuild is the node's own


def _name(cluster: ClusterMap, table_id: TableId) -> str:
    table: TableEntry | None = cluster.tables.get(table_id)
    return table.name if table is not None else f"(dropped) {table_id}"


def _bytes(situation: Situation, task: Task) -> int:
    if task.table not in situation.cluster.tables or task.action in SHORTENS_LOG | {Action.REMOVE}:
        return 0
    return situation.bytes_of(task.partition_id)
