"""What jobs do to the definition of a table. Pure; part of the catalog's fold.

    job            tasks, in their order                              the table has
    alter          alter: the barriers with the next definition       that definition, when they are in the logs
    create-index   alter: the barriers from which on rows that        the definition with the index, which is being
                   change have entries in the index                   built
                   index: a replica puts the rows of before into      –
                   it; one task for every one that can be read
                   alter: the barriers from which on it is in         the definition with the index in service
                   service
    drop-index     alter: the barriers from which on it is gone       the definition without it

One job of these, or of `version_fold`, at a time for each table. Until all barriers are there, the table has the
definition of before, so nobody writes by the next one in front of its barrier; what that will be is in the job
(`next_definition`). So a task that puts barriers cannot be aborted, as a swap cannot.

An index that is being built can be given up: the `index` tasks that are left are aborted, and the last barriers take
the index away. Replicas that came while one was built get an `index` task too, before it is put into service; what has
lost its replica meanwhile has nothing to build.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from log_tier.catalog.actions import Action, JobKind
from log_tier.catalog.cluster_map import ClusterMap, TableEntry
from log_tier.catalog.decisions import CommandRefused
from log_tier.catalog.jobs import FINISHED, ArgumentValue, Job, JobTasks, Task
from log_tier.catalog.version_fold import DEFINITION_KINDS, check_alone, versions_job
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import Offset, Partition, TableId
from log_tier.rows.alter_table import DEFINITION_BYTES_MAX, AlterCommand, AlterIndexes, AlterTable, IndexChange
from log_tier.rows.definition import TableDefinition
from log_tier.rows.definitions.numbering import number_schemas
from log_tier.rows.schema import NumberedSchema, RowSchema
from log_tier.rows.table_index import unpack_where

__all__ = [
    "begin_change",
    "check_given_up",
    "end_alter",
    "given_up",
    "go_on_changing",
    "goes_over_by",
    "next_definition",
    "without_lost",
]

_GIVEN_UP: Final = "given_up"
"""The argument of a job whose index is not wanted any more."""


def begin_change(cluster: ClusterMap, offset: Offset, time_ms: int, command: AlterCommand) -> tuple[ClusterMap, Job]:
    """Check a change of a table's definition against the map; the map, and the job, whose id is `offset`."""
    table = cluster.tables.get(command.table)
    if table is None:
        raise CommandRefused(f"no table has the id {command.table!r}: it was dropped, or never was")
    present = table.definition
    if present is None or present.value != "row":
        raise CommandRefused(f"table {table.name} has no rows, and so no schema or index that could change")
    running = versions_job(cluster, table.id)
    if running is not None and running.kind in DEFINITION_KINDS:
        raise CommandRefused(
            f"table {table.name} {goes_over_by(running)}, and this change was made for definition {command.after}: "
            "look at what the table has then, and ask again"
        )
    if command.after != present.number:
        raise CommandRefused(
            f"table {table.name} has definition {present.number} by now, with schema {present.schemas[-1].number}"
            f"{_changed_by(cluster, table)}, and this change was made for definition {command.after}: look at what it "
            "has, and ask again"
        )
    check_alone(cluster, table)
    if command.node not in cluster.nodes:
        raise CommandRefused(f"there is no node {command.node!r} that would put the barriers into the logs")
    try:
        cluster, kind, arguments = (
            _altered(cluster, table, present, command)
            if isinstance(command, AlterTable)
            else (cluster, *_indexed(table, present, command))
        )
    except DuramenError as error:
        raise CommandRefused(error.message) from error
    tasks = JobTasks((_alter_task(table, command.node),))
    return cluster, Job(offset, kind.value, table.name, "running", tasks, time_ms, {"table": table.id, **arguments})


def _altered(
    cluster: ClusterMap, table: TableEntry, present: TableDefinition, command: AlterTable
) -> tuple[ClusterMap, JobKind, Mapping[str, ArgumentValue]]:
    """Give a schema its number."""
    schema = NumberedSchema(0, RowSchema.parse(command.schema))
    later, added = number_schemas(present.with_schema(schema), cluster.schemas)
    if len(later.text) > DEFINITION_BYTES_MAX:
        raise CommandRefused(
            f"the definition of {table.name} would have {len(later.text)} bytes with this schema, and a barrier takes "
            f"{DEFINITION_BYTES_MAX}: make a new table"
        )
    schemas = cluster.schemas
    for number, text in added.items():
        schemas = schemas.with_entry(number, text)
    arguments = {"definition": later.number, "schema": later.schemas[-1].number}
    return replace(cluster, schemas=schemas), JobKind.ALTER, arguments


def _indexed(
    table: TableEntry, present: TableDefinition, command: AlterIndexes
) -> tuple[JobKind, Mapping[str, ArgumentValue]]:
    """Give an index its number, or find it."""
    fields = tuple(command.fields.split(",")) if command.fields else ()
    change = IndexChange(command.name, fields, unpack_where(command.where), kind=command.kind)
    later = change.next_of(present, table.name)
    arguments: dict[str, ArgumentValue] = {"definition": later.number, "index": command.name}
    if not command.fields:
        found = change.found_in(present)
        assert found is not None, f"the index {command.name} is there"
        return JobKind.DROP_INDEX, {**arguments, "number": found.number}
    more = {name: said for name, said in (("where", command.where), ("kind", command.kind)) if said}
    return JobKind.CREATE_INDEX, {**arguments, "number": later.history.last, "fields": command.fields, **more}


