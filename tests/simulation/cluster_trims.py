"""An operator of a simulated cluster who lets its log get shorter: snapshots, trims, and the retention of the table."""

from __future__ import annotations

import asyncio
import random
from typing import Final

from router.admin.client import AdminConnection
from router.admin.verbs import TakeSnapshots, Trim
from simulation.cluster_jobs import checked_table
from simulation.cluster_turns import ASK_S, begin, take_turn
from simulation.cluster_world import NODES, ClusterWorld

__all__ = ["change_logs", "lose_indexes"]

_VERBS: Final = ("snapshots", "snapshots", "trim", "trim", "retention")


async def change_logs(world: ClusterWorld, stop: asyncio.Event) -> None:
    """Take snapshots, trim and change the retention until `stop` is set, in the runs whose plan has trims."""
    trims = world.plan.trims
    if trims is None:
        return
    chance = random.Random(f"operator of logs {world.plan.seed}")
    while not stop.is_set():
        await asyncio.sleep(chance.random() * 2 * trims.pause_s)
        table = checked_table(world)
        if table is None:
            continue
        verb, target = chance.choice(_VERBS), f"{chance.choice(NODES)}:7070"
        if verb == "retention":
            ms, size = chance.choice((0, trims.retention_ms)), chance.choice((0, trims.retention_bytes))
            begun = _retain(target, table.name, ms, size)
        else:
            begun = begin(target, TakeSnapshots(table.name) if verb == "snapshots" else Trim(table.name))
        await take_turn(world, "operator of logs", verb, target, begun)


async def _retain(target: str, table: str, ms: int, size: int) -> str:
    async with AdminConnection(target, timeout=ASK_S) as admin:
        await admin.set_retention(table, ms=ms, size=size)
        return f"{ms} ms, {size} bytes"


def lose_indexes(world: ClusterWorld) -> None:
    """Every node is killed and loses its indexes: what the log does not hold must come from snapshots, for there is no
    peer that has it.
    """
    world.story.tell("world", "every node loses its indexes")
    for name in NODES:
        world.keeps[name] = False
        world.processes[name].end(politely=False)
