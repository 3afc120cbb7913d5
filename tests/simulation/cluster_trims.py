"""An operator of a simulated cluster who lets its log get shorter: by trims, compactions and retention, and who takes
the snapshots for it.
"""

from __future__ import annotations

import asyncio
import random
from typing import Final

from log_tier.catalog.actions import JobKind
from router.admin.client import AdminConnection
from router.admin.verbs import AdminChange, Compact, TakeSnapshots, Trim
from simulation.cluster_jobs import checked_table, newest_map
from simulation.cluster_turns import ASK_S, begin, take_turn
from simulation.cluster_world import NODES, ClusterWorld
from simulation.plan import Plan

__all__ = ["change_logs", "compacts", "lose_indexes", "secure_rollbacks"]

_VERBS: Final = ("snapshots", "snapshots", "trim", "trim", "retention")
_COMPACTS_CHANCE: Final = 0.5
_LOSS_CHANCE: Final = 0.4
"""After a trim or a compaction was begun, so often every index is lost a little later: later snapshots hide what it
took too much."""
_LOSS_AFTER_S: Final = 1.0
"""At most."""


def compacts(plan: Plan) -> bool:
    """Is the log of a run compacted? A watch that comes later need not see what was replaced."""
    return plan.trims is not None and random.Random(f"compactions {plan.seed}").random() < _COMPACTS_CHANCE


async def change_logs(world: ClusterWorld, stop: asyncio.Event) -> None:
    """Take snapshots, trim, compact and change the retention until `stop` is set, in the runs whose plan has trims."""
    trims = world.plan.trims
    if trims is None:
        return
    chance = random.Random(f"operator of logs {world.plan.seed}")
    verbs = (*_VERBS, "compact", "compact") if compacts(world.plan) else _VERBS
    while not stop.is_set():
        await asyncio.sleep(chance.random() * 2 * trims.pause_s)
        table = checked_table(world)
        if table is None:
            continue
        verb, target = chance.choice(verbs), f"{chance.choice(NODES)}:7070"
        if verb == "retention":
            ms, size = chance.choice((0, trims.retention_ms)), chance.choice((0, trims.retention_bytes))
            begun = _retain(target, table.name, ms, size)
        else:
            changes: dict[str, AdminChange] = {
                "snapshots": TakeSnapshots(table.name),
                "trim": Trim(table.name),
                "compact": Compact(table.name),
            }
            begun = begin(world, target, changes[verb])
        await take_turn(world, "operator of logs", verb, target, begun)
        if verb in ("trim", "compact") and chance.random() < _LOSS_CHANCE:
            await asyncio.sleep(chance.random() * _LOSS_AFTER_S)
            if _is_covered(world):
                lose_indexes(world)


def _is_covered(world: ClusterWorld) -> bool:
    cluster, table = newest_map(world), checked_table(world)
    return table is not None and all(cluster.covering(place) is not None for place in table.partition_ids())


async def _retain(target: str, table: str, ms: int, size: int) -> str:
    async with AdminConnection(target, timeout=ASK_S) as admin:
        await admin.set_retention(table, ms=ms, size=size)
        return f"{ms} ms, {size} bytes"


async def secure_rollbacks(world: ClusterWorld) -> None:
    """Begin to take the snapshots that a rollback asks for: what it brought back may be in the replicas alone, as the
    log was trimmed since. Nothing is begun in a run without rollbacks, whose table can be restored as it is.
    """
    cluster, table = newest_map(world), checked_table(world)
    if table is None or not any(job.kind == JobKind.ROLLBACK for job in cluster.jobs.values()):
        return
    if not _is_covered(world):
        target = f"{NODES[0]}:7070"
        begun = begin(world, target, TakeSnapshots(table.name))
        await take_turn(world, "operator of logs", "snapshots of a rollback", target, begun)


def lose_indexes(world: ClusterWorld) -> None:
    """Every node is killed and loses its indexes: what the log does not hold must come from snapshots, for there is no
    peer that has it.
    """
    world.story.tell("world", "every node loses its indexes")
    for name in NODES:
        world.keeps[name] = False
        world.processes[name].end(politely=False)
