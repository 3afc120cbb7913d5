"""The two tasks of a version's way into service: being level with it, and the barriers."""

from __future__ import annotations

import hashlib
from typing import Final

from log_tier.catalog.version_fold import ended_by_swap, keep_of
from log_tier.concurrency.sized_work import run_sized
from log_tier.model.barrier import Barrier, barrier_batch
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import PartitionId
from log_tier.model.log import Log
from serving_tier.jobs.worker import TaskRun
from serving_tier.node.hosting import Hosting

__all__ = ["put_barriers", "stage_version"]

_PRODUCER: Final = "barrier"

# To make a barrier's batch takes some 30 µs.
_BATCH_ITEMS: Final = 10


async def stage_version(run: TaskRun, hosting: Hosting) -> str:
    """Return when this node's replica is level with the job's version; `Staging` brings it, as the map says.

    Raises the last trouble of `Staging`: the job then fails, and `Staging` tries on while the map has the version.
    """
    name, number = run.task.partition_id, int(run.job.arguments["version"])
    await hosting.wait_version(run.cluster.version)
    await hosting.staging.wait_level(name, number, run.progress)
    return f"level with version {number}"


async def put_barriers(run: TaskRun, log: Log) -> str:
    """Put a barrier into the log of every partition, in one call: on the embedded log that is one sync for all.

    The next attempt, here or at another node, writes the same batches of the same producer: second copies are void
    (J1).
    """
    number = int(run.job.arguments["version"])
    table = run.cluster.table(run.task.table)
    version = table.version(number)
    ended = ended_by_swap(table, number, keep_of(run.job.arguments))
    barrier = Barrier(number, run.job.id, "" if version is None else version.url, ended)
    run.progress("putting barriers", 0, table.partitions)

    def batches() -> list[tuple[PartitionId, bytes]]:
        parts = []
        for partition in table.partition_ids():
            name = f"{_PRODUCER} {table.id} {partition.partition} {run.job.id}".encode()
            producer_id = (int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little") >> 1) | 1
            parts.append((partition, barrier_batch(barrier, producer_id=producer_id, sequence=0)))
        return parts

    results = await log.append_many(await run_sized(_BATCH_ITEMS * table.partitions, batches))
    for result in results:
        if isinstance(result, DuramenError):
            raise result
    offsets = ", ".join(str(result.base_offset) for result in results if not isinstance(result, DuramenError))
    return f"version {number} from the offsets {offsets} on"
