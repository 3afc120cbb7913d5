"""An operator of a simulated cluster who changes the versions of the table that clients use."""

from __future__ import annotations

import asyncio
import random
from typing import Final

from log_tier.catalog.cluster_map import EMPTY, TableEntry
from router.admin.client import AdminConnection
from router.admin.verbs import AdminChange, Clear, Discard, Rollback, Stage, Swap
from simulation.cluster_jobs import checked_table, failed_version_job
from simulation.cluster_turns import ASK_S, begin, take_turn
from simulation.cluster_world import NODES, ClusterWorld

__all__ = ["change_versions"]

_WORKS_CHANCE: Final = 0.35


async def change_versions(world: ClusterWorld, stop: asyncio.Event) -> None:
    """Stage, swap, roll back, discard and clear until `stop` is set, in some of the runs."""
    chance = random.Random(f"versions {world.plan.seed}")
    if chance.random() > _WORKS_CHANCE:
        return
    pause_s = chance.choice((0.1, 0.5, 1.0))
    clears = chance.choice((0.2, 0.8))
    while not stop.is_set():
        await asyncio.sleep(chance.random() * 2 * pause_s)
        table = checked_table(world)
        if table is None:
            continue
        target = f"{chance.choice(NODES)}:7070"
        failed = failed_version_job(world, table)
        if failed is not None:
            # A failed job keeps all others from the versions.
            verb = chance.choice(("resume", "abort"))
            begun = _go_on(target, verb, failed)
        else:
            change = _next(table, chance, clears)
            verb, begun = type(change).__name__.lower(), begin(target, change)
        await take_turn(world, "operator of versions", verb, target, begun)


async def _go_on(target: str, verb: str, job: int) -> str:
    async with AdminConnection(target, timeout=ASK_S) as admin:
        return f"job {(await getattr(admin, verb)(job)).job}"


def _next(table: TableEntry, chance: random.Random, clears: float) -> AdminChange:
    """What may be possible now: versions come before they go."""
    if chance.random() < clears / 2:
        return Clear(table.name, keep=chance.choice((0, 1, 2)))
    staged = [each.number for each in table.versions if each.state == "staged"]
    kept = [each.number for each in table.versions if each.state == "kept"]
    possible: list[AdminChange] = [Stage(table.name, EMPTY)] if len(staged) < 2 else []
    if staged:
        possible += [Swap(table.name, keep=chance.choice((None, 0, 2)))] * 3
    if kept:
        possible += [Rollback(table.name, chance.choice((None, chance.choice(kept))))] * 2
    if staged or kept:
        possible.append(Discard(table.name, chance.choice([*staged, *kept])))
    return chance.choice(possible)
