"""What jobs do to the versions of a table. Pure; part of the catalog's fold.

    job         begins with                                  done
    stage       a version `staging`; its replicas fetch it   `staged`
    swap        the version is `staged`, or `kept`           `live`; the one before it is `kept`, older ones are gone
    rollback    the version is `kept`                        the same
    discard     –                                            gone; nodes remove what is not in the map
    clear       an empty version `staging`                   as of a swap

A clearing is one job, from the empty version to the barriers:

    begins               an empty version, `staging`; a stage task for every replica that can be read
    a replica is level   it is one of the version's holders
    all are level        replicas that came meanwhile get a stage task too; where there is none, the version is
                         `staged`, and the node that was level last gets the swap task
    the swap is done     the version is `live`, as after any swap

So one command begins it, and nodes alone carry it to its end. The node that is level last has just been there, which is
why it gets the swap; `resume` can give that to another one. Until the swap task is there, the job can be aborted: the
version goes, and nothing was cleared. From then on barriers may be in the log, and it can only be carried through.

One job of these at a time for each table, and none while its definition changes (`definition_fold`). A stage that is
aborted takes its version away; a swap cannot be aborted, because its barriers may be in the log; a resumed swap appends
the same ones, and those take effect once.

A stage of `empty:` makes a version that is empty but for what was written since the request. One that was overtaken,
by a clearing or by a new build, is not swapped in any more: its keys may have been cleared since.

The table remembers the last of these jobs that changed which version is live (`last_swap`): a snapshot that does not
hold its barrier covers nothing any more.

A version is swapped in only where every replica that can be read said that it is level with it (`holders`): one that
joined since has to be staged too, by the same command again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from log_tier.catalog.actions import Action, JobKind
from log_tier.catalog.cluster_map import EMPTY, ClusterMap, TableEntry, VersionEntry
from log_tier.catalog.commands import ClearTable, StartJob
from log_tier.catalog.decisions import CommandRefused
from log_tier.catalog.jobs import ArgumentValue, Job, JobTasks, Task
from log_tier.model.identifiers import Offset, Partition, TableId
from log_tier.privacy.masked_url import mask_url

__all__ = [
    "DEFINITION_KINDS",
    "SWAP_KINDS",
    "VERSION_KINDS",
    "add_version",
    "begin_clear",
    "begin_version_job",
    "check_alone",
    "check_not_needed",
    "empty_url",
    "end_version_job",
    "ended_by_swap",
    "go_on_clearing",
    "is_swapping",
    "keep_of",
    "lacking",
    "versions_job",
    "with_holder",
    "with_version",
    "without_unstaged",
]

SWAP_KINDS: Final = frozenset({JobKind.SWAP, JobKind.ROLLBACK})
"""Jobs that put barriers into a log."""

DEFINITION_KINDS: Final = frozenset({JobKind.ALTER, JobKind.CREATE_INDEX, JobKind.DROP_INDEX})
"""Jobs that bring a table its next definition: see `definition_fold`."""

VERSION_KINDS: Final = frozenset({JobKind.STAGE, JobKind.DISCARD, JobKind.CLEAR}) | SWAP_KINDS | DEFINITION_KINDS
"""Jobs about the versions of a table, or about its definition: one at a time."""

_KEEP_DEFAULT: Final = 1
"""Versions that stay for a rollback; each takes the disk of one more index, and the work of another apply."""


def begin_version_job(
    cluster: ClusterMap, command: StartJob, time_ms: int
) -> tuple[ClusterMap, dict[str, ArgumentValue]]:
    """Check a job against the map, and take its first step; the map, and the job's arguments with the version."""
    table = _table(cluster, command.arguments)
    check_alone(cluster, table)
    if command.kind == JobKind.CLEAR:
        raise CommandRefused(
            "a clearing begins with a `clear-table`, which says behind which offsets the table is empty"
        )
    if command.kind in DEFINITION_KINDS:
        raise CommandRefused(
            "a change of a table's definition begins with an `alter-table` or an `alter-indexes`, which has the change"
        )
    if command.kind == JobKind.STAGE:
        return _begin_stage(cluster, table, command, time_ms)
    number = command.arguments.get("version")
    version = table.version(number) if isinstance(number, int) else None
    if version is None and number == 1 and not table.versions:
        version = VersionEntry(1, "live")
    if version is None:
        raise CommandRefused(f"table {table.name} has no version {number!r}; it has {_known(table)}")
    if command.kind == JobKind.DISCARD:
        if version.state == "live":
            raise CommandRefused(f"version {version.number} of {table.name} is live: swap another one in first")
        return cluster, dict(command.arguments)
    wanted = ("kept",) if command.kind == JobKind.ROLLBACK else ("staged", "kept")
    if version.state not in wanted:
        raise CommandRefused(f"version {version.number} of {table.name} is {version.state}, not {' or '.join(wanted)}")
    if version.begins_empty and version.state == "staged" and version.number < table.live_version:
        raise CommandRefused(
            f"version {version.number} of {table.name} is empty and older than version {table.live_version}, which is "
            "live: it would bring back what that one had cleared; stage a new one"
        )
    _check_held(table, version)
    return cluster, dict(command.arguments)


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