def goes_over_by(job: Job) -> str:
    """What a job does to a table, for a message."""
    what = (
        f"with schema {job.arguments['schema']}"
        if job.kind == JobKind.ALTER
        else f"{'with' if job.kind == JobKind.CREATE_INDEX else 'without'} the index {job.arguments['index']}"
    )
    return f"goes over to definition {job.arguments['definition']}, {what}, by job {job.id} ({job.state})"


def _changed_by(cluster: ClusterMap, table: TableEntry) -> str:
    """The job that gave the table its definition, as far as the map remembers it, for a message."""
    jobs = [
        job.id
        for job in cluster.jobs.values()
        if job.kind in DEFINITION_KINDS and job.arguments.get("table") == table.id
    ]
    return f" of job {max(jobs)}" if jobs else ""


def next_definition(cluster: ClusterMap, job: Job, number: int = 0) -> TableDefinition:
    """What the task of that number, which is not done, brings the table of its job. Raises `CommandRefused` where the
    map is beyond that task.
    """
    table = cluster.table(TableId(str(job.arguments["table"])))
    present = table.definition
    assert present is not None, f"job {job.id} alters table {table.name}, which has no definition"
    first = int(job.arguments["definition"])
    if present.number != (first if number else first - 1):
        raise CommandRefused(f"task {number} of job {job.id} is done: table {table.name} has {present.number} already")
    if job.kind == JobKind.ALTER:
        schema = int(job.arguments["schema"])
        return present.with_schema(NumberedSchema(schema, RowSchema.parse(cluster.schemas[schema])))
    index = int(job.arguments["number"])
    if job.kind == JobKind.DROP_INDEX or (number and job.arguments.get(_GIVEN_UP)):
        return present.without_index(index)
    if number:
        return present.with_index_served(index)
    name, fields = str(job.arguments["index"]), str(job.arguments["fields"]).split(",")
    if job.arguments.get("kind"):
        return present.with_text(name, fields)
    return present.with_index(name, fields, unpack_where(str(job.arguments.get("where", ""))))


def end_alter(cluster: ClusterMap, job: Job, number: int) -> ClusterMap:
    """Give the table what the barriers of a task, which are in the logs now, brought."""
    table = cluster.tables[job.tasks[number].table]
    return cluster.with_table(replace(table, definition=next_definition(cluster, job, number)))


def go_on_changing(cluster: ClusterMap, job: Job, done: Task) -> Job:
    """Give the building of an index its next tasks when it has none left. `done`: the task that has just ended."""
    if job.kind != JobKind.CREATE_INDEX or not job.tasks.all_finished or _is_ending(job):
        return job
    if any(task.state == "failed" for task in job.tasks):
        return job
    table = cluster.tables.get(done.table)
    if table is None:
        return job
    built = {(task.partition, task.node) for task in job.tasks if task.action == Action.INDEX and task.state == "done"}
    more = tuple(
        Task(Action.INDEX.value, table.id, partition, node)
        for partition in map(Partition, range(table.partitions))
        for node in table.readable(partition)
        if (partition, node) not in built
    ) or (_alter_task(table, done.node),)
    return replace(job, tasks=JobTasks((*job.tasks, *more)))


def check_given_up(job: Job) -> None:
    """Raise `CommandRefused` where a job has put, or may be putting, barriers into the logs."""
    if job.kind != JobKind.CREATE_INDEX or len(job.tasks) == 1 or _is_ending(job):
        raise CommandRefused(
            f"job {job.id} may have put barriers with the next definition into the log already: resume it, perhaps "
            "with another node"
        )


def given_up(job: Job) -> Job:
    """The job of an index that is being built and is not wanted any more: it goes on by taking the index away."""
    tasks = [task if task.state in ("done", "aborted") else replace(task, state="aborted") for task in job.tasks]
    tasks.append(replace(job.tasks[0], state="waiting", note=""))
    return replace(job, state="running", tasks=JobTasks(tasks), arguments={**job.arguments, _GIVEN_UP: 1})


def without_lost(cluster: ClusterMap, job: Job) -> Job:
    """The job of an index without the tasks of replicas that are not there any more."""
    for number, task in enumerate(job.tasks):
        if task.action == Action.INDEX and (task.state not in FINISHED or task.state == "failed"):
            table = cluster.tables.get(task.table)
            if table is not None and task.node not in table.readable(task.partition):
                note = f"node {task.node} holds no replica of {table.name}/{task.partition} any more"
                job = go_on_changing(cluster, job.with_task(number, replace(task, state="done", note=note)), task)
    return job


def _is_ending(job: Job) -> bool:
    """Has it its last task?"""
    return len(job.tasks) > 1 and job.tasks[-1].action == Action.ALTER


def _alter_task(table: TableEntry, node: str) -> Task:
    return Task(Action.ALTER.value, table.id, Partition(0), node)
