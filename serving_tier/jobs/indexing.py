"""An ordered index is built on a replica: the rows of before its barrier go in, piece by piece, between the applies.

The replica has passed the barrier from which on rows that change have their entries. A piece is one transaction, which
also says how far it came: a process that dies goes on there. Nothing waits for a build: writes go into the log, the
replica applies between two pieces, and finds by other indexes are answered. Other versions that are level with the live
one are built with it.
"""

from __future__ import annotations

from typing import Final

from log_tier.model.errors import ReplicaBehind
from serving_tier.jobs.worker import TaskRun
from serving_tier.node.hosting import Hosting
from serving_tier.replica.replica import Replica

__all__ = ["ROWS_AT_ONCE", "build_index"]

ROWS_AT_ONCE: Final = 1000
"""Of one piece, some 8 ms: an apply that comes meanwhile waits for it."""


async def build_index(run: TaskRun, hosting: Hosting) -> str:
    """Return when this node's replica holds the index of the job whole.

    Raises `LimitExceeded` for a row that is too long for it, `ReplicaBehind` where the replica is not at the barrier
    yet, `DiskFull`, `NotHosted`.
    """
    replica = hosting.node.replica(run.task.partition_id)
    number = int(run.job.arguments["number"])
    await _reach_the_barrier(run, replica)
    pieces = 0
    while await replica.versions.build_some(ROWS_AT_ONCE):
        pieces += 1
        run.progress("building", pieces * ROWS_AT_ONCE, replica.index.count())
    replica.check_open()
    return f"the index {run.job.arguments['index']} is whole: {replica.index.count()} rows; its number is {number}"


async def _reach_the_barrier(run: TaskRun, replica: Replica) -> None:
    """The barrier was put into the log before the task began."""
    run.progress("waiting for the barrier")
    if run.through is None:
        run.through = await replica.progress.log_end()
    try:
        await replica.wait_applied(run.through, timeout=run.wait_s)
    except ReplicaBehind as error:
        raise ReplicaBehind(
            f"replica {replica.name} has applied {replica.applied}, and the index is built from the log's end at "
            f"{run.through} on: see what keeps the replica behind (`duramen admin lag`), then resume the job (`duramen "
            f"admin resume {run.job.id}`)",
            **error.fields,
        ) from error
