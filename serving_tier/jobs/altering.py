"""A table's next definition: begun with the catalog, and put into the log of each partition by a node.

    alter-table (the schema has its number) ──▶ barriers in every partition ──▶ task-done (the table has the definition)

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

from log_tier.catalog.actions import JobKind
from log_tier.catalog.catalog import Catalog
from log_tier.catalog.cluster_map import ClusterMap, TableEntry
from log_tier.catalog.commands import ResumeJob
from log_tier.catalog.version_fold import next_definition, versions_job
from log_tier.concurrency.sized_work import run_sized
from log_tier.model.barrier import Barrier, barrier_batch
from log_tier.model.errors import CommandRejected, DeadlineExceeded, DuramenError, Unavailable
from log_tier.model.identifiers import PartitionId, TableId
from log_tier.model.log import Log
from log_tier.rows.alter_table import AlterTable, SchemaChange
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
    definition = next_definition(run.cluster, run.job)
    barrier = Barrier(table.live_version, run.job.id, definition=definition.text)
    run.progress("putting barriers", 0, table.partitions)

    def batches() -> list[tuple[PartitionId, bytes]]:
        return [(partition, _batch(barrier, table, partition)) for partition in table.partition_ids()]

    results = await log.append_many(await run_sized(_BATCH_ITEMS * table.partitions, batches))
    for result in results:
        if isinstance(result, DuramenError):
            raise result
    offsets = ", ".join(str(result.base_offset) for result in results if not isinstance(result, DuramenError))
    return f"definition {definition.number} from the offsets {offsets} on"


def _batch(barrier: Barrier, table: TableEntry, partition: PartitionId) -> bytes:
    name = f"{_PRODUCER} {table.id} {partition.partition} {barrier.job}".encode()
    producer_id = (int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little") >> 1) | 1
    return barrier_batch(barrier, producer_id=producer_id, sequence=0)


async def alter_table(catalog: Catalog, table_id: TableId, change: SchemaChange, choose: ChooseNode) -> TableEntry:
    """Bring a table its next definition; return when every partition has it.

    Asked again, it goes on where it stood; a schema that is the table's newest changes nothing. Raises `InvalidSchema`
    with the field and the reason, `InvalidRequest` for a table without rows, `CommandRejected` where another change is
    under way or came first, which it names, `Unavailable` where the job has failed, and `TableNotFound`.
    """
    cluster = await catalog.refresh()
    table = cluster.table(table_id)
    running = versions_job(cluster, table_id)
    if running is not None and running.kind == JobKind.ALTER:
        if cluster.schemas[int(running.arguments["schema"])] != change.schema.text:
            raise CommandRejected(
                f"table {table.name} goes over to definition {running.arguments['definition']}, with schema "
                f"{running.arguments['schema']}, by job {running.id} ({running.state}): look at what it has then, and "
                "ask again",
                version=cluster.version,
            )
        job = running.id
        node = choose(table, running.tasks[0].node)
        if node and (running.state == "failed" or node != running.tasks[0].node):
            await catalog.submit(ResumeJob(job, {"0": node}))
    else:
        definition = table.definition
        if definition is not None and definition.schemas and definition.schemas[-1].schema == change.schema:
            return table
        await asyncio.to_thread(change.check, definition, table.name)
        assert definition is not None, f"table {table.name} has rows"
        node = choose(table, "")
        if not node:
            raise Unavailable(f"no node is there that could alter table {table.name}: start one, and ask again")
        command = AlterTable(table_id, change.after or definition.number, change.schema.text, node)
        job, _ = await catalog.submit(command)
    cluster = await _ended(catalog, table_id, job, choose)
    table = cluster.table(table_id)
    if job in cluster.jobs and cluster.jobs[job].state != "done":
        raise Unavailable(
            f"table {table.name} is not altered yet, its job {job} has failed: {cluster.jobs[job].tasks[0].note}; ask "
            "again, which takes it up again"
        )
    return table


async def _ended(catalog: Catalog, table_id: TableId, job: int, choose: ChooseNode) -> ClusterMap:
    """The map in which the job is not running any more. Where its node goes away meanwhile, another one goes on."""
    while True:
        with suppress(DeadlineExceeded):
            return await catalog.wait_for(
                lambda now: job not in now.jobs or now.jobs[job].state != "running", timeout=_LOOK_S
            )
        table, present = catalog.map.tables.get(table_id), catalog.map.jobs.get(job)
        if table is not None and present is not None and present.state == "running":
            node = choose(table, present.tasks[0].node)
            if node and node != present.tasks[0].node:
                with suppress(CommandRejected):  # it has just ended, or somebody else was first
                    await catalog.submit(ResumeJob(job, {"0": node}))
