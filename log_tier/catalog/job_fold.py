"""What jobs do to the map. Pure; part of the catalog's fold.

    action     who works          begins with                 ready                        done
    move       the target         target joins                target member, source leaves source gone
    add        the target         target joins                –                            target member
    remove     nobody: done at once, unless it is the last replica that can be read
    snapshot   a member           –                           –                            (another command adds it)
    rebuild    the member itself  –                           –                            –
    copy       a member of the source partition; writes into the table that the task names
    trim, compact   a member
    stage      a replica: it fetches a version of its table, and keeps it level with the log as a standby
    swap, alter   one node: it puts the barriers into the log; see `version_fold`, `definition_fold`
    index      a replica: it puts the rows of before into an index that is being built

A clearing's job begins without its swap task, that of an index without those behind the first one: the folds of both
add them when what comes before is done.

A task that is undone (its job was aborted, it goes to another node) takes back what it began: a target that joined is
removed, a source that was leaving is a member again. A target that was ready stays when its job is aborted: there is
then one replica more than wanted, and never one less.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from log_tier.catalog.actions import CHANGES_HOLDERS, GAINS_REPLICA, SHORTENS_LOG, Action, JobKind
from log_tier.catalog.cluster_map import Assignment, ClusterMap, TableEntry
from log_tier.catalog.commands import (
    AbortJob,
    ClearTable,
    ResumeJob,
    StartJob,
    TaskDone,
    TaskFailed,
    TaskPlan,
    TaskReady,
)
from log_tier.catalog.decisions import CommandRefused
from log_tier.catalog.definition_fold import (
    begin_change,
    check_given_up,
    end_alter,
    given_up,
    go_on_changing,
    without_lost,
)
from log_tier.catalog.jobs import FINISHED, SEEN, Job, JobState, JobTasks, Task, TaskState
from log_tier.catalog.placement import with_assigned, with_draining, with_replicas, with_role, without_replica
from log_tier.catalog.version_fold import (
    DEFINITION_KINDS,
    SWAP_KINDS,
    VERSION_KINDS,
    begin_clear,
    begin_version_job,
    check_not_needed,
    end_version_job,
    go_on_clearing,
    is_swapping,
    with_holder,
    without_unstaged,
)
from log_tier.model.identifiers import Offset, Partition, TableId
from log_tier.rows.alter_table import AlterCommand

__all__ = [
    "FINISHED_JOBS_MAX",
    "abort_job",
    "alter_table",
    "clear_table",
    "resume_job",
    "start_job",
    "task_done",
    "task_failed",
    "task_ready",
    "undo_tasks_of",
]
_ACTIONS: Final = frozenset(Action)
_OF_ONE_TABLE: Final = frozenset({JobKind.CLEAR, JobKind.CREATE_INDEX})

# Enough for an operator to see what happened this week; every process holds the map.
FINISHED_JOBS_MAX: Final = 100


def start_job(cluster: ClusterMap, offset: Offset, time_ms: int, command: StartJob) -> ClusterMap:
    """Begin a job; its id is `offset`."""
    if isinstance(seen := command.arguments.get(SEEN), int) and (reason := cluster.job_since(seen)):
        raise CommandRefused(reason)
    tasks: list[Task] = []
    arguments = dict(command.arguments)
    if command.kind in VERSION_KINDS:
        cluster, arguments = begin_version_job(cluster, command, time_ms)
    for plan in command.tasks:
        cluster, task = _begin(cluster, plan)
        tasks.append(task)
    if command.kind in (JobKind.DRAIN, JobKind.UNDRAIN, JobKind.RETIRE):
        node = str(command.arguments.get("node", ""))
        cluster = with_draining(cluster, node, draining=command.kind != JobKind.UNDRAIN)
    if command.kind == JobKind.SET_REPLICAS:
        cluster = with_replicas(cluster, command.arguments)
    job = Job(offset, command.kind, command.subject, "running", JobTasks(tasks), time_ms, arguments)
    return _settled(cluster, job)


def clear_table(cluster: ClusterMap, offset: Offset, time_ms: int, command: ClearTable) -> ClusterMap:
    """Begin the job of a clearing; its id is `offset`."""
    cluster, job = begin_clear(cluster, offset, time_ms, command)
    return _settled(cluster, job)


def alter_table(cluster: ClusterMap, offset: Offset, time_ms: int, command: AlterCommand) -> ClusterMap:
    """Begin the job that brings a table its next definition; its id is `offset`."""
    cluster, job = begin_change(cluster, offset, time_ms, command)
    return _settled(cluster, job)


def task_ready(cluster: ClusterMap, command: TaskReady) -> ClusterMap:
    """A move's target may be read from now on."""
    job, task = _task_of(cluster, command)
    if task.action != Action.MOVE or task.state != "waiting":
        raise CommandRefused(
            f"task {command.task} of job {job.id} is a {task.action} in state {task.state}, no waiting move"
        )
    cluster = with_role(cluster, task, task.node, "member")
    cluster = with_role(cluster, task, str(task.arguments["from"]), "leaving")
    return _with_task(cluster, job, command.task, replace(task, state="ready"))


