"""A simulated cluster in which nodes fill up, fall behind or get hot, and two routers that relieve after 15 seconds.

How full each disk is, which node has too much, and what happens to routers, nodes and an operator meanwhile follow from
the seed. Disks are modelled: what a node says of its disk is what others have on it and its replicas, all of one size.
So are rates: each replica of a partition serves the same part of what is asked of the partition, wherever it is. Every
map that a router sees is judged: at most one relief is under way, none begins while another job moves replicas or after
an operator has switched it off, nobody is filled by it, no node gets as hot by it as the one that it cools, nothing
comes back to where it was taken from, but to cool another node, and no partition has fewer members than its table
wants. In the end nobody is full or hot who could be relieved.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from duramen.aio import Table
from duramen.testing import Cluster
from log_tier.catalog.catalog import Catalog
from log_tier.catalog.cluster_map import ClusterMap
from log_tier.catalog.commands import StartJob
from log_tier.catalog.jobs import Job
from log_tier.catalog.map_follower import MapFollower
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import PartitionId
from log_tier.open import open_log
from router.admin.healing.healer import Healer
from router.admin.planners.heal import HealBounds
from router.admin.planners.relieve import MOVES_MAX, ROOM_PERCENT
from router.admin.planners.strains import FULL_PERCENT, HOT_PERCENT, HOT_SERVED_S
from router.admin.relief.decision import ReliefBounds
from router.admin.relief.reliever import Reliever
from router.membership.live_membership import LiveMembership
from serving_tier.service import status_feed
from serving_tier.service.served_rates import ServedRates
from simulation.book import Broken

__all__ = ["Relieved", "relieve_by_seed"]

HEAL: Final = HealBounds(after_s=15.0, copies=2)
RELIEVE_AFTER_S: Final = 15.0
ROUTERS: Final = ("r1", "r2")
_COPIES: Final = 2
"""What a relief moves in some runs: half of what a node has, so another relief has to follow."""
_PARTITIONS: Final = 8
_KEYS: Final = [b"k%02d" % number for number in range(24)]
_DISK: Final = 2000
_REPLICA: Final = 100
_ROOM: Final = 600
"""What others have on a disk with room: half of it is free with the first share of replicas."""
_FILLED: Final = 1450
_BUSY: Final = 6000
"""What a hot node serves a second; all of it is served by the other replicas, too."""
_HOT_CHANCE: Final = 0.3
_TIGHT: Final = 1150
"""Not full, and too full to take anything."""
_RELIEVED_S: Final = 200.0
"""Virtual time in which who can be relieved is, after the last fault is over: two reliefs, each after its time."""


class Relieved:
    """One run: the disks, and what its routers saw."""

    def __init__(self, cluster: Cluster, chance: random.Random, seed: int) -> None:
        self.cluster, self.chance, self.seed = cluster, chance, seed
        self.met: Counter[str] = Counter()
        self.maps: dict[str, ClusterMap] = {}
        """The newest map of each router."""
        self.others: dict[str, int] = dict.fromkeys(cluster.nodes, _ROOM)
        """What others have on each disk."""
        self.asked: dict[PartitionId, int] = {}
        """What each replica of a partition serves a second."""
        self.off_at: int | None = None
        """The map since which an operator has it switched off."""
        self.given: set[tuple[Any, str]] = set()
        """The replicas that reliefs took from a node."""
        copies = random.Random(f"copies {seed}").choice((_COPIES, MOVES_MAX))
        self.bounds = ReliefBounds(RELIEVE_AFTER_S, copies)
        self.broken: list[str] = []
        self._judged: set[int] = set()

    @contextmanager
    def disks(self) -> Iterator[None]:
        """Have nodes report the modelled disks, sizes and rates."""
        real: Any = status_feed._measured

        def measured(replicas: list[Any], folder: Path) -> Any:
            found, _ = real(replicas, folder)
            node = next(name for name in self.cluster.nodes if name in folder.parts)
            used = min(_DISK, _DISK - self.free(node, self.newest() if self.maps else ClusterMap()))
            return {name: (at, (_REPLICA, size[1])) for name, (at, size) in found.items()}, (_DISK - used, used)

        rates: Any = ServedRates
        rate = rates.of
        status_feed._measured = measured
        rates.of = lambda _, name: self.asked.get(name, 0)
        try:
            yield
        finally:
            status_feed._measured = real
            rates.of = rate

    def free(self, node: str, cluster: ClusterMap) -> int:
        """What is free on a node's disk, by the replicas that it has."""
        return _DISK - self.others[node] - _REPLICA * sum(1 for _ in cluster.held_by(node))

    def served(self, cluster: ClusterMap) -> dict[str, int]:
        """What each node serves a second, by the replicas that it has."""
        return {node: sum(self.asked.get(place, 0) for place in _held(cluster, node)) for node in self.others}

    def heats(self, node: str, cluster: ClusterMap) -> bool:
        """Is a node hot?"""
        served = self.served(cluster)
        others = (sum(served.values()) - served[node]) // (len(served) - 1)
        return served[node] - others >= HOT_SERVED_S and served[node] * 100 >= others * HOT_PERCENT

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[tuple[Catalog, MapFollower]]:
        async with AsyncExitStack() as opened:
            log = await open_log("grpc://log:7070")
            opened.push_async_callback(log.close)
            catalog = await Catalog.open(log)
            opened.push_async_callback(catalog.close)
            yield catalog, MapFollower(catalog)

    async def route(self, name: str) -> None:
        """The part of a router that heals and relieves, as a process of its own."""
        async with self._opened() as (catalog, follower), AsyncExitStack() as opened:
            membership = await LiveMembership.open(follower)
            opened.push_async_callback(membership.close)
            leave = await follower.follow(
                lambda cluster: self._judge(name, cluster), name="judging", failed=self._failed
            )
            opened.push_async_callback(leave)
            healer = Healer.open(catalog, membership, HEAL, failed=self._failed)
            opened.push_async_callback(healer.close)
            reliever = Reliever.open(catalog, membership, healer, self.bounds, failed=self._failed)
            opened.push_async_callback(reliever.close)
            await asyncio.get_running_loop().create_future()

    async def operate(self, off: bool) -> None:
        """An operator switches relief off, or on."""
        async with self._opened() as (catalog, _):
            job, _ = await catalog.submit(StartJob("automate", "relieve", (), {"what": "relieve", "off": int(off)}))
            self.off_at = job if off else None

    def _failed(self, error: Exception) -> None:
        self.broken.append(f"a router ended: {error}")

    def _judge(self, name: str, cluster: ClusterMap) -> None:
        self.maps[name] = cluster
        reliefs = [job for job in cluster.jobs.values() if job.kind == "relieve"]
        if sum(not job.is_over for job in reliefs) > 1:
            self.broken.append(f"the reliefs {[job.id for job in reliefs if not job.is_over]} are under way at once")
        for job in reliefs:
            if job.id not in self._judged:
                self._judged.add(job.id)
                self._judge_new(cluster, job)
        for table in cluster.tables.values():
            for place in table.partition_ids():
                members = table.readable(place.partition)
                if len(members) < table.replicas:
                    self.broken.append(f"{table.name}/{place.partition} has only {members}")

    def _judge_new(self, cluster: ClusterMap, job: Job) -> None:
        is_cooling = job.arguments.get("strain") == "hot"
        if len(job.tasks) > MOVES_MAX:
            self.broken.append(f"job {job.id} moves {len(job.tasks)} replicas")
        if self.off_at is not None and job.id > self.off_at:
            self.broken.append(f"job {job.id} began although an operator had switched it off at {self.off_at}")
        earlier = [each.id for each, _ in cluster.changing() if each.id < job.id]
        if earlier:
            self.broken.append(f"job {job.id} began while the jobs {earlier} moved replicas")
        for task in job.tasks:
            # What makes a node hot may come from another one: each such move lowers what the hottest two serve.
            if (task.partition_id, task.node) in self.given and not is_cooling:
                self.broken.append(f"job {job.id} takes {task.partition_id} back to {task.node}")
            self.given.add((task.partition_id, str(task.arguments.get("from"))))
            if self.free(task.node, cluster) * 100 < _DISK * ROOM_PERCENT:
                self.broken.append(f"job {job.id} fills {task.node}: {self.free(task.node, cluster)} are left there")

        if is_cooling:
            self._judge_cooling(cluster, job)

    def _judge_cooling(self, cluster: ClusterMap, job: Job) -> None:
        """What makes a node hot goes nowhere where it makes another one as hot."""
        before = self.served(cluster)
        after = dict(before)
        for task in job.tasks:
            source, rate = str(task.arguments.get("from")), self.asked.get(task.partition_id, 0)
            after[source] -= rate
            after[task.node] += rate
            if after[task.node] >= before[source]:
                what = f"makes {task.node} serve {after[task.node]}, where {source} served {before[source]}"
                self.broken.append(f"job {job.id} {what}")

    def newest(self) -> ClusterMap:
        """The newest map that a router has."""
        return max(self.maps.values(), key=lambda cluster: cluster.version)

    def full(self) -> list[str]:
        """The nodes that are full, by the newest map."""
        cluster = self.newest()
        return [node for node in self.others if self.free(node, cluster) * 100 < _DISK * FULL_PERCENT]


