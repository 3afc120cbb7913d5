"""What a clearing does to a table: one job, from the empty version to the barriers. Pure; part of the catalog's fold.

    begins               an empty version, `staging`; a stage task for every replica that can be read
    a replica is level   it is one of the version's holders
    all are level        replicas that came meanwhile get a stage task too; where there is none, the version is
                         `staged`, and the node that was level last gets the swap task
    the swap is done     the version is `live`, as after any swap

So one command begins it, and nodes alone carry it to its end. The node that is level last has just been there, which is
why it gets the swap; `resume` can give that to another one. Until the swap task is there, the job can be aborted: the
version goes, and nothing was cleared. From then on barriers may be in the log, and it can only be carried through.

No other job changes the table's versions meanwhile (`check_alone`): what is staged here is what is swapped in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from log_tier.catalog.actions import Action, JobKind
from log_tier.catalog.cluster_map import EMPTY, ClusterMap, TableEntry, VersionEntry
from log_tier.catalog.commands import ClearTable
from log_tier.catalog.decisions import CommandRefused
from log_tier.catalog.jobs import ArgumentValue, Job, JobTasks, Task
from log_tier.catalog.version_fold import add_version, check_alone, lacking, with_version
from log_tier.model.identifiers import Offset

__all__ = ["begin_clear", "empty_url", "go_on_clearing", "is_swapping"]


def empty_url(offsets: Sequence[int], map_version: int) -> str:
    """The place of the empty version from which writes behind `offsets`, one for each partition, go on.

    `map_version`: the catalog's offset, which makes the place of each clearing unique.
    """
    return f"{EMPTY}{','.join(map(str, offsets))}/{map_version}"


def begin_clear(cluster: ClusterMap, offset: Offset, time_ms: int, command: ClearTable) -> tuple[ClusterMap, Job]:
    """Check a clearing against the map, and take its first step; the map, and the job, whose id is `offset`."""
    table = cluster.tables.get(command.table)
    if table is None:
        raise CommandRefused(f"no table has the id {command.table}: it was dropped, or never was")
    if len(command.offsets) != table.partitions:
        raise CommandRefused(
            f"table {table.name} has {table.partitions} partitions, and {len(command.offsets)} were named"
        )
    check_alone(cluster, table)
    url = empty_url(command.offsets, offset)
    cluster, number = add_version(cluster, table, url, time_ms)
    table = cluster.tables[table.id]
    version = table.version(number)
    assert version is not None, f"version {number} of {table.name} was added"
    arguments: dict[str, ArgumentValue] = {"table": table.id, "url": url, "version": number, "keep": command.keep}
    tasks = JobTasks(_stages(table, version))
    return cluster, Job(offset, JobKind.CLEAR.value, table.name, "running", tasks, time_ms, arguments)


def go_on_clearing(cluster: ClusterMap, job: Job, done: Task) -> tuple[ClusterMap, Job]:
    """Give a clearing its next tasks when it has none left. `done`: the task that has just ended."""
    if not job.tasks.all_finished or is_swapping(job) or any(task.state != "done" for task in job.tasks):
        return cluster, job
    table = cluster.tables[done.table]
    version = table.version(int(job.arguments["version"]))
    assert version is not None, f"the version that job {job.id} stages is gone"
    more = _stages(table, version)
    if not more:
        cluster = with_version(cluster, table, replace(version, state="staged"))
        more = (Task(Action.SWAP.value, done.table, done.partition, done.node),)
    return cluster, replace(job, tasks=JobTasks((*job.tasks, *more)))


def is_swapping(job: Job) -> bool:
    """Is `job` a clearing whose barriers may be in the log?"""
    return job.kind == JobKind.CLEAR and job.puts_barriers


def _stages(table: TableEntry, version: VersionEntry) -> tuple[Task, ...]:
    return tuple(
        Task(Action.STAGE.value, table.id, partition, node)
        for partition, nodes in lacking(table, version)
        for node in nodes
    )