def task_done(cluster: ClusterMap, command: TaskDone) -> ClusterMap:
    """A task is finished."""
    job, task = _task_of(cluster, command)
    if task.action == Action.MOVE:
        if task.state != "ready":
            raise CommandRefused(
                f"task {command.task} of job {job.id} is {task.state}: a move is done after it was ready"
            )
        cluster = without_replica(cluster, task, str(task.arguments["from"]))
    elif task.action == Action.ADD:
        cluster = with_role(cluster, task, task.node, "member")
    elif task.action == Action.STAGE:
        cluster = with_holder(cluster, job, task)
    elif task.action == Action.ALTER:
        cluster = end_alter(cluster, job, command.task)
    done = replace(task, state="done", note=command.note)
    job = job.with_task(command.task, done)
    if job.kind == JobKind.CLEAR:
        cluster, job = go_on_clearing(cluster, job, done)
    return _settled(cluster, go_on_changing(cluster, job, done))


def task_failed(cluster: ClusterMap, command: TaskFailed) -> ClusterMap:
    """A task cannot go on. What it began stays, so that `resume` can take it up."""
    job, task = _task_of(cluster, command)
    return _with_task(cluster, job, command.task, replace(task, state="failed", note=command.note))


def abort_job(cluster: ClusterMap, command: AbortJob) -> ClusterMap:
    """Undo what is not done."""
    job = _job_of(cluster, command.job)
    if job.state in ("done", "aborted"):
        raise CommandRefused(f"job {job.id} is {job.state} already")
    if job.kind in DEFINITION_KINDS:
        check_given_up(job)
        return _with_job(cluster, given_up(job))
    if job.kind in SWAP_KINDS or is_swapping(job):
        raise CommandRefused(
            f"job {job.id} may have put barriers into the log already: resume it, perhaps with another node, and roll "
            "back then"
        )
    tasks: list[Task] = []
    for task in job.tasks:
        if task.state in ("waiting", "ready", "failed"):
            cluster = _kept(cluster, task) if _is_ready_move(cluster, task) else _undo(cluster, task)
            task = replace(task, state="aborted")
        tasks.append(task)
    if job.kind in (JobKind.DRAIN, JobKind.RETIRE):
        cluster = with_draining(cluster, str(job.arguments.get("node", "")), draining=False)
    if job.kind in (JobKind.STAGE, JobKind.CLEAR):
        cluster = without_unstaged(cluster, job)
    return _with_job(cluster, replace(job, state="aborted", tasks=JobTasks(tasks)))


def resume_job(cluster: ClusterMap, command: ResumeJob) -> ClusterMap:
    """Let unfinished and failed tasks wait again, with other nodes where the command names them."""
    job = _job_of(cluster, command.job)
    if job.state not in ("running", "failed"):
        raise CommandRefused(f"job {job.id} is {job.state}: there is nothing to resume")
    job = without_lost(cluster, job)
    tasks = list(job.tasks)
    for number, task in enumerate(tasks):
        node = command.nodes.get(str(number), task.node)
        if task.state in ("done", "aborted") or (task.state != "failed" and node == task.node):
            continue
        if node != task.node:
            cluster = _undo(cluster, task)
            plan = TaskPlan(task.action, task.table, task.partition, node, task.arguments)
            cluster, tasks[number] = _begin(cluster, plan, ignoring=job.id)
        else:
            state: TaskState = "ready" if _is_ready_move(cluster, task) else "waiting"
            tasks[number] = replace(task, state=state, note="")
    return _settled(cluster, replace(job, state="running", tasks=JobTasks(tasks)))


