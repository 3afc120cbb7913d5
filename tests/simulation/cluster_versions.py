"""An operator of a simulated cluster who changes the versions of the table that clients use."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Final

from log_tier.catalog.cluster_map import EMPTY, ClusterMap, TableEntry
from log_tier.model.errors import DuramenError
from router.admin.client import AdminConnection
from router.admin.verbs import AdminChange, Clear, Discard, Rollback, Stage, Swap, TakeSnapshots, Trim
from simulation.cluster_builds import Builds
from simulation.cluster_jobs import checked_table, failed_version_job, newest_map
from simulation.cluster_trims import lose_indexes
from simulation.cluster_turns import ASK_S, begin, take_turn
from simulation.cluster_world import NODES, ClusterWorld
from simulation.plan import Plan

__all__ = ["change_versions", "has_versions"]

_BUILDS_CHANCE: Final = 0.3
_REHEARSAL_CHANCE: Final = 0.6
_LOSS_CHANCE: Final = 0.5
"""After a rehearsal, so often every index is lost at once: later snapshots hide what was wrong with earlier ones."""
_STEP_S: Final = 0.1
"""Between two looks whether a step of a rehearsal was done."""
_WORKS_CHANCE: Final = 0.35
_WORKS_WITH_TRIMS: Final = 0.7
"""In runs whose log gets shorter there is more that versions can lose, and snapshots to build some of."""


def has_versions(plan: Plan) -> bool:
    """Whether the versions of the table change in a plan's run."""
    return _chance(plan).random() <= (_WORKS_CHANCE if plan.trims is None else _WORKS_WITH_TRIMS)


def _chance(plan: Plan) -> random.Random:
    return random.Random(f"versions {plan.seed}")


async def change_versions(world: ClusterWorld, stop: asyncio.Event) -> None:
    """Stage, swap, roll back, discard and clear until `stop` is set, in some of the runs."""
    if not has_versions(world.plan):
        return
    chance = _chance(world.plan)
    builds = Builds(world)
    pause_s = chance.choice((0.1, 0.5, 1.0))
    clears = chance.choice((0.2, 0.8))
    data_sets = random.Random(f"data sets {world.plan.seed}")
    others = data_sets.choice((0.0, 0.2, 0.5))
    if world.plan.trims is not None and chance.random() < _REHEARSAL_CHANCE:
        await _rehearse(world, stop, chance, builds)
    while not stop.is_set():
        await asyncio.sleep(chance.random() * 2 * pause_s)
        table = checked_table(world)
        if table is None:
            continue
        if failed_version_job(world, table) is not None:
            await _mend(world, table, chance, "operator of versions")
            continue
        url = None
        builds.clean(newest_map(world), table)
        if world.plan.trims is not None and chance.random() < _BUILDS_CHANCE:
            url = await _built(builds, newest_map(world), table)
        elif data_sets.random() < others and not any(each.state == "staged" for each in table.versions):
            url = await _built_other(builds, table, f"{data_sets.choice(NODES)}:7070", data_sets)
        change, target = _next(table, chance, clears, url), f"{chance.choice(NODES)}:7070"
        await take_turn(
            world, "operator of versions", type(change).__name__.lower(), target, begin(world, target, change)
        )


async def _rehearse(world: ClusterWorld, stop: asyncio.Event, chance: random.Random, builds: Builds) -> None:
    """A build that turns out wrong: swapped in, rolled back from, discarded, deleted where it was built. Each step is
    begun again until the map says that it was done.
    """
    who, url = "operator of a rollback", ""

    def state() -> str:
        table = checked_table(world)
        found = () if table is None else tuple(each for each in table.versions if each.url == url)
        return found[0].state if found else ""

    async def until(reached: Callable[[], bool], change: Callable[[TableEntry], AdminChange]) -> bool:
        while not stop.is_set() and not reached():
            table, target = checked_table(world), f"{chance.choice(NODES)}:7070"
            if table is not None and failed_version_job(world, table) is not None:
                await _mend(world, table, chance, who)
            elif table is not None:
                turn = change(table)
                await take_turn(world, who, type(turn).__name__.lower(), target, begin(world, target, turn))
            await asyncio.sleep(_STEP_S)
        return not stop.is_set()

    def number(table: TableEntry) -> int:
        return next((each.number for each in table.versions if each.url == url), table.live_version)

    def buildable() -> bool:
        table = checked_table(world)
        return table is not None and builds.source(newest_map(world), table) is not None

    if not await until(buildable, lambda table: TakeSnapshots(table.name)):
        return
    table = checked_table(world)
    url = "" if table is None else await _built(builds, newest_map(world), table) or ""
    if not url or not await until(lambda: state() == "staged", lambda table: Stage(table.name, url)):
        return
    if not await until(lambda: state() == "live", lambda table: Swap(table.name, number(table))):
        return
    if not await until(lambda: state() == "kept", lambda table: Rollback(table.name)):
        return
    if await until(lambda: not state(), lambda table: Discard(table.name, number(table))):
        world.story.met["rollback rehearsed"] += 1
        table = checked_table(world)
        if table is not None:
            builds.clean(newest_map(world), table)
            target = f"{chance.choice(NODES)}:7070"
            await take_turn(world, who, "trim", target, begin(world, target, Trim(table.name)))
        if chance.random() < _LOSS_CHANCE:
            lose_indexes(world)


async def _mend(world: ClusterWorld, table: TableEntry, chance: random.Random, who: str) -> None:
    """Go on with the failed job that keeps all others from the versions, or abort it."""
    failed = failed_version_job(world, table)
    if failed is not None:
        verb, target = chance.choice(("resume", "abort")), f"{chance.choice(NODES)}:7070"
        await take_turn(world, who, verb, target, _go_on(target, verb, failed))


async def _go_on(target: str, verb: str, job: int) -> str:
    async with AdminConnection(target, timeout=ASK_S) as admin:
        return f"job {(await getattr(admin, verb)(job)).job}"


async def _built(builds: Builds, cluster: ClusterMap, table: TableEntry) -> str | None:
    try:
        return await builds.build(cluster, table)
    except DuramenError:  # a snapshot that was removed meanwhile
        return None


async def _built_other(builds: Builds, table: TableEntry, target: str, chance: random.Random) -> str | None:
    try:
        return await builds.build_other(table, target, chance)
    except DuramenError:  # a server that does not answer
        return None


def _next(table: TableEntry, chance: random.Random, clears: float, url: str | None) -> AdminChange:
    """What may be possible now: versions come before they go. `url`: of a new build."""
    if url is not None:
        return Stage(table.name, url)
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