def _begin_stage(
    cluster: ClusterMap, table: TableEntry, command: StartJob, time_ms: int
) -> tuple[ClusterMap, dict[str, ArgumentValue]]:
    url = str(command.arguments.get("url", ""))
    if not url:
        raise CommandRefused(f"the stage of table {table.name} names no place of a version")
    alone = [each.name for each in (table.definition.indexes if table.definition else ()) if each.unique]
    if alone and not url.startswith(EMPTY):
        raise CommandRefused(
            f"table {table.name} has the unique index {alone[0]}, which is decided by its log: rows that were built "
            "apart from it may have equal values, and take those of rows that are written meanwhile. Load them as "
            "writes, or drop the index first"
        )
    again = next((version for version in table.versions if version.url == url), None)
    if again is not None and again.begins_empty:
        # Each clearing has a version of its own: it begins behind the offsets that the request named.
        raise CommandRefused(f"version {again.number} of {table.name} is at {mask_url(url)} already: begin again")
    if again is not None:
        return cluster, {**command.arguments, "version": again.number}
    cluster, number = add_version(cluster, table, url, time_ms)
    return cluster, {**command.arguments, "version": number}


def add_version(cluster: ClusterMap, table: TableEntry, url: str, time_ms: int) -> tuple[ClusterMap, int]:
    """Give a table one more version, which its replicas shall fetch; the map, and the version's number."""
    versions = table.versions or (VersionEntry(1, "live", holders=_readable(table)),)
    number = table.last_version + 1
    new = VersionEntry(number, "staging", url, time_ms, ((),) * table.partitions)
    return _with_versions(cluster, replace(table, last_version=number), (*versions, new)), number


def with_holder(cluster: ClusterMap, job: Job, task: Task) -> ClusterMap:
    """A replica is level with a version."""
    table = cluster.tables.get(task.table)
    version = None if table is None else table.version(int(job.arguments["version"]))
    if table is None or version is None:
        raise CommandRefused(f"the version that job {job.id} stages is gone")
    held = list(version.holders)
    held[task.partition] = tuple(sorted({*held[task.partition], task.node}))
    return with_version(cluster, table, replace(version, holders=tuple(held)))


def without_unstaged(cluster: ClusterMap, job: Job) -> ClusterMap:
    """A stage was given up: its version goes, unless an earlier one had staged it."""
    table = cluster.tables.get(str(job.arguments.get("table")))  # type: ignore[call-overload]
    number = job.arguments.get("version")
    if table is None or not isinstance(number, int):
        return cluster
    version = table.version(number)
    if version is None or version.state != "staging":
        return cluster
    return _with_versions(cluster, table, tuple(each for each in table.versions if each.number != number))


