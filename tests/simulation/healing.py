"""A simulated cluster in which a node stays lost, and two routers that heal after thirty seconds.

Which node it is and how it is lost, when it comes back, and what happens to links, routers and other nodes meanwhile
follow from the seed. Every map that a router sees is judged: at most one healing is under way, and no partition has
fewer members than its table wants. In the end all copies are there, within a bounded time.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Final

from duramen.aio import Table
from duramen.testing import Cluster
from log_tier.catalog.catalog import Catalog
from log_tier.catalog.cluster_map import ClusterMap
from log_tier.catalog.map_follower import MapFollower
from log_tier.open import open_log
from router.admin.healing.healer import Healer
from router.admin.planners.heal import HealBounds
from router.membership.live_membership import LiveMembership
from simulation.book import Broken

__all__ = ["Healed", "heal_by_seed"]

BOUNDS: Final = HealBounds(after_s=30.0, copies=2)
ROUTERS: Final = ("r1", "r2")
_PARTITIONS: Final = 6
_KEYS: Final = [b"k%02d" % number for number in range(24)]
_LEVEL_S: Final = 120.0
"""Virtual time in which all copies are there, after the loss has lasted long enough and the last fault is over."""


class Healed:
    """One run: what its routers saw."""

    def __init__(self, cluster: Cluster, chance: random.Random) -> None:
        self.cluster, self.chance = cluster, chance
        self.met: Counter[str] = Counter()
        self.maps: dict[str, ClusterMap] = {}
        """The newest map of each router."""
        self.broken: list[str] = []

    async def route(self, name: str) -> None:
        """The part of a router that heals, as a process of its own."""
        async with AsyncExitStack() as opened:
            log = await open_log("grpc://log:7070")
            opened.push_async_callback(log.close)
            catalog = await Catalog.open(log)
            opened.push_async_callback(catalog.close)
            follower = MapFollower(catalog)
            membership = await LiveMembership.open(follower)
            opened.push_async_callback(membership.close)
            leave = await follower.follow(
                lambda cluster: self._judge(name, cluster), name="judging", failed=self._failed
            )
            opened.push_async_callback(leave)
            healer = Healer.open(catalog, membership, BOUNDS, failed=self._failed)
            opened.push_async_callback(healer.close)
            await asyncio.get_running_loop().create_future()

    def _failed(self, error: Exception) -> None:
        self.broken.append(f"a router ended: {error}")

    def _judge(self, name: str, cluster: ClusterMap) -> None:
        self.maps[name] = cluster
        healings = [job for job in cluster.jobs.values() if job.kind == "heal"]
        open_now = [job.id for job in healings if job.state in ("running", "failed")]
        if len(open_now) > 1:
            self.broken.append(f"the healings {open_now} are under way at once")
        self.met.update({f"healing {job.state}": 0 for job in healings})
        for table in cluster.tables.values():
            for number in table.partition_ids():
                members = table.readable(number.partition)
                if len(members) < table.replicas:
                    self.broken.append(f"{table.name}/{number.partition} has only {members}")

    def newest(self) -> ClusterMap:
        """The newest map that a router has."""
        return max(self.maps.values(), key=lambda cluster: cluster.version)

    def jobs(self) -> list[str]:
        """How the healings ended that the catalog knows."""
        return [job.state for job in self.newest().jobs.values() if job.kind == "heal"]


async def heal_by_seed(seed: int) -> Counter[str]:
    """A run; what it met. Raises `Broken`."""
    chance = random.Random(f"healing {seed}")
    async with Cluster(nodes=4) as cluster:
        database = await cluster.connect(timeout=30)
        table = await database.create_table("flights", partitions=_PARTITIONS, replicas=2)
        await table.put_many(dict.fromkeys(_KEYS, b"1"))
        run = Healed(cluster, chance)
        routers = [cluster.start(name, run.route(name)) for name in ROUTERS]
        while len(run.maps) < len(ROUTERS):  # noqa: ASYNC110 - in virtual time
            await asyncio.sleep(0.1)
        await _lose_a_node(run, table)
        for router in routers:
            router.kill()
        if run.broken:
            raise Broken("healing", "; ".join(dict.fromkeys(run.broken)))
        run.met.update(f"healing {state}" for state in run.jobs())
        return run.met


async def _lose_a_node(run: Healed, table: Table) -> None:
    chance, faults = run.chance, run.cluster.faults
    node = chance.choice(run.cluster.nodes)
    how = chance.choice(("stop", "pause"))
    back_s = chance.choice((None, None, None, 10.0, BOUNDS.after_s - 1, BOUNDS.after_s + 1.5, BOUNDS.after_s + 60))
    others = [name for name in run.cluster.nodes if name != node]
    meanwhile = chance.choice(("nothing", "a router is cut off", "a router is away", "another node restarts"))
    run.met[f"{how}, back {'never' if back_s is None else 'in time' if back_s < BOUNDS.after_s else 'later'}"] += 1
    run.met[meanwhile] += 1

    lose, bring_back = (faults.stop, faults.start) if how == "stop" else (faults.pause, faults.resume)
    for name in others:
        faults.late(name, chance.uniform(0.1, 0.4))  # copies take a while
    lose(node)
    happening = asyncio.create_task(_meanwhile(run, meanwhile, others))
    if back_s is not None:
        await asyncio.sleep(back_s)
        bring_back(node)
    await happening
    faults.heal()
    if how == "pause" and back_s is None:
        faults.pause(node)  # `heal` ends every fault
    away = {node} if back_s is None else set()
    await _whole(run, away, within_s=BOUNDS.after_s + _LEVEL_S)
    for key in _KEYS:
        if await table.get(key, level="strong") != b"1":
            run.broken.append(f"{key!r} is gone")


async def _meanwhile(run: Healed, what: str, others: list[str]) -> None:
    chance, faults = run.chance, run.cluster.faults
    lasts_s = chance.uniform(1, BOUNDS.after_s + 30)
    if what == "a router is cut off":
        for name in others:
            faults.cut(ROUTERS[0], name)
    elif what == "a router is away":
        faults.cut(ROUTERS[0])
    elif what == "another node restarts":
        await asyncio.sleep(chance.uniform(1, BOUNDS.after_s + 5))
        faults.restart(chance.choice(others))
        return
    await asyncio.sleep(lasts_s)


async def _whole(run: Healed, away: set[str], *, within_s: float) -> None:
    """Return when every partition has its copies at nodes that are there, and no job has anything left."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + within_s
    while what := _missing(run, away):
        if loop.time() > deadline_s:
            raise Broken("healed", f"after {within_s:g} s, {what}")
        await asyncio.sleep(0.5)


def _missing(run: Healed, away: set[str]) -> str:
    cluster = run.newest()
    left: Callable[[ClusterMap], int] = lambda seen: sum(1 for _ in seen.unfinished_tasks())  # noqa: E731
    if left(cluster):
        return f"{left(cluster)} tasks are left"
    for table in cluster.tables.values():
        for place in table.partition_ids():
            members = [node for node in table.readable(place.partition) if node not in away]
            if len(members) < table.replicas:
                return f"{table.name}/{place.partition} is at {', '.join(members) or 'no node'}"
    return ""
