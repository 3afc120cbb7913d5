"""A table's next definition: begun with the catalog, and put into the log of each partition by a node.

    alter-table (the schema has its number) ──▶ barriers in every partition ──▶ task-done (the table has the definition)

    alter-indexes ──▶ barriers ──▶ task-done ──▶ each replica builds (`indexing.py`) ──▶ barriers ──▶ in service

A process that dies at any step leaves a job that goes on where it stood: the next attempt, here or at another node,
writes the same barriers of the same producer, and second copies are void (J1). Until the job is done, the catalog shows
the definition of before, so nobody writes by the next one in front of its barrier.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from log_tier.catalog.actions import Action, JobKind
from log_tier.catalog.catalog import Catalog
from log_tier.catalog.cluster_map import ClusterMap, TableEntry
from log_tier.catalog.commands import AbortJob, ResumeJob
from log_tier.catalog.decisions import CommandRefused
from log_tier.catalog.definition_fold import goes_over_by, next_definition
from log_tier.catalog.jobs import Job
from log_tier.catalog.version_fold import DEFINITION_KINDS, versions_job
from log_tier.concurrency.sized_work import run_sized
from log_tier.model.barrier import Barrier, barrier_batch
from log_tier.model.errors import ERRORS, CommandRejected, DeadlineExceeded, DuramenError, InvalidRequest, Unavailable
from log_tier.model.identifiers import PartitionId, TableId
from log_tier.model.log import Log
from log_tier.rows.alter_table import AlterCommand, AlterIndexes, AlterTable, IndexChange, SchemaChange, TableChange
from log_tier.rows.table_index import pack_where
from serving_tier.jobs.worker import TaskRun

__all__ = ["ChooseNode", "alter_table", "put_definition"]

_PRODUCER: Final = "definition"

# To make a barrier's batch takes some 50 µs, and 1 ms with a definition of many schemas.
_BATCH_ITEMS: Final = 100

# How often a caller who waits looks whether the node that does the work is still there.
_LOOK_S: Final = 1.0

ChooseNode = Callable[[TableEntry, str], str]
"""Which node does the work for a table: the named one if it may be there, else another one. Empty: none is there."""


async def put_definition(run: TaskRun, log: Log) -> str:
    """Put a barrier with the next definition into the log of every partition, in one call."""
    table = run.cluster.table(run.task.table)
    try:
        definition = next_definition(run.cluster, run.job, run.number)
    except CommandRefused as refused:  # another node was faster
        raise CommandRejected(str(refused)) from refused
    barrier = Barrier(table.live_version, run.job.id, definition=definition.text)
    run.progress("putting barriers", 0, table.partitions)

    def batches() -> list[tuple[PartitionId, bytes]]:
        return [(partition, _batch(barrier, table, partition, run.number)) for partition in table.partition_ids()]

    results = await log.append_many(await run_sized(_BATCH_ITEMS * table.partitions, batches))
    for result in results:
        if isinstance(result, DuramenError):
            raise result
    offsets = ", ".join(str(result.base_offset) for result in results if not isinstance(result, DuramenError))
    return f"definition {definition.number} from the offsets {offsets} on"


def _batch(barrier: Barrier, table: TableEntry, partition: PartitionId, task: int) -> bytes:
    step = f" {task}" if task else ""
    name = f"{_PRODUCER} {table.id} {partition.partition} {barrier.job}{step}".encode()
    producer_id = (int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little") >> 1) | 1
    return barrier_batch(barrier, producer_id=producer_id, sequence=0)


async def alter_table(catalog: Catalog, table_id: TableId, change: TableChange, choose: ChooseNode) -> TableEntry:
    """Bring a table its next definition; return when every partition has it, and an index is in service.

    Asked again, it goes on where it stood; a schema that is the table's newest changes nothing, and neither does an
    index that is there. Raises `InvalidSchema` with the field and the reason, `InvalidRequest` for a table without
    rows, `CommandRejected` where another change is under way or came first, which it names, `Unavailable` where the job
    has failed, and `TableNotFound`.
    """
    cluster = await catalog.refresh()
    table = cluster.table(table_id)
    running = versions_job(cluster, table_id)
    if running is not None and running.kind in DEFINITION_KINDS:
        if _gives_up(change, running):
            return await _given_up(catalog, table, running, choose)
        if not _is_same(cluster, change, running):
            raise CommandRejected(
                f"table {table.name} {goes_over_by(running)}: look at what it has then, and ask again",
                version=cluster.version,
            )
        job = running.id
        node = choose(table, running.tasks[-1].node)
        if running.state == "failed" or (node and node != running.tasks[-1].node):
            await catalog.submit(ResumeJob(job, _moved(running, node)))
    else:
        command = await _command(table, change, choose)
        if command is None:
            return table
        job, _ = await catalog.submit(command)
    cluster = await _ended(catalog, table_id, job, choose)
    table = cluster.table(table_id)
    if job in cluster.jobs and cluster.jobs[job].state != "done":
        note = next((task.note for task in cluster.jobs[job].tasks if task.state == "failed"), "it was given up")
        code, _, why = note.partition(": ")
        kind = ERRORS.get(code)
        if kind is not None and issubclass(kind, InvalidRequest):  # the same again fails again
            raise kind(f"table {table.name} is not altered yet, its job {job} has failed: {why}")
        raise Unavailable(
            f"table {table.name} is not altered yet, its job {job} has failed: {note}; ask again, which takes it up "
            "again"
        )
    return table


async def _command(table: TableEntry, change: TableChange, choose: ChooseNode) -> AlterCommand | None:
    """The command that begins a change; None: the table has it already. Raises as `alter_table`."""
    definition = table.definition
    if isinstance(change, IndexChange):
        if definition is not None and change.fields and change.found_in(definition) is not None:
            return None
        await asyncio.to_thread(change.next_of, definition, table.name)
    else:
        if definition is not None and definition.schemas and definition.schemas[-1].schema == change.schema:
            return None
        await asyncio.to_thread(change.check, definition, table.name)
    assert definition is not None, f"table {table.name} has rows"
    node = choose(table, "")
    if not node:
        raise Unavailable(f"no node is there that could alter table {table.name}: start one, and ask again")
    if isinstance(change, IndexChange):
        fields, where = ",".join(change.fields), pack_where(change.where)
        return AlterIndexes(table.id, definition.number, change.name, fields, node, where, change.kind)
    return AlterTable(table.id, change.after or definition.number, change.schema.text, node)


def _is_same(cluster: ClusterMap, change: TableChange, running: Job) -> bool:
    """Does a job do what is asked for?"""
    arguments = running.arguments
    if isinstance(change, SchemaChange):
        return running.kind == JobKind.ALTER and cluster.schemas[int(arguments["schema"])] == change.schema.text
    if running.kind != (JobKind.CREATE_INDEX if change.fields else JobKind.DROP_INDEX):
        return False
    asked = (change.name, ",".join(change.fields), pack_where(change.where), change.kind)
    had = (arguments["index"], arguments.get("fields", ""), arguments.get("where", ""), arguments.get("kind", ""))
    return had == asked


def _gives_up(change: TableChange, running: Job) -> bool:
    """Is an index to be dropped that is still being built?"""
    return (
        isinstance(change, IndexChange)
        and not change.fields
        and running.kind == JobKind.CREATE_INDEX
        and running.arguments["index"] == change.name
    )


async def _given_up(catalog: Catalog, table: TableEntry, running: Job, choose: ChooseNode) -> TableEntry:
    """Give up the building of an index; return when the table is without it."""
    with suppress(CommandRejected):  # its barriers are on their way: it is taken away, or put into service
        await catalog.submit(AbortJob(running.id))
    present = catalog.map.jobs.get(running.id)
    if present is not None and present.state == "failed":
        await catalog.submit(ResumeJob(running.id, {}))
    cluster = await _ended(catalog, table.id, running.id, choose)
    after, drop = cluster.table(table.id), IndexChange(str(running.arguments["index"]))
    if after.definition is not None and drop.found_in(after.definition) is not None:
        return await alter_table(catalog, table.id, drop, choose)
    return after


def _moved(job: Job, node: str) -> dict[str, str]:
    """The tasks that put barriers, of those that are not done, at this node."""
    last = len(job.tasks) - 1
    return {str(last): node} if node and job.tasks[last].action == Action.ALTER else {}


async def _ended(catalog: Catalog, table_id: TableId, job: int, choose: ChooseNode) -> ClusterMap:
    """The map in which the job is not running any more. Where its node goes away meanwhile, another one goes on."""
    while True:
        with suppress(DeadlineExceeded):
            return await catalog.wait_for(
                lambda now: job not in now.jobs or now.jobs[job].state != "running", timeout=_LOOK_S
            )
        table, present = catalog.map.tables.get(table_id), catalog.map.jobs.get(job)
        if table is not None and present is not None and present.state == "running":
            last = present.tasks[-1]
            node = choose(table, last.node)
            moved = _moved(present, node) if node != last.node else {}
            if moved or _has_lost(table, present):
                with suppress(CommandRejected):  # it has just ended, or somebody else was first
                    await catalog.submit(ResumeJob(job, moved))


def _has_lost(table: TableEntry, job: Job) -> bool:
    """Does a task wait for a replica that is not there any more?"""
    return any(
        task.action == Action.INDEX and task.node not in table.readable(task.partition)
        for _, task in job.tasks.unfinished()
    )
