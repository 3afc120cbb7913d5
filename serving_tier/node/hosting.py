"""Hosting: a node kept in step with the catalog's map.

The map says which replicas a node should have. Hosting compares that with what is open, whenever the map changes:

    in the map, not open    → bring up: open the index that is there; where there is none, or none that can be used,
                              fetch a copy first (`Bootstrap`), then follow the log
    open, not in the map    → close, delete; waiting calls get `NotHosted`
    table dropped           → the same; waiting calls get `TableNotFound`

Each replica is brought up by a task of its own (`serving_tier.node.bring_up`). One that stops later, for whatever
reason, is brought up again: the consequences of a cut network, or of a log that was trimmed meanwhile, must not need a
restart of the process.

The versions of its replicas are the business of `serving_tier.node.staging`, which sees every map as well.

Rebuilding (`serving_tier.node.rebuilding`) fetches a second index while the first is served.

H1  An index is deleted only where the catalog says that its table was dropped, or that this node does not hold it. An
    index of a table that the catalog has never heard of is left alone: perhaps the catalog is what is wrong.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from copy import copy
from functools import partial
from itertools import islice
from typing import Final

from log_tier.catalog.catalog import Maps
from log_tier.catalog.cluster_map import ClusterMap, TableEntry
from log_tier.catalog.map_follower import Leave, MapFollower
from log_tier.concurrency.background import Failed, only_logged
from log_tier.concurrency.broadcast import Broadcast
from log_tier.concurrency.persistent_map import PersistentMap
from log_tier.concurrency.sized_work import Turn
from log_tier.concurrency.tasks import every_step
from log_tier.concurrency.threads import Progress
from log_tier.model.errors import (
    DuramenError,
    LogDamaged,
    UnknownFormat,
)
from log_tier.model.identifiers import NOTHING, Offset, PartitionId, TableId
from serving_tier.locations.allowed import ANY_LOCAL, AllowedLocations
from serving_tier.node.absence import absence
from serving_tier.node.bootstrap import Bootstrap, PendingReplica, replay_only
from serving_tier.node.bring_up import BringUp
from serving_tier.node.node import Node, RestingReplica
from serving_tier.node.rebuilding import Rebuilding
from serving_tier.node.replica_files import tidy
from serving_tier.node.staging import FetchVersion, Staging, fetch_version
from serving_tier.replica.observer import ReplicaEvent
from serving_tier.replica.replica import Replica

__all__ = ["LOOKED_AT_MAX", "Bootstrap", "Hosting", "PendingReplica", "replay_only"]

logger = logging.getLogger(__name__)

LOOKED_AT_MAX: Final = 200
"""Replicas whose versions are looked at in one turn, 8 µs each; of unchanged tables as many with each map."""

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
        self._wanted: dict[PartitionId, tuple[TableEntry, int]] = {}
        self._tables: PersistentMap[TableId, TableEntry] = PersistentMap()
        """The tables that were compared last."""
        self._versioned: set[TableId] = set()
        """The compared tables that have versions."""
        self._looking: Iterator[PartitionId] = iter(())
        """Their replicas that were not looked at yet, in the present round."""
        self._opening_resting = asyncio.Lock()
        """Held while replicas are opened without a look at their files: between the look at who has a lock, and the
        hosting, the log is asked."""
        self._listed: dict[TableId, set[str]] = {}
        """The names in the tables' folders, until the first comparison."""
        self._leave: Leave | None = None
        self._moved = Broadcast()
        self._compared = NOTHING
        self.staging = Staging(maps, node, replace=self._replace, fetch=fetch)
        self._bring_up = BringUp(
            node,
            self._wanted,
            bootstrap=bootstrap,
            moved=self._moved,
            forget_versions=self.staging.forget,
            ended=lambda name: self.staging.compare(maps.map, [name]),
        )

    @classmethod
    async def open(
        cls,
        follower: MapFollower,
        node: Node,
        *,
        node_id: str,
        identity: str,
        bootstrap: Bootstrap = replay_only,
        allowed: AllowedLocations = ANY_LOCAL,
        failed: Failed = only_logged,
    ) -> Hosting:
        """Begin to host what the map says. Returns when the first comparison was made, not when all is open.

        `allowed`: where it fetches versions from. `failed`: see `MapFollower.follow`.
        """
        maps = follower.maps
        fetch = partial(fetch_version, allowed=allowed)
        hosting = cls(maps, node, node_id=node_id, identity=identity, bootstrap=bootstrap, fetch=fetch)
        node.absent = hosting._absent
        node.owner = hosting._hear
        hosting._listed = await asyncio.to_thread(tidy, node.folder, maps.map, node_id)
        hosting._leave = await follower.follow(
            lambda cluster: hosting._compare(cluster), name=f"hosting {node_id}", failed=failed
        )
        return hosting

    @property
    def pending(self) -> dict[PartitionId, PendingReplica]:
        """The replicas that are being brought up, and how far that is."""
        return self._bring_up.pending

    # --- comparing

    async def _compare(self, cluster: ClusterMap) -> None:
        """Only tables that changed are looked at: a map of thousands of them comes with every new one."""
        before, self._tables = self._tables, cluster.tables
        changed_ids, gone_ids = cluster.tables.since(before)
        changed = [cluster.tables[table_id] for table_id in changed_ids]
        self._versioned.difference_update(gone_ids, changed_ids)
        self._versioned.update(table.id for table in changed if table.versions)
        gone = [name for table_id in gone_ids for name in before[table_id].partition_ids()]
        turn = Turn()
        for table in changed:
            gone += await self._compare_table(table, before.get(table.id), cluster)
            if turn.is_full(table.partitions):
                await turn.end()
        for name in gone:
            self._wanted.pop(name, None)
        await self._open_missing([name for table in changed for name in table.partition_ids()])
        if len(self.node.hosted()) + len(self._bring_up) < len(self._wanted):
            await self._open_missing(list(self._wanted))  # one that was not opened for a bug of ours, at another map
        await asyncio.gather(*(self._let_go(name, cluster) for name in gone))
        names = [name for table in changed for name in table.partition_ids()]
        names += self._versioned_names(cluster)
        for begin in range(0, len(names), LOOKED_AT_MAX):
            self.staging.compare(cluster, names[begin : begin + LOOKED_AT_MAX])
            await turn.end()
        self._compared = cluster.version
        self._moved.notify_all()

    def _versioned_names(self, cluster: ClusterMap) -> list[PartitionId]:
        """Some replicas of tables with versions, others with the next map: what a version's task left undone, because
        the map changed meanwhile, is done then.
        """
        names = list(islice(self._looking, LOOKED_AT_MAX))
        if len(names) < LOOKED_AT_MAX:
            tables = [cluster.tables[table_id] for table_id in sorted(self._versioned)]
            self._looking = (name for table in tables for name in table.partition_ids())
            names += islice(self._looking, LOOKED_AT_MAX - len(names))
        return names

    async def _open_missing(self, names: Sequence[PartitionId]) -> None:
        """Open those of `names` that this node should have and has not, or begin to bring them up."""
        missing = [name for name in names if self._is_missing(name)]
        await self._open_resting(missing)
        for name in missing:
            if self._is_missing(name):
                self._bring_up.start(name, self._wanted[name][0].topic)

    def _is_missing(self, name: PartitionId) -> bool:
        return name in self._wanted and name not in self.node.hosted() and name not in self._bring_up

    async def _open_resting(self, names: Sequence[PartitionId]) -> None:
        """Open in one go what needs no look at a file: nearly everything, after a restart."""
        async with self._opening_resting:
            missing: dict[TableId, list[PartitionId]] = {}
            for name in names:
                if not self._bring_up.is_locked(name):
                    missing.setdefault(name[0], []).append(name)
            found: list[RestingReplica] = []
            for table_id, bounds in (await self.node.bounds_of(list(missing))).items():
                for name in missing[table_id]:
                    table, rank = self._wanted[name]
                    start, ends = table.start(name[1]), bounds[name[1]]
                    found.append(RestingReplica(table.topic, name, start, rank, ends, table.definition))
            listed, self._listed = self._listed, {}
            await self.node.host_resting(found, listed)

    async def _compare_table(
        self, table: TableEntry, before: TableEntry | None, cluster: ClusterMap
    ) -> list[PartitionId]:
        """Take over what a table's entry wants of this node; return the replicas that it wants no more."""
        gone: list[PartitionId] = []
        for name in table.partition_ids():
            nodes = [replica.node for replica in table.assignments[name.partition]]
            if self.node_id not in nodes:
                if name in self._wanted or name in self.node.hosted():
                    gone.append(name)
                continue
            rank = nodes.index(self.node_id)
            if (
                before is not None
                and name in self._wanted
                and before.start(name.partition) != table.start(name.partition)
            ):
                # Another table over the same topic of others, made before we saw that the first one was dropped.
                await self._let_go(name, cluster)
            self._wanted[name] = table, rank
            self.node.set_rank(name, rank)
        return gone

    async def _let_go(self, name: PartitionId, cluster: ClusterMap) -> None:
        await self._bring_up.let_go(name, lambda: self._absence(cluster, name))

    # --- replicas that stopped

    def _hear(self, replica: Replica, event: ReplicaEvent) -> None:
        """Something happened to a hosted replica."""
        if event in ("damaged", "stopped"):
            self._bring_up.note_stop(replica)
        match event:
            case "damaged":
                # It is discarded, and brought up again from a snapshot, a peer or the log.
                self._bring_up.begin_anew(replica, delete=True)
            case "stopped":
                # It is opened again. An index that the log no longer carries on is discarded there. A damaged log,
                # or one of a later version, would stop it again: then the replica stays and serves what it has.
                if not isinstance(replica.failure, (LogDamaged, UnknownFormat)):
                    self._bring_up.begin_anew(replica, delete=False)
            case "version_missing":
                self.staging.version_missing(replica)
            case "switched":
                self.staging.compare(self.maps.map, [replica.id])

    def _replace(self, replica: Replica) -> None:
        """For `staging`: discard the whole replica and bring it up anew."""
        self._bring_up.begin_anew(replica, delete=True)

    async def rebuild(self, name: PartitionId, *, source: str = "auto", progress: Progress) -> str:
        """Fetch a replica's index anew and put it in the old one's place; returns where it came from.

        The old one is read until the new one is level with the log. Raises what kept it; the old one then stays.
        """
        table = self.maps.map.table(name[0])
        async with self._bring_up.lock(name):
            async with self._opening_resting:
                pass  # a replica that is being opened at rest was looked at before this took its lock
            rebuilding = Rebuilding(
                self.node, self.staging, self._bring_up.fetched, table, name, rank=lambda: self._rank(name)
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
        names = [] if table is None else list(table.partition_ids())
        while any(
            name in self._wanted and name not in self.node.hosted() and name not in self.node.refusals for name in names
        ):
            await self._moved.wait()

    async def settled(self) -> None:
        """`wait_hosted` for all tables."""
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
        leave = () if self._leave is None else (self._leave,)
        await every_step(*leave, self.staging.close, self._bring_up.close)
