"""An ordered index is built on a replica: the rows of before its barrier go in, piece by piece, between the applies.

The replica has passed the barrier from which on rows that change have their entries. A piece is one transaction, which
also says how far it came: a process that dies goes on there. Nothing waits for a build: writes go into the log, the
replica applies between two pieces, and finds by other indexes are answered. Other versions that are level with the live
one are built with it.
"""

from __future__ import annotations

from typing import Final

from log_tier.model.errors import ReplicaBehind
from serving_tier.jobs.log_end import reach_log_end
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
    # The barrier was put into the log before the task began.
    await reach_log_end(run, replica, needed="the index is built from its barrier on, which is there")
    if run.job.arguments.get("kind"):
        return await _build_text(run, hosting, replica, number)
    pieces = 0
    while await replica.versions.build_some(ROWS_AT_ONCE):
        pieces += 1
        run.progress("building", pieces * ROWS_AT_ONCE, replica.index.count())
    replica.check_open()
    return f"the index {run.job.arguments['index']} is whole: {replica.index.count()} rows; its number is {number}"


async def _build_text(run: TaskRun, hosting: Hosting, replica: Replica, number: int) -> str:
    """Return when this node's text index has all rows. Raises `InvalidRequest` where the node has no tantivy."""
    with replica.reading() as index:
        text = next((each for each in index.definition_now().texts if each.number == number), None)
    if text is None:
        raise ReplicaBehind(f"{replica.name} has not come to the barrier of the text index {number} yet")
    run.progress("building", 0, replica.index.count())
    offset = await hosting.node.texts.wait_built(replica, text)
    return f"the text index {text.name} has all rows at offset {offset}; its number is {number}"