def undo_tasks_of(cluster: ClusterMap, table: TableEntry) -> ClusterMap:
    """End the tasks of a table that goes away; its replicas go with it."""
    for job in list(cluster.jobs.values()):
        if job.state not in ("done", "aborted") and any(task.table == table.id for task in job.tasks):
            tasks = JobTasks(
                replace(task, state="aborted", note=f"table {table.name} was dropped")
                if task.table == table.id and task.state not in ("done", "aborted")
                else task
                for task in job.tasks
            )
            # A drop removes the table's log first: a clearing may have failed by that before.
            state: JobState = "running" if job.kind in _OF_ONE_TABLE else job.state
            cluster = _settled(cluster, replace(job, state=state, tasks=tasks))
    return cluster


# --- one task


def _begin(cluster: ClusterMap, plan: TaskPlan, *, ignoring: int = -1) -> tuple[ClusterMap, Task]:
    """Check a task against the map, and take its first step. `ignoring`: the job that it belongs to."""
    if plan.action not in _ACTIONS:
        raise CommandRefused(f"there is no task {plan.action!r}; there are {', '.join(sorted(_ACTIONS))}")
    table = cluster.tables.get(plan.table)
    if table is None:
        raise CommandRefused(f"no table has the id {plan.table}: it was dropped, or never was")
    if not 0 <= plan.partition < table.partitions:
        raise CommandRefused(f"table {table.name} has partitions 0 to {table.partitions - 1}, not {plan.partition}")
    where = cluster.name_of(plan.partition_id)
    if plan.action != Action.REMOVE and plan.node not in cluster.nodes:
        raise CommandRefused(
            f"there is no node {plan.node!r}; registered are {', '.join(sorted(cluster.nodes)) or 'none'}"
        )
    task = Task(plan.action, table.id, plan.partition, plan.node, dict(plan.arguments))
    if plan.action in CHANGES_HOLDERS:
        _check_alone(cluster, task, where, ignoring)
        return _BEGINNINGS[plan.action](cluster, table, task, where)
    if plan.action in SHORTENS_LOG:
        check_not_needed(table, plan.action)
    if plan.action in SHORTENS_LOG and table.adopted:
        raise CommandRefused(f"the log of {where} is the topic {table.over!r} of others: it is theirs to {plan.action}")
    held = table if plan.action != Action.COPY else _source_of(cluster, plan)
    partition = plan.partition if plan.action != Action.COPY else Partition(int(plan.arguments["source_partition"]))
    if plan.action != Action.ALTER and plan.node not in held.readable(partition):
        raise CommandRefused(f"node {plan.node} holds no replica of {held.name}/{partition}")
    return cluster, task


def _source_of(cluster: ClusterMap, plan: TaskPlan) -> TableEntry:
    source = cluster.tables.get(TableId(str(plan.arguments.get("source_table"))))
    if source is None or not 0 <= int(plan.arguments.get("source_partition", -1)) < source.partitions:
        raise CommandRefused(f"the copy into table {plan.table} names a source that does not exist")
    return source


def _check_alone(cluster: ClusterMap, begun: Task, where: str, ignoring: int) -> None:
    for job in cluster.jobs.values():
        if job.id == ignoring or job.state not in ("running", "failed"):
            continue
        for task in job.tasks:
            if (
                task.partition_id == begun.partition_id
                and task.action in CHANGES_HOLDERS
                and task.state not in ("done", "aborted")
            ):
                raise CommandRefused(
                    f"the replicas of {where} are being changed by job {job.id} ({job.kind} {job.subject}): wait for "
                    "it, or abort it"
                )


def _begin_move(cluster: ClusterMap, table: TableEntry, task: Task, where: str) -> tuple[ClusterMap, Task]:
    source = str(task.arguments.get("from", ""))
    if source not in table.readable(task.partition):
        raise CommandRefused(f"node {source or '(none)'} holds no replica of {where} that could be moved")
    return _joined(cluster, table, task, where), task


def _begin_add(cluster: ClusterMap, table: TableEntry, task: Task, where: str) -> tuple[ClusterMap, Task]:
    return _joined(cluster, table, task, where), task


def _begin_remove(cluster: ClusterMap, table: TableEntry, task: Task, where: str) -> tuple[ClusterMap, Task]:
    readable = table.readable(task.partition)
    if task.node not in readable:
        raise CommandRefused(f"node {task.node} holds no replica of {where}")
    if len(readable) == 1:
        raise CommandRefused(f"node {task.node} holds the only replica of {where}: move it instead")
    return without_replica(cluster, task, task.node), replace(task, state="done")


