"""An operator's work on a simulated cluster: jobs on the table that clients use, and tables that come and go."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Iterator
from typing import Any, Final

from duramen import aio
from log_tier.catalog.cluster_map import ClusterMap, TableEntry
from log_tier.catalog.jobs import Job, Task
from log_tier.catalog.version_fold import versions_job
from log_tier.model.errors import IndexDamaged, SnapshotDamaged
from log_tier.model.identifiers import Partition
from router.admin.verbs import AdminChange, Move, Rebalance, RestoreNode, SetReplicas, TakeSnapshots
from router.endpoints.resp.data.served_tables import DEFAULT_TABLE
from simulation.cluster_turns import ASK_S, begin, take_turn
from simulation.cluster_world import NODES, ClusterWorld

__all__ = [
    "bugs",
    "checked_table",
    "damages",
    "failed_version_job",
    "finish_drops",
    "maps_differ",
    "newest_map",
    "under_way",
    "unfinished",
    "work",
]

_DAMAGED: Final = tuple(f"{each.code}: " for each in (IndexDamaged, SnapshotDamaged))
_WORKS_CHANCE: Final = 0.6
"""Of the runs, so many have an operator: the others are quicker to search."""
_VERBS: Final = ("snapshot", "move", "restore", "rebalance", "replicas", "table")


async def work(world: ClusterWorld, stop: asyncio.Event) -> None:
    """Begin jobs until `stop` is set. Which ones there are is drawn first."""
    chance = random.Random(f"jobs {world.plan.seed}")
    if chance.random() > _WORKS_CHANCE:
        return
    possible = [verb for verb in _VERBS if chance.random() < 0.5] or ["move"]
    pause_s = chance.choice((0.3, 1.0))
    made = 0
    while not stop.is_set():
        await asyncio.sleep(chance.random() * 2 * pause_s)
        verb, target = chance.choice(possible), f"{chance.choice(NODES)}:7070"
        if verb == "table":
            made += 1
            begun = _table(world, target, f"other{made // 2 % 2}", drop=bool(made % 2 == 0))
        elif (change := _change(world, verb, chance)) is None:
            continue
        else:
            begun = begin(world, target, change)
        await take_turn(world, "operator", verb, target, begun)


async def _table(world: ClusterWorld, target: str, name: str, *, drop: bool) -> str:
    async with await aio.connect(target, timeout=ASK_S) as database:
        if drop:
            world.drops.add(name)
            await database.drop_table(name)
            world.drops.discard(name)
        else:
            table = await database.create_table(name, partitions=2)
            await table.put(b"key", b"value")
    return "done"


async def finish_drops(world: ClusterWorld) -> None:
    """Repeat the drops that failed: such a table may have lost its log and still be in the catalog."""
    while any(newest_map(world).named(name) is not None for name in world.drops):
        await asyncio.sleep(1.0)
        for name in sorted(world.drops):
            again = _table(world, "router:7070", name, drop=True)
            await take_turn(world, "operator", "drop again", "router:7070", again)


def _change(world: ClusterWorld, verb: str, chance: random.Random) -> AdminChange | None:
    table = checked_table(world)
    if table is None:
        return None
    partition = Partition(chance.randrange(table.partitions))
    source = chance.choice(table.readable(partition) or NODES)
    if verb == "move":
        free = [name for name in NODES if name not in table.readable(partition)]
        return Move(table.name, partition, source, chance.choice(free or NODES))
    changes: dict[str, Any] = {
        "snapshot": TakeSnapshots(table.name),
        "restore": RestoreNode(chance.choice(NODES)),
        "rebalance": Rebalance(),
        "replicas": SetReplicas(table.name, chance.choice((1, 2, 3))),
    }
    return changes[verb]  # type: ignore[no-any-return]


def checked_table(world: ClusterWorld) -> TableEntry | None:
    """The table that clients use, by the newest map that has it."""
    found = [table for each in _maps(world) for table in each.tables.values() if _is_checked(table.name)]
    return found[0] if found else None


def _is_checked(name: str) -> bool:
    return name == DEFAULT_TABLE or name.startswith("check-")


def _maps(world: ClusterWorld) -> list[ClusterMap]:
    """The maps of the nodes and the router that live, the newest first."""
    return sorted((each.map for each in world.catalogs.values()), key=lambda each: -each.version)


def newest_map(world: ClusterWorld) -> ClusterMap:
    """The newest map that anybody has; an empty one where nobody lives."""
    return next(iter(_maps(world)), ClusterMap())


def failed_version_job(world: ClusterWorld, table: TableEntry) -> int | None:
    """The job that has failed and keeps others from the table's versions."""
    for each in _maps(world)[:1]:
        job = versions_job(each, table.id)
        return job.id if job is not None and job.state == "failed" else None
    return None


def maps_differ(world: ClusterWorld) -> bool:
    """Whether somebody has not heard of the last change of the map."""
    return len({each.version for each in _maps(world)}) > 1


def unfinished(world: ClusterWorld) -> Iterator[tuple[Job, Task]]:
    """The tasks that are not over, by the newest map that anybody has."""
    for each in _maps(world)[:1]:
        for job, _, task in each.unfinished_tasks():
            yield job, task


def under_way(world: ClusterWorld, *, first: Collection[str] = ()) -> Iterator[tuple[tuple[int, int], str]]:
    """The job and the number of each task that is not over, and the node that does it, by the newest map; those with
    the actions `first` come first.
    """
    for each in _maps(world)[:1]:
        for job, number, task in sorted(each.unfinished_tasks(), key=lambda found: found[2].action not in first):
            yield (job.id, number), task.node


def bugs(world: ClusterWorld) -> Iterator[str]:
    """What nodes report of tasks that a bug has ended."""
    return _reported(world, ("a bug",))


def damages(world: ClusterWorld) -> Iterator[str]:
    """What nodes report of tasks that met a damaged index or snapshot. What a lost power leaves of an index is not
    copied, it is made anew.
    """
    return _reported(world, _DAMAGED)


def _reported(world: ClusterWorld, beginnings: tuple[str, ...]) -> Iterator[str]:
    for job in newest_map(world).jobs.values():
        yield from (f"{job.kind}, {task.action}: {task.note}" for task in job.tasks if task.note.startswith(beginnings))
