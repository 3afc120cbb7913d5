"""An operator of a simulated cluster who restores what the table held once into tables of their own, and what they hold
in the end.
"""

from __future__ import annotations

import asyncio
import random
from typing import Final

from duramen import aio
from duramen.verification.model import PartitionModel
from log_tier.catalog.actions import Action
from log_tier.catalog.cluster_map import ClusterMap
from log_tier.catalog.jobs import Job, Task
from log_tier.model.identifiers import TableId
from router.admin.verbs import RestoreTable
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from simulation.book import Broken
from simulation.cluster_jobs import checked_table, newest_map
from simulation.cluster_turns import ASK_S, begin, take_turn
from simulation.cluster_world import NODES, ClusterWorld

__all__ = ["check_builds", "check_pasts", "restore_pasts"]

_WORKS_CHANCE: Final = 0.3
_PASTS_MAX: Final = 3
_PAGE_KEYS: Final = 10_000


async def restore_pasts(world: ClusterWorld, stop: asyncio.Event) -> None:
    """Note tokens, and have some of them restored later, in some of the runs."""
    chance = random.Random(f"pasts {world.plan.seed}")
    if world.plan.copied_s is not None or chance.random() > _WORKS_CHANCE:
        return
    tokens: list[str] = []
    made = 0
    while not stop.is_set() and made < _PASTS_MAX:
        await asyncio.sleep(chance.random())
        table = checked_table(world)
        if table is None:
            continue
        target = f"{chance.choice(NODES)}:7070"
        if not tokens or chance.random() < 0.5:
            await take_turn(world, "operator of pasts", "token", target, _note(target, table.name, tokens))
        else:
            made += 1
            change = RestoreTable(table.name, f"past{made}", token=chance.choice(tokens))
            await take_turn(world, "operator of pasts", "past", target, begin(world, target, change))


async def _note(target: str, table: str, tokens: list[str]) -> str:
    async with await aio.connect(target, timeout=ASK_S) as database:
        tokens.append(await database.table(table).end_token())
        return tokens[-1]


async def check_pasts(world: ClusterWorld) -> None:
    """Compare every table that was restored with the log of its source. Raises `Broken`."""
    cluster = newest_map(world)
    for job in cluster.jobs.values():
        for task in job.tasks:
            if task.action == Action.COPY and task.state == "done" and task.table in cluster.tables:
                await _check(world, cluster, job, task)


async def check_builds(world: ClusterWorld) -> None:
    """Compare every version that was built of snapshots with the log that these were taken of. Raises `Broken`."""
    table, log = checked_table(world), world.log
    if table is None or log is None:
        return
    for place in table.partition_ids():
        await log.keep(place)
    records = list(world.kept.records(table.ref))
    for place in table.partition_ids():
        builds = {url: parts[place.partition] for url, parts in world.builds.items()}
        model = PartitionModel((each for each in records if each.partition == place.partition), builds)
        for url in sorted(world.snapshot_builds):
            built = builds[url]
            wanted = {key: list(model.at(key, built.base)) for key in model.keys_at(built.base, "")}
            if wanted != built.entries:
                raise Broken(
                    "I4", f"{url} was built of snapshots of {place} at {built.base}: {built.entries}, {wanted}"
                )
            world.story.met["build compared"] += 1


async def _check(world: ClusterWorld, cluster: ClusterMap, job: Job, task: Task) -> None:
    source = cluster.tables.get(TableId(str(task.arguments["source_table"])))
    if source is None:
        return
    place, offset = source.partition(int(task.arguments["source_partition"])), int(task.arguments["offset"])
    log = world.log
    assert log is not None, "the log's server is not there"
    await log.keep(place)
    records = [each for each in world.kept.records(source.ref) if each.partition == place.partition]
    builds = {url: parts[place.partition] for url, parts in world.builds.items() if len(parts) == source.partitions}
    model = PartitionModel((each for each in records if each.offset <= offset), builds)
    for name, (_, plane) in world.nodes.items():
        replica = plane.node.hosted().get(task.partition_id)
        if replica is None:
            continue
        found = _content(replica.index)
        wanted = model.keys_at(offset, "", replica.index.log_time_ms)
        world.story.met["past compared"] += 1
        if found != wanted:
            wrong = sorted(key for key in wanted.keys() | found.keys() if wanted.get(key) != found.get(key))
            shown = {key: (wanted.get(key), found.get(key)) for key in wrong[:3]}
            raise Broken(
                "restored",
                f"job {job.id} restored {place} at offset {offset}; at {name} {len(wrong)} keys differ: {shown}",
            )


def _content(index: LmdbIndex) -> dict[str, str]:
    page = index.scan(b"", None, limit=_PAGE_KEYS)
    assert not page.more, f"more than {_PAGE_KEYS} keys"
    return {key.decode(): entry.value.decode() for key, entry in page.entries}
