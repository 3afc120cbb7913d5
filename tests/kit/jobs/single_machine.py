"""Nodes that do the tasks of jobs, with a log, a catalog and a store in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kit.deadlines import within
from log_tier.catalog.catalog import Catalog
from log_tier.catalog.cluster_map import NodeEntry
from log_tier.catalog.commands import CreateTable, RegisterNode, StartJob, TaskPlan
from log_tier.catalog.jobs import Job
from log_tier.catalog.map_follower import MapFollower
from log_tier.model.batch import Columns, encode_batch
from log_tier.model.errors import NotHosted
from log_tier.model.identifiers import Offset, Partition, PartitionId
from log_tier.model.log import Log, Topic
from serving_tier.jobs.actions import node_actions
from serving_tier.jobs.bootstrapping import node_bootstrap
from serving_tier.jobs.snapshotting import NodeSnapshots
from serving_tier.jobs.worker import JobWorker, RetryLimits
from serving_tier.node.hosting import Hosting
from serving_tier.node.node import Node
from serving_tier.replica.replica import Replica
from serving_tier.snapshots.peer_copy import CopySource
from serving_tier.snapshots.snapshot_store import SnapshotStore

DEADLINE_S = 30
ZERO = Partition(0)


class SingleMachine:
    """A log, a catalog, and nodes with workers and a common store, all in this process."""

    def __init__(self, folder: Path, log: Log, catalog: Catalog) -> None:
        self.folder, self.log, self.catalog = folder, log, catalog
        self.store = SnapshotStore.open(folder / "store")
        self.hostings: dict[str, Hosting] = {}
        self.snapshots: dict[str, NodeSnapshots] = {}
        self.workers: dict[str, JobWorker] = {}
        self._closing: list[Callable[[], object]] = []

    def _no_peer(self, entry: NodeEntry) -> CopySource:
        raise NotHosted(f"{entry.id} is not asked in these tests")

    async def add_node(
        self, name: str, *, every_s: float | None = None, keep: int = 2, retries: RetryLimits | None = None
    ) -> Hosting:
        await self.catalog.submit(RegisterNode(name, "", name))
        node = await Node.open(self.log, self.folder / name / "index")
        fill = node_bootstrap(self.log, self.catalog, node_id=name, store=self.store, peer=self._no_peer)
        hosting = await Hosting.open(MapFollower(self.catalog), node, node_id=name, identity=name, bootstrap=fill)
        snapshots = await NodeSnapshots.open(self.catalog, hosting, self.store, keep=keep, every_s=every_s)
        worker = await JobWorker.open(
            self.catalog,
            MapFollower(self.catalog),
            node_id=name,
            actions=node_actions(self.log, hosting, snapshots),
            retries=retries or RetryLimits(),
        )
        self.hostings[name], self.snapshots[name], self.workers[name] = hosting, snapshots, worker
        self._closing += [node.close, hosting.close, snapshots.close, worker.close]
        return hosting

    async def make_table(self, name: str = "flights", *, replicas: int = 1) -> Topic:
        topic = await self.log.create_topic(name, partitions=1)
        await self.catalog.submit(CreateTable(topic.id, name, 1, replicas))
        return topic

    async def replica(self, node: str, topic: Topic) -> Replica:
        hosting = self.hostings[node]
        async with within(DEADLINE_S):
            await hosting.wait_version(self.catalog.map.version)
            await hosting.wait_ready(PartitionId(topic.id, ZERO), lambda *_: None)
        return hosting.node.replica(topic.partition(ZERO))

    async def put(self, topic: Topic, *pairs: tuple[bytes, bytes]) -> Offset:
        batch = encode_batch(Columns([key for key, _ in pairs], [value for _, value in pairs]))
        return Offset((await self.log.append(topic.partition(ZERO), batch)).base_offset + len(pairs) - 1)

    async def level(self, node: str, topic: Topic) -> Replica:
        replica = await self.replica(node, topic)
        latest = (await self.log.bounds(topic.partition(ZERO))).latest
        await replica.wait_applied(latest, timeout=DEADLINE_S)
        return replica

    async def job(self, *plans: TaskPlan, kind: str = "test", **arguments: int | str) -> Job:
        number, _ = await self.catalog.submit(StartJob(kind, "test", plans, arguments))
        cluster = await self.catalog.wait_for(lambda map_: map_.jobs[number].state != "running", timeout=DEADLINE_S)
        return cluster.jobs[number]

    async def close(self) -> None:
        for close in reversed(self._closing):
            await close()  # type: ignore[misc]


def plan(action: str, topic: Topic, node: str, **arguments: int | str) -> TaskPlan:
    return TaskPlan(action, topic.id, ZERO, node, arguments)


async def fill(machine: SingleMachine, topic: Topic, count: int = 300) -> Offset:
    for number in range(count):
        last = await machine.put(topic, (b"key%d" % (number % 50), b"%d " % number + b"v" * 40))
    return last