async def relieve_by_seed(seed: int) -> Counter[str]:
    """A run; what it met. Raises `Broken`."""
    chance = random.Random(f"relieving {seed}")
    async with Cluster(nodes=4) as cluster:
        run = Relieved(cluster, chance, seed)
        with run.disks():
            database = await cluster.connect(timeout=30)
            table = await database.create_table("flights", partitions=_PARTITIONS, replicas=2)
            await table.put_many(dict.fromkeys(_KEYS, b"1"))
            routers = {name: cluster.start(name, run.route(name)) for name in ROUTERS}
            while len(run.maps) < len(ROUTERS):  # noqa: ASYNC110 - in virtual time
                await asyncio.sleep(0.1)
            writing = asyncio.create_task(_write(table))
            await _strain(run, routers)
            writing.cancel()
            with suppress(asyncio.CancelledError):
                await writing
            for router in routers.values():
                router.kill()
        if run.broken:
            raise Broken("relief", "; ".join(dict.fromkeys(run.broken)))
        jobs = [job for job in run.newest().jobs.values() if job.kind == "relieve"]
        run.met.update(f"relief of a {job.arguments['strain']} node {job.state}" for job in jobs)
        return run.met


async def _write(table: Table) -> None:
    """Writes go on: else nobody falls behind."""
    while True:
        with suppress(DuramenError):
            await table.put_many(dict.fromkeys(_KEYS, b"1"))
        await asyncio.sleep(3.0)