def end_version_job(cluster: ClusterMap, job: Job) -> ClusterMap:
    """Take the last step of a job whose tasks are all done."""
    table = cluster.tables.get(str(job.arguments.get("table")))  # type: ignore[call-overload]
    number = job.arguments.get("version")
    version = table.version(number) if table is not None and isinstance(number, int) else None
    if table is None or version is None:
        return cluster
    if job.kind == JobKind.DISCARD:
        return _with_versions(cluster, table, tuple(each for each in table.versions if each is not version))
    if job.kind == JobKind.STAGE:
        return with_version(
            cluster, table, replace(version, state="staged" if version.state == "staging" else version.state)
        )
    gone = ended_by_swap(table, version.number, keep_of(job.arguments))
    versions = [
        replace(each, state="live")
        if each is version
        else replace(each, state="kept", holders=_readable(table))
        if each.state == "live"
        else each
        for each in table.versions
    ]
    left = tuple(each for each in versions if each.number not in gone)
    return _with_versions(cluster, replace(table, last_swap=job.id), left)


def keep_of(arguments: Mapping[str, ArgumentValue]) -> int:
    """How many versions a swap leaves for a rollback."""
    keep = arguments.get("keep", _KEEP_DEFAULT)
    return max(0, keep) if isinstance(keep, int) else _KEEP_DEFAULT


def ended_by_swap(table: TableEntry, number: int, keep: int) -> tuple[int, ...]:
    """The versions of a table that end when version `number` goes live: the oldest ones, but for `keep`."""
    was_live = table.live_version
    kept = [each.number for each in table.versions if each.state == "kept" and each.number not in (number, was_live)]
    surplus = max(0, len(kept) + 1 - keep)
    return tuple([*kept, was_live][:surplus])


def check_not_needed(table: TableEntry, action: str) -> None:
    """Raise `CommandRefused` if a version still needs the log from the offsets at which it was built."""
    waiting = next((each for each in table.versions if each.state in ("staging", "staged")), None)
    if waiting is not None:
        raise CommandRefused(
            f"version {waiting.number} of {table.name} is {waiting.state} and may need the log from where it was "
            f"built: swap it in or discard it before a {action}"
        )


def lacking(table: TableEntry, version: VersionEntry) -> Iterator[tuple[Partition, list[str]]]:
    """The nodes, by partition, whose replica may be read and is not yet level with the version. Partitions without
    such a node are left out.
    """
    for number in map(Partition, range(table.partitions)):
        held = version.holders[number] if number < len(version.holders) else ()
        nodes = [node for node in table.readable(number) if node not in held]
        if nodes:
            yield number, nodes


def _check_held(table: TableEntry, version: VersionEntry) -> None:
    for number, nodes in lacking(table, version):
        where = f"version {version.number} of {table.name}/{number} is not at {', '.join(nodes)}"
        raise CommandRefused(
            f"{where}: stage it again"
            if version.url
            else f"{where}, which got the replica later: move it back, or build that version anew"
        )


def versions_job(cluster: ClusterMap, table: TableId) -> Job | None:
    """The job that changes the versions of a table, and lets no other one do so; failed ones hold it too."""
    for job in cluster.jobs.values():
        if job.kind in VERSION_KINDS and job.state in ("running", "failed") and job.arguments.get("table") == table:
            return job
    return None


def check_alone(cluster: ClusterMap, table: TableEntry) -> None:
    """Raise `CommandRefused` if another job changes the versions of the table."""
    job = versions_job(cluster, table.id)
    if job is not None:
        raise CommandRefused(
            f"the versions of {table.name} are being changed by job {job.id} ({job.kind}, {job.state}): wait for "
            "it, resume it, or abort it"
        )


def _table(cluster: ClusterMap, arguments: Mapping[str, ArgumentValue]) -> TableEntry:
    table = cluster.tables.get(TableId(str(arguments.get("table"))))
    if table is None:
        raise CommandRefused(f"no table has the id {arguments.get('table')!r}: it was dropped, or never was")
    return table


def _known(table: TableEntry) -> str:
    return ", ".join(f"{each.number} ({each.state})" for each in table.versions) or "1 (live)"


def _readable(table: TableEntry) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(sorted(table.readable(Partition(number)))) for number in range(table.partitions))


def with_version(cluster: ClusterMap, table: TableEntry, version: VersionEntry) -> ClusterMap:
    """The map with another entry of one of a table's versions."""
    versions = tuple(version if each.number == version.number else each for each in table.versions)
    return _with_versions(cluster, table, versions)


def _with_versions(cluster: ClusterMap, table: TableEntry, versions: tuple[VersionEntry, ...]) -> ClusterMap:
    return cluster.with_table(replace(table, versions=versions))
