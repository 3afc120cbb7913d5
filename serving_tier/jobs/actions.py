"""The actions of a node, one for each kind of task. Every action may be begun again from its beginning (J1)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from log_tier.catalog.actions import Action
from log_tier.model.errors import InvalidRequest, OffsetTrimmed
from log_tier.model.identifiers import Offset
from log_tier.model.log import Log
from serving_tier.jobs.altering import put_definition
from serving_tier.jobs.indexing import build_index
from serving_tier.jobs.log_end import reach_log_end
from serving_tier.jobs.point_in_time import copy_partition
from serving_tier.jobs.snapshotting import NodeSnapshots
from serving_tier.jobs.swapping import put_barriers, stage_version
from serving_tier.jobs.worker import DoTask, TaskRun
from serving_tier.node.hosting import Hosting

__all__ = ["node_actions"]


def node_actions(log: Log, hosting: Hosting, snapshots: NodeSnapshots | None) -> Mapping[str, DoTask]:
    """The actions of a node; `snapshots` None: it has no snapshot store."""

    async def move(run: TaskRun) -> str:
        """The target's side. The replica itself is brought up by `Hosting`, which sees the assignment as well.

        The source may leave as soon as the target is a member of the map. Nobody has to wait for the routers' maps: a
        router that still asks the source gets `NotHosted`, waits for the newer map and asks the target, in one call.
        """
        name = run.task.partition_id
        source = await hosting.wait_ready(name, run.progress)
        await run.ready()
        return f"came from {source}"

    async def add(run: TaskRun) -> str:
        return f"came from {await hosting.wait_ready(run.task.partition_id, run.progress)}"

    async def rebuild(run: TaskRun) -> str:
        wanted = str(run.task.arguments.get("source", "auto"))
        name = run.task.partition_id
        return f"came from {await hosting.rebuild(name, source=wanted, progress=run.progress)}"

    async def snapshot(run: TaskRun) -> str:
        store = _store(snapshots)
        replica = hosting.node.replica(run.task.partition_id)
        await reach_log_end(run, replica, needed="who asks for a snapshot has in it what was acknowledged before")
        entry = await store.take(replica, progress=run.progress)
        return f"{entry.path} at offset {entry.offset}"

    async def trim(run: TaskRun) -> str:
        before = _allowed(run, "before")
        run.progress("trimming")
        earliest = await log.trim(run.task.partition_id, before)
        return f"the log begins at {earliest}"

    async def compact(run: TaskRun) -> str:
        below = _allowed(run, "below")
        _check_bytes(run)
        run.progress("compacting")
        dropped = await log.compact(run.task.partition_id, below)
        return f"{dropped} records were dropped"

    async def copy(run: TaskRun) -> str:
        return await copy_partition(run, log, hosting, snapshots)

    async def stage(run: TaskRun) -> str:
        return await stage_version(run, hosting)

    return {
        Action.STAGE: stage,
        Action.ALTER: partial(put_definition, log=log),
        Action.INDEX: partial(build_index, hosting=hosting),
        Action.SWAP: lambda run: put_barriers(run, log),
        Action.MOVE: move,
        Action.ADD: add,
        Action.REBUILD: rebuild,
        Action.SNAPSHOT: snapshot,
        Action.TRIM: trim,
        Action.COMPACT: compact,
        Action.COPY: copy,
    }


def _store(snapshots: NodeSnapshots | None) -> NodeSnapshots:
    if snapshots is None:
        raise InvalidRequest("this node has no snapshot store: set `snapshots` in its configuration and restart it")
    return snapshots


def _check_bytes(run: TaskRun) -> None:
    if run.cluster.table(run.task.partition_id.table).definition is not None:
        raise InvalidRequest(
            f"the log of {run.task.table} is not compacted: the table has a definition, and records that do not fit it "
            "would cover older ones that do"
        )


def _allowed(run: TaskRun, argument: str) -> Offset:
    """The offset up to which the log may lose records (J4): nothing beyond the newest snapshot."""
    wanted = Offset(int(run.task.arguments[argument]))
    newest = run.cluster.covering(run.task.partition_id)
    covered = 0 if newest is None else newest.offset + 1
    if wanted > covered:
        raise OffsetTrimmed(
            f"{argument} {wanted} of {run.task.table}/{run.task.partition} is beyond what a snapshot covers "
            f"({covered}): take a snapshot first (`duramen admin snapshot`)",
            asked=wanted,
            earliest=covered,
        )
    return wanted