async def _strain(run: Relieved, routers: dict[str, Any]) -> None:
    chance, faults = run.chance, run.cluster.faults
    nodes = list(run.cluster.nodes)
    chance.shuffle(nodes)
    node, other, third, _ = nodes
    strain = chance.choice(("a disk fills", "a disk fills", "two disks fill", "a node is slow"))
    heat = random.Random(f"temperature {run.seed}")
    if heat.random() < _HOT_CHANCE:
        strain = heat.choice(("a node is hot", "a node is hot by one partition"))
    meanwhile = chance.choice(
        ("nothing", "a router is killed", "a node restarts", "a node is lost", "it is off", "its node is away")
    )
    run.met.update([strain, meanwhile])
    for name in nodes:
        faults.late(name, chance.uniform(0.2, 0.6))  # copies take a while
    run.others[third] = chance.choice((_ROOM, _TIGHT))
    if meanwhile == "it is off":
        await run.operate(off=True)
    if strain == "a node is slow":
        faults.cut(node, "log")
    elif strain.startswith("a node is hot"):
        places = _held(run.newest(), node)
        busy = places[:1] if strain.endswith("one partition") else places
        run.asked.update(dict.fromkeys(busy, _BUSY // len(busy)))
    else:
        run.others[node] = _FILLED
        run.others[other] = _FILLED if strain == "two disks fill" else _ROOM
    await asyncio.sleep(chance.uniform(1, 2 * RELIEVE_AFTER_S + 20))
    await _meanwhile(run, meanwhile, routers, node, other)
    if strain == "a node is slow":
        await asyncio.sleep(120)
    faults.heal()
    await _well(run)


async def _meanwhile(run: Relieved, what: str, routers: dict[str, Any], node: str, other: str) -> None:
    faults = run.cluster.faults
    if what == "a router is killed":
        routers.pop(ROUTERS[0]).kill()
        del run.maps[ROUTERS[0]]
    elif what == "a node restarts":
        faults.restart(other)
    elif what in ("a node is lost", "its node is away"):
        lost = other if what == "a node is lost" else node
        faults.stop(lost)
        await asyncio.sleep(run.chance.choice((5.0, HEAL.after_s + 40)))
        faults.start(lost)
    elif what == "it is off":
        await asyncio.sleep(3 * RELIEVE_AFTER_S)
        await run.operate(off=False)


async def _well(run: Relieved) -> None:
    """Return when nobody is full who could give something, and no job has anything left."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + _RELIEVED_S
    while what := _missing(run):
        if loop.time() > deadline_s:
            raise Broken("relieved", f"after {_RELIEVED_S:g} s, {what}")
        await asyncio.sleep(0.5)


def _missing(run: Relieved) -> str:
    cluster = run.newest()
    left = sum(1 for _ in cluster.unfinished_tasks())
    if left:
        return f"{left} tasks are left"
    takers = [node for node in run.others if (run.free(node, cluster) - _REPLICA) * 100 >= _DISK * ROOM_PERCENT]
    for node in run.full():
        for table, partition, _ in cluster.held_by(node):
            if any(taker not in table.readable(partition) for taker in takers):
                return f"{node} has {run.free(node, cluster)} of {_DISK} free, and {', '.join(takers)} have room"
    served = run.served(cluster)
    for node in filter(lambda each: run.heats(each, cluster), run.others):
        for place in _held(cluster, node):
            rate, held = run.asked.get(place, 0), cluster.tables[place.table].readable(place.partition)
            cooler = [each for each in takers if served[each] + rate <= served[node] - rate]
            free = [each for each in cooler if each not in held]
            if rate and free:
                return f"{node} serves {served[node]} a second, and {', '.join(free)} could take {rate} of it"
    return ""


def _held(cluster: ClusterMap, node: str) -> list[PartitionId]:
    """What a node serves: a replica that is on its way counts when it is there."""
    held = cluster.held_by(node)
    return [PartitionId(table.id, partition) for table, partition, role in held if role == "member"]