_BEGINNINGS: Final[Mapping[str, Callable[[ClusterMap, TableEntry, Task, str], tuple[ClusterMap, Task]]]] = {
    Action.MOVE: _begin_move,
    Action.ADD: _begin_add,
    Action.REMOVE: _begin_remove,
}


def _joined(cluster: ClusterMap, table: TableEntry, task: Task, where: str) -> ClusterMap:
    if any(replica.node == task.node for replica in table.assignments[task.partition]):
        raise CommandRefused(f"node {task.node} holds a replica of {where} already")
    assigned = (*table.assignments[task.partition], Assignment(task.node, "joining"))
    return with_assigned(cluster, task, assigned)


def _is_ready_move(cluster: ClusterMap, task: Task) -> bool:
    """Had this move's target been ready before the task failed?"""
    if task.action != Action.MOVE:
        return False
    return Assignment(task.node, "member") in cluster.tables[task.table].assignments[task.partition]


def _kept(cluster: ClusterMap, task: Task) -> ClusterMap:
    """A move that is given up after its target was ready: both stay, since the fold cannot know which one is alive."""
    return with_role(cluster, task, str(task.arguments["from"]), "member")


def _undo(cluster: ClusterMap, task: Task) -> ClusterMap:
    if task.action not in GAINS_REPLICA or task.table not in cluster.tables:
        return cluster
    if task.action == Action.MOVE:
        cluster = with_role(cluster, task, str(task.arguments["from"]), "member")
    return without_replica(cluster, task, task.node)


# --- the map with one thing changed


def _task_of(cluster: ClusterMap, command: TaskReady | TaskDone | TaskFailed) -> tuple[Job, Task]:
    job = _job_of(cluster, command.job)
    if not 0 <= command.task < len(job.tasks):
        raise CommandRefused(f"job {job.id} has {len(job.tasks)} tasks, not a task {command.task}")
    task = job.tasks[command.task]
    if task.node != command.node:
        raise CommandRefused(f"task {command.task} of job {job.id} belongs to node {task.node}, not to {command.node}")
    if job.state != "running" or task.state in FINISHED:
        raise CommandRefused(f"task {command.task} of job {job.id} is {task.state}, and the job is {job.state}")
    return job, task


def _job_of(cluster: ClusterMap, job_id: int) -> Job:
    job = cluster.jobs.get(job_id)
    if job is None:
        raise CommandRefused(f"there is no job {job_id} (any more): `duramen admin jobs` lists them")
    return job


def _with_task(cluster: ClusterMap, job: Job, number: int, task: Task) -> ClusterMap:
    return _settled(cluster, job.with_task(number, task))


def _settled(cluster: ClusterMap, job: Job) -> ClusterMap:
    """Store a job, and end it where nobody works on it any more."""
    if job.state == "running" and job.tasks.all_finished:
        job = replace(job, state=(ended := _outcome(job)))
        if job.kind == JobKind.RETIRE and ended == "done":
            cluster = _retired(cluster, str(job.arguments.get("node", "")))
        if job.kind in VERSION_KINDS and ended == "done":
            cluster = end_version_job(cluster, job)
    return _with_job(cluster, job)


def _outcome(job: Job) -> JobState:
    states = {task.state for task in job.tasks}
    if "failed" in states:
        return "failed"
    # The table of such a job was dropped, and with it what was still to be done; or an index is not wanted any more.
    is_aborted = "aborted" in states if job.kind in _OF_ONE_TABLE else states == {"aborted"}
    return "aborted" if is_aborted else "done"


def _with_job(cluster: ClusterMap, job: Job) -> ClusterMap:
    jobs = dict(cluster.jobs)
    jobs[job.id] = job
    finished = [each.id for each in jobs.values() if each.state in ("done", "aborted")]
    for old in finished[: max(0, len(finished) - FINISHED_JOBS_MAX)]:
        del jobs[old]
    return replace(cluster, jobs=jobs)


def _retired(cluster: ClusterMap, node: str) -> ClusterMap:
    """Forget a node that holds nothing any more; what it got meanwhile keeps it."""
    if next(cluster.held_by(node), None) is not None:
        return cluster
    return replace(cluster, nodes={key: entry for key, entry in cluster.nodes.items() if key != node})
