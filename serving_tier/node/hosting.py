"""Hosting: a node kept in step with the catalog's map.

The map says which replicas a node should have. Hosting compares that with what is open, whenever the map changes:

    in the map, not open    → bring up: open the index that is there; where there is none, or none that can be used,
                              fetch a copy first (`Bootstrap`), then follow the log
    open, not in the map    → close, delete; whoever waits is told that another node has it
    table dropped           → the same, and whoever waits is told so

Each replica is brought up by a task of its own, and tried again where it failed for now: a log that is away, a full
disk, a store that does not answer. A replica that is under way is in `pending`; the others do not wait for it. One that
stops later, for whatever reason, is brought up again: what a cut network, or a log that was trimmed meanwhile, made of
it must not need a restart of the process.

The versions of its replicas are the business of `serving_tier.node.staging`, which sees every map as well.

Rebuilding (`serving_tier.node.rebuilding`) fetches a second index beside the first.

H1  An index is deleted only where the catalog says that its table was dropped, or that this node does not hold it. An
    index of a table that the catalog has never heard of is left alone: perhaps the catalog is what is wrong.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import partial
from pathlib import Path
from typing import Final

from log_tier.catalog.catalog import Maps
from log_tier.catalog.cluster_map import ClusterMap, TableEntry
from log_tier.catalog.map_follower import Leave, MapFollower
from log_tier.concurrency.background import Failed, only_logged
from log_tier.concurrency.backoff import Backoff
from log_tier.concurrency.broadcast import Broadcast
from log_tier.concurrency.tasks import end_tasks
from log_tier.model.errors import (
    DeadlineExceeded,
    Disconnected,
    DuramenError,
    IndexDamaged,
    LogDamaged,
    OffsetTrimmed,
    ShuttingDown,
    SnapshotStoreUnavailable,
    Unavailable,
    UnknownFormat,
)
from log_tier.model.identifiers import NOTHING, Offset, Partition, PartitionId, TableId
from log_tier.model.log import Topic
from serving_tier.node.absence import absence
from serving_tier.node.bootstrap import Bootstrap, Pending, Progress, replay_only
from serving_tier.node.node import Node, RestingReplica
from serving_tier.node.rebuilding import Rebuilding
from serving_tier.node.replica_files import discard, tidy
from serving_tier.node.restart_pauses import RestartPauses
from serving_tier.node.staging import FetchVersion, Staging, fetch_version
from serving_tier.replica.observer import ReplicaEvent
from serving_tier.replica.replica import Replica
from serving_tier.replica.version_folders import promote

__all__ = ["Bootstrap", "Hosting", "Pending", "replay_only"]

logger = logging.getLogger(__name__)

_RETRY_FIRST_S: Final = 0.5
_RETRY_MAX_S: Final = 30.0
# What is away may be back at any moment, and is asked again soon: a try costs one question to the log or to a peer.
_RETRY_AWAY_MAX_S: Final = 2.0

_AWAY: Final = (Disconnected, DeadlineExceeded, SnapshotStoreUnavailable)

# Copies that are fetched at the same time: one disk and one network serve them all, and reads as well.
_BOOTSTRAPS_MAX: Final = 2

# How often the progress of a bootstrap is looked at.
_LOOK_S: Final = 0.2


class Hosting:
    """Keeps `node` in step with the map. `open()` makes one, `close()` ends it; the node is closed by its owner."""

    def __init__(
        self,
        maps: Maps,
        node: Node,
        *,
        node_id: str,
        identity: str,
        bootstrap: Bootstrap,
        fetch: FetchVersion = fetch_version,
    ) -> None:
        self.maps = maps
        self.node = node
        self.node_id = node_id
        self.identity = identity
        self.pending: dict[PartitionId, Pending] = {}
        self._bootstrap = bootstrap
        self._tasks: dict[PartitionId, asyncio.Task[None]] = {}
        self._wanted: dict[PartitionId, tuple[TableEntry, int]] = {}
        self._tables: Mapping[TableId, TableEntry] = {}
        """The tables that were compared last."""
        self._locks: dict[PartitionId, asyncio.Lock] = {}
        self._pauses = RestartPauses(first_s=_RETRY_FIRST_S, max_s=_RETRY_MAX_S)
        self._leave: Leave | None = None
        self._moved = Broadcast()
        self._compared = NOTHING
        self._bootstraps = asyncio.Semaphore(_BOOTSTRAPS_MAX)
        self.staging = Staging(maps, node, replace=partial(self._begin_anew, delete=True), fetch=fetch)

    @classmethod
    async def open(
        cls,
        follower: MapFollower,
        node: Node,
        *,
        node_id: str,
        identity: str,
        bootstrap: Bootstrap = replay_only,
        failed: Failed = only_logged,
    ) -> Hosting:
        """Begin to host what the map says. Returns when the first comparison was made, not when all is open.

        `failed`: see `MapFollower.follow`.
        """
        maps = follower.maps
        hosting = cls(maps, node, node_id=node_id, identity=identity, bootstrap=bootstrap)
        node.absent = hosting._absent
        node.owner = hosting._hear
        await asyncio.to_thread(tidy, node.folder, maps.map, node_id)
        hosting._leave = await follower.follow(
            lambda cluster: hosting._compare(cluster), name=f"hosting {node_id}", failed=failed
        )
        return hosting

    # --- comparing

    async def _compare(self, cluster: ClusterMap) -> None:
        """Only tables that changed are looked at: a map of thousands of them comes with every new one."""
        before, self._tables = self._tables, cluster.tables
        changed = [table for table_id, table in cluster.tables.items() if before.get(table_id) is not table]
        gone = [
            name for table_id in before if table_id not in cluster.tables for name in self._names_of(before[table_id])
        ]
        for table in changed:
            gone += await self._compare_table(table, before.get(table.id), cluster)
        for name in gone:
            self._wanted.pop(name, None)
        hosted = self.node.hosted()
        if len(hosted) + len(self._tasks) < len(self._wanted):
            # One pass over what may be thousands of names: this is done for every table that is made.
            missing = [name for name in self._wanted if name not in hosted and name not in self._tasks]
            await self._open_resting(missing)
            hosted = self.node.hosted()
            for name in missing:
                if name not in hosted and name not in self._tasks:
                    self._start(name, self._wanted[name][0].topic)
        await asyncio.gather(*(self._let_go(name, cluster) for name in gone))
        looked_at = {table.id: table for table in cluster.tables.values() if table.versions}
        looked_at.update((table.id, table) for table in changed)
        self.staging.compare(cluster, [name for table in looked_at.values() for name in self._names_of(table)])
        self._compared = cluster.version
        self._moved.notify_all()

    async def _open_resting(self, names: Sequence[PartitionId]) -> None:
        """Open in one go what needs no look at a file: nearly everything, after a restart."""
        missing: dict[TableId, list[PartitionId]] = {}
        for name in names:
            if name not in self._locks:
                missing.setdefault(name[0], []).append(name)
        found: list[RestingReplica] = []
        async for table_id, bounds in self.node.bounds_of(list(missing)):
            for name in missing[table_id]:
                table, rank = self._wanted[name]
                found.append(RestingReplica(table.topic, name[1], table.start(name[1]), rank, bounds[name[1]]))
        await self.node.host_resting(found)

    async def _compare_table(
        self, table: TableEntry, before: TableEntry | None, cluster: ClusterMap
    ) -> list[PartitionId]:
        """Take over what a table's entry wants of this node; return the replicas that it wants no more."""
        gone: list[PartitionId] = []
        for partition in map(Partition, range(table.partitions)):
            name = PartitionId(table.id, partition)
            nodes = [replica.node for replica in table.assignments[partition]]
            if self.node_id not in nodes:
                if name in self._wanted or name in self.node.hosted():
                    gone.append(name)
                continue
            rank = nodes.index(self.node_id)
            if before is not None and name in self._wanted and before.start(partition) != table.start(partition):
                # Another table over the same topic of others, made before we saw that the first one was dropped.
                await self._let_go(name, cluster)
            self._wanted[name] = table, rank
            self.node.set_rank(name, rank)
        return gone

    def _names_of(self, table: TableEntry) -> list[PartitionId]:
        return [PartitionId(table.id, Partition(number)) for number in range(table.partitions)]

    def _start(self, name: PartitionId, topic: Topic) -> None:
        self.pending[name] = Pending(topic, name[1])
        task = asyncio.create_task(self._bring_up(name, topic), name=f"bring up {topic.name}/{name[1]}")
        self._tasks[name] = task
        task.add_done_callback(lambda _: self._brought(name, task))

    def _brought(self, name: PartitionId, task: asyncio.Task[None]) -> None:
        if self._tasks.get(name) is task:
            del self._tasks[name]
            self.pending.pop(name, None)
        if not task.cancelled() and task.exception() is not None:
            # A bug of ours: it is said loudly, and the replica is refused with it.
            error = task.exception()
            logger.error("bringing up %s ended by a bug", name, exc_info=error)
            self.node.refusals[name] = DuramenError(f"replica {name[0]}/{name[1]} could not be opened: {error!r}")
        self.staging.compare(self.maps.map, [name])
        self._moved.notify_all()

    async def _let_go(self, name: PartitionId, cluster: ClusterMap) -> None:
        task = self._tasks.pop(name, None)
        self.pending.pop(name, None)
        await end_tasks(task)
        await self.staging.forget(name)
        self._pauses.forget(name)
        async with self._lock(name):
            try:
                await self.node.unhost(name, self._absence(cluster, name))
            except DuramenError as error:  # its index could not be closed cleanly, and is gone with its folder
                logger.warning("%s/%s was let go: %s", *name, error)
        self._locks.pop(name, None)

    def _lock(self, name: PartitionId) -> asyncio.Lock:
        return self._locks.setdefault(name, asyncio.Lock())

    # --- replicas that stopped

    def _hear(self, replica: Replica, event: ReplicaEvent) -> None:
        """Something happened to a hosted replica."""
        match event:
            case "damaged":
                # It is discarded, and brought up again from elsewhere.
                self._begin_anew(replica, delete=True)
            case "stopped":
                # It is opened again. An index that the log no longer carries on is discarded there. A damaged log,
                # or one of a later version, would stop it again: then the replica stays and serves what it has.
                if not isinstance(replica.failure, (LogDamaged, UnknownFormat)):
                    self._begin_anew(replica, delete=False)
            case "version_missing":
                self.staging.version_missing(replica)
            case "switched":
                self.staging.compare(self.maps.map, [PartitionId(replica.topic.id, replica.partition)])

    def _begin_anew(self, replica: Replica, *, delete: bool) -> None:
        name = PartitionId(replica.topic.id, replica.partition)
        if name in self._tasks or self.node.hosted().get(name) is not replica:
            return
        logger.warning("%s cannot go on (%s): it is brought up again", replica.name, replica.failure or replica.awaits)
        self.pending[name] = Pending(replica.topic, replica.partition)
        task = asyncio.create_task(self._replace(name, replica, delete=delete), name=f"replace {replica.name}")
        self._tasks[name] = task
        task.add_done_callback(lambda _: self._brought(name, task))

    async def _replace(self, name: PartitionId, replica: Replica, *, delete: bool) -> None:
        await self.staging.forget(name)
        async with self._lock(name):
            reason = replica.failure or replica.awaits or Unavailable(f"{replica.name} is damaged: ask another node")
            try:
                await self.node.unhost(name, reason, delete=delete)
            except DuramenError as error:
                logger.warning("%s could not be closed cleanly: %s", replica.name, error)
            self.node.refusals[name] = reason
        await asyncio.sleep(self._pauses.after_stop(name))
        await self._bring_up(name, replica.topic)

    # --- bringing up

    async def _bring_up(self, name: PartitionId, topic: Topic) -> None:
        backoff = Backoff(_RETRY_FIRST_S, _RETRY_MAX_S)
        while True:
            try:
                async with self._lock(name):
                    await self._open(name, topic)
            except DuramenError as error:
                expected = isinstance(error, (Unavailable, ShuttingDown))
                logger.log(
                    logging.INFO if expected else logging.ERROR, "%s/%s is not served: %s", topic.name, name[1], error
                )
                self.node.refusals[name] = error
                self.pending[name].trouble = error.message
                self._moved.notify_all()
                backoff.max_s = _RETRY_AWAY_MAX_S if isinstance(error, _AWAY) else _RETRY_MAX_S
                await backoff.pause()
            else:
                return

    async def _open(self, name: PartitionId, topic: Topic) -> None:
        if name in self.node.hosted():
            return  # a rebuild was faster
        pending = self.pending[name]
        folder = self.node.replica_folder(name)
        table, rank = self._wanted[name]
        start = table.start(name[1])
        source = "log"
        while await asyncio.to_thread(promote, folder):
            try:
                await self.node.host(topic, name[1], start=start, rank=rank, repair=False)
            except (IndexDamaged, OffsetTrimmed) as error:
                logger.warning("%s/%s: %s; it is fetched again", topic.name, name[1], error)
                await asyncio.to_thread(discard, folder)
            else:
                return
        source = await self._fetched(topic, name[1], folder, "auto", pending.progress)
        await self.node.host(topic, name[1], start=start, rank=rank, source=source)

    async def _fetched(self, topic: Topic, partition: Partition, folder: Path, source: str, progress: Progress) -> str:
        progress("waiting for other bootstraps", 0, 0)
        async with self._bootstraps:
            progress("bootstrapping", 0, 0)
            return await self._bootstrap(topic, partition, folder, source, progress)

    async def rebuild(self, name: PartitionId, *, source: str = "auto", progress: Progress) -> str:
        """Fetch a replica's index anew and put it in the old one's place; returns where it came from.

        The old one is read until the new one is level with the log. Raises what kept it; the old one then stays.
        """
        table = self.maps.map.table(name[0])
        async with self._lock(name):
            rebuilding = Rebuilding(
                self.node, self.staging, self._fetched, table, name[1], rank=lambda: self._rank(name)
            )
            found = await rebuilding.run(source, progress)
        self.staging.compare(self.maps.map, [name])
        return found

    def _rank(self, name: PartitionId) -> int:
        return self._wanted[name][1] if name in self._wanted else 0

    # --- asking

    async def wait_hosted(self, table_id: TableId) -> None:
        """Return when every replica that this node should have of a table was opened, or refused.

        Where none is wanted yet (the map that says so is on its way here) it returns at once.
        """
        table = self._tables.get(table_id)
        names = [] if table is None else self._names_of(table)
        while any(
            name in self._wanted and name not in self.node.hosted() and name not in self.node.refusals for name in names
        ):
            await self._moved.wait()

    async def settled(self) -> None:
        """The same for all tables."""
        while any(name not in self.node.hosted() and name not in self.node.refusals for name in self._wanted):
            await self._moved.wait()

    async def wait_ready(self, name: PartitionId, progress: Progress) -> str:
        """Return where a replica came from when it is level with the log. Raises what keeps it from being opened, where
        another try would not help; it goes on being tried.
        """
        while name not in self.node.hosted():
            refusal = self.node.refusals.get(name)
            if refusal is not None and not refusal.retryable:
                raise copy(refusal)
            pending = self.pending.get(name)
            if pending is not None:
                progress(pending.phase, pending.done, pending.total)
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await self._moved.wait()
        replica = self.node.hosted()[name]
        progress("replaying", replica.applied + 1, replica.progress.latest + 1)
        await replica.wait_ready()
        return replica.source

    async def wait_version(self, version: Offset) -> None:
        """Return when a map of at least that version was compared."""
        while self._compared < version:
            await self._moved.wait()

    def _absent(self, name: PartitionId) -> DuramenError:
        return self._absence(self.maps.map, name)

    def _absence(self, cluster: ClusterMap, name: PartitionId) -> DuramenError:
        return absence(cluster, name, node_id=self.node_id, pending=self.pending.get(name))

    async def close(self) -> None:
        """Stop following and bringing up. Idempotent."""
        if self._leave is not None:
            await self._leave()
        await self.staging.close()
        tasks, self._tasks = self._tasks, {}
        await end_tasks(*tasks.values())
