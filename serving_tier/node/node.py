"""A serving node: the replicas that this process has open, by table and partition.

`serving_tier.node.hosting` decides which ones those should be; a node opens, finds and closes them. It owns the
applier's thread, and the expiry of keys in idle partitions (`serving_tier.node.idle_expiry`).
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from log_tier.concurrency.background import Failed, only_logged
from log_tier.concurrency.clocks import SYSTEM_CLOCK, Clock
from log_tier.concurrency.descriptors import descriptor_shares
from log_tier.concurrency.persistent_map import PersistentMap
from log_tier.concurrency.tasks import to_the_end
from log_tier.concurrency.workers import THREADS, Workers
from log_tier.model.errors import DuramenError, NotHosted
from log_tier.model.identifiers import FIRST, Offset, PartitionId, TableId
from log_tier.model.log import Bounds, Log, Topic
from log_tier.privacy.private_files import make_private
from log_tier.rows.definition import TableDefinition
from log_tier.tally.proof import ReplicaProof
from serving_tier.disk import NODE_DISK
from serving_tier.folders import clear_away
from serving_tier.index.divergence import may_differ
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.index.lmdb.open_environments import OpenEnvironments
from serving_tier.names import is_version_of
from serving_tier.node.deliveries import Deliveries
from serving_tier.node.idle_expiry import IdleExpiry
from serving_tier.replica.applier import Applier
from serving_tier.replica.observer import ReplicaEvent
from serving_tier.replica.replica import Replica, ReplicaListener
from serving_tier.replica.version_folders import ReplicaFolder, remove_versions
from serving_tier.text.node_texts import NodeTexts

__all__ = ["Node", "RestingReplica"]

logger = logging.getLogger(__name__)

# Replicas that are opened at rest in one turn of the event loop: some 5 ms.
_RESTING_RUN: Final = 100

# Tables whose bounds are fetched at the same time.
_ASKED_AT_ONCE: Final = 64


class RestingReplica(NamedTuple):
    """A replica that may be hosted without a look at its file."""

    topic: Topic
    partition: PartitionId
    start: Offset
    """The first offset of the table."""
    rank: int
    bounds: Bounds
    """The bounds of its log."""
    definition: TableDefinition | None = None
    """What the table's keys and values are; None: bytes."""


class Node:
    """Holds replicas. `open()` makes one; `close()` closes every index cleanly."""

    def __init__(
        self,
        log: Log,
        folder: Path,
        *,
        clock: Clock = SYSTEM_CLOCK,
        workers: Workers = THREADS,
    ) -> None:
        self._log = log
        self.folder = folder
        """Below it, an index folder for each replica: table id / partition."""
        self.clock = clock
        self._applier = Applier(workers, stopwatch_s=clock.monotonic_s)
        self.apply_s = self._applier.job_s
        """How long the work of the replicas' applier took: folds, most of all."""
        self._environments = OpenEnvironments(descriptor_shares().environments)
        # Replaced and never changed in place: other threads look into it without a lock.
        self._replicas: PersistentMap[PartitionId, Replica] = PersistentMap()
        self._ranks: dict[PartitionId, int] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        """Replicas that are being closed and are not hosted any more."""
        self.refusals: dict[PartitionId, DuramenError] = {}
        """The errors of replicas that should be open and could not be opened."""
        self.absent: Callable[[PartitionId], DuramenError] = _not_hosted
        """The error for a partition that is not here; `Hosting` replaces it by one that knows the cluster."""
        self.owner: ReplicaListener = _only_logged
        """Called with each event of a hosted replica."""
        self.proofs: dict[PartitionId, ReplicaProof] = {}
        """How far the replicas here are proven to have all of the log (`serving_tier.proof`)."""
        self.deliveries = Deliveries()
        """What subscriptions to the replicas here were given."""
        self.idle_expiry = IdleExpiry(log, rank=self.rank, clock_ms=clock.wall_ms)
        self.texts = NodeTexts(log, workers)

    @classmethod
    async def open(
        cls,
        log: Log,
        folder: Path,
        *,
        clock: Clock = SYSTEM_CLOCK,
        failed: Failed = only_logged,
        workers: Workers = THREADS,
    ) -> Node:
        """Open a node that keeps its indexes below `folder`; it hosts nothing yet. `failed`: see `run_forever`."""
        await asyncio.to_thread(make_private, folder)
        node = cls(log, folder, clock=clock, workers=workers)
        node._applier.start()
        node.idle_expiry.start(failed=failed)
        return node

    def replica_folder(self, partition: PartitionId) -> Path:
        """The folder of a replica's index."""
        return self.folder.joinpath(partition.table, str(partition.partition))

    async def host(
        self,
        topic: Topic,
        partition: PartitionId,
        *,
        start: Offset = FIRST,
        rank: int = 0,
        source: str = "log",
        repair: bool = True,
        definition: TableDefinition | None = None,
    ) -> Replica:
        """Open one partition's index, or make it, and follow the log. `source`: where its content came from.
        `start`: the first offset of the table. `definition`: what its keys and values are; None: bytes.

        `repair`: an index that cannot be trusted is discarded and folded from the log; else that raises
        `IndexDamaged`. Raises what `Replica.open` raises; `replica()` raises it again until another try succeeds.
        """
        assert partition not in self._replicas, f"{topic.name}/{partition.partition} is hosted already"
        try:
            folder = self._folder_of(partition, self.replica_folder(partition), start, definition)
            replica = await Replica.open(
                topic,
                folder,
                log=self._log,
                applier=self._applier,
                repair=repair,
                clock=self.clock.monotonic_s,
            )
        except DuramenError as error:
            self.refusals[partition] = error
            raise
        replica.source = source
        self._add(replica, rank)
        return replica

    def _add(self, replica: Replica, rank: int) -> None:
        # The owner is looked up at each event: a node is opened before its `Hosting`.
        replica.owner = lambda replica, event: self.owner(replica, event)
        self.refusals.pop(replica.id, None)
        self._ranks[replica.id] = rank
        self._replicas = self._replicas.with_entry(replica.id, replica)
        self.idle_expiry.watch(replica)
        self.texts.watch(replica)

    async def host_resting(
        self, wanted: Sequence[RestingReplica], listed: Mapping[TableId, Collection[str]] = MappingProxyType({})
    ) -> None:
        """Host those of `wanted` whose index need not be looked at: it has no file yet and nothing to fold, or its
        folder says what it holds (`serving_tier.index.lmdb.summary`) and the log can carry that on.

        The others are left to `host`, which knows what to do about them. Some 0.1 ms each, whatever their sizes.
        `listed`: what is in the folders of tables that were listed just now.
        """
        found = await asyncio.to_thread(self._resting, wanted, listed)
        for at in range(0, len(found), _RESTING_RUN):
            for one, folder, index in found[at : at + _RESTING_RUN]:
                replica = Replica(
                    one.topic,
                    folder,
                    index,
                    log=self._log,
                    applier=self._applier,
                    latest=one.bounds.latest,
                    clock=self.clock.monotonic_s,
                )
                replica.follow()
                self._add(replica, one.rank)
            await asyncio.sleep(0)

    def _resting(
        self, wanted: Sequence[RestingReplica], listed: Mapping[TableId, Collection[str]]
    ) -> list[tuple[RestingReplica, ReplicaFolder, LmdbIndex]]:
        found: list[tuple[RestingReplica, ReplicaFolder, LmdbIndex]] = []
        known = dict(listed)
        for one in wanted:
            table_id, number = one.partition
            names = known.get(table_id)
            if names is None:
                names = known[table_id] = _names_in(f"{self.folder}/{table_id}")
            folder_name = str(number)
            if any(is_version_of(name, folder_name) for name in names):
                continue
            if one.bounds.lost or (folder_name not in names and one.bounds.latest >= one.start):
                continue  # `host` fetches a copy from a peer, or folds the log
            try:
                path = self.replica_folder(one.partition)
                folder = self._folder_of(one.partition, path, one.start, one.definition)
                index = folder.at_rest()
            except (DuramenError, OSError):
                continue  # `host` meets it again, and raises it
            if (
                index is not None
                and one.bounds.earliest - 1 <= index.applied <= one.bounds.latest
                and index.version == index.live.version
                and not may_differ(index.last_batch, index.applied, one.bounds)
            ):
                found.append((one, folder, index))
        return found

    async def bounds_of(self, table_ids: Sequence[TableId]) -> dict[TableId, list[Bounds]]:
        """The bounds of tables' logs, by partition. Tables whose log does not answer now are left out."""
        left, found = iter(table_ids), dict[TableId, list[Bounds]]()

        async def ask() -> None:
            for table_id in left:
                with suppress(DuramenError):
                    found[table_id] = await self._log.all_bounds(table_id)
                await asyncio.sleep(0)  # a log in this process answers without a turn of the loop

        await asyncio.gather(*(ask() for _ in range(min(_ASKED_AT_ONCE, len(table_ids)))))
        return found

    async def open_aside(
        self,
        topic: Topic,
        partition: PartitionId,
        folder: Path,
        *,
        start: Offset = FIRST,
        definition: TableDefinition | None = None,
    ) -> Replica:
        """Open a second replica of a hosted partition, in another folder; reads do not use it."""
        place = self._folder_of(partition, folder, start, definition)
        return await Replica.open(
            topic, place, log=self._log, applier=self._applier, repair=False, clock=self.clock.monotonic_s
        )

    def _folder_of(
        self, partition: PartitionId, path: Path, start: Offset, definition: TableDefinition | None
    ) -> ReplicaFolder:
        return ReplicaFolder(path, partition, start, self._environments, definition)

    def set_rank(self, name: PartitionId, rank: int) -> None:
        """Set a replica's place among those of its partition; rank 0 does the work that only one should do."""
        self._ranks[name] = rank

    def rank(self, name: PartitionId) -> int:
        """The place that `set_rank` gave a replica; 0 where none was given."""
        return self._ranks.get(name, 0)

    async def unhost(self, partition: PartitionId, reason: DuramenError, *, delete: bool = True) -> None:
        """Close a replica; its waiters get `reason`. With `delete` its index is removed, when it is closed.

        A caller that is cancelled meanwhile goes on when that is done.
        """
        replica = self._replicas.get(partition)
        if replica is not None:
            self._replicas = self._replicas.without(partition)
            self.idle_expiry.forget(replica)
        self._ranks.pop(partition, None)
        self.refusals.pop(partition, None)
        folder = self.replica_folder(partition) if delete else None
        leaving = asyncio.create_task(
            _leave(replica, reason, folder, self.texts), name=f"let go of {partition[0]}/{partition[1]}"
        )
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)
        await to_the_end(leaving)

    def replica(self, partition: PartitionId) -> Replica:
        """The replica of one partition. Raises `NotHosted`, `TableNotFound`, or why that partition is not served."""
        replica = self._replicas.get(partition)
        if replica is not None:
            return replica
        refusal = self.refusals.get(partition)
        if refusal is not None:
            raise copy(refusal)
        raise self.absent(partition)

    def hosted(self) -> PersistentMap[PartitionId, Replica]:
        """All replicas by table and partition; the mapping is never changed in place."""
        return self._replicas

    def __iter__(self) -> Iterator[Replica]:
        return iter(self._replicas.values())

    async def wait_ready(self) -> None:
        """Return when every hosted replica has caught up or stopped."""
        for replica in list(self):
            with suppress(DuramenError):  # a stopped replica answers for itself, when it is read
                await replica.wait_ready()

    async def close(self) -> None:
        """Close every replica cleanly, then end the applier. What fails is raised after the rest was closed; a caller
        that is cancelled goes on when all are closed.
        """
        await to_the_end(self._close())

    async def _close(self) -> None:
        try:
            await self.idle_expiry.close()
            await self.texts.close()
        finally:
            try:
                await _close_all(list(self), None)
            finally:
                if self._leaving:
                    await asyncio.wait(self._leaving)
                self._replicas = PersistentMap()
                await self._applier.stop()


def _only_logged(replica: Replica, event: ReplicaEvent) -> None:
    """The listener of a node without a `Hosting`: log why a replica stopped, and do nothing else."""
    if event in ("damaged", "stopped"):
        logger.error("%s stopped: %s", replica.name, replica.failure)


def _not_hosted(partition: PartitionId) -> DuramenError:
    return NotHosted(
        f"this node holds no replica of table {partition.table} partition {partition.partition}: ask another node",
        table=partition.table,
        partition=partition.partition,
    )


async def _leave(replica: Replica | None, reason: DuramenError, folder: Path | None, texts: NodeTexts) -> None:
    """Close a replica, and then remove its `folder`, if one is given."""
    try:
        if replica is not None:
            await texts.forget(replica, reason)
            await replica.close(reason)
    finally:
        if folder is not None:
            await asyncio.to_thread(_remove, folder)


def _remove(folder: Path) -> None:
    clear_away(folder)
    remove_versions(folder)
    with suppress(OSError):  # not empty: other partitions of the table are still here
        NODE_DISK.get().remove_folder(folder.parent)


def _names_in(folder: str) -> set[str]:
    try:
        return set(os.listdir(folder))
    except FileNotFoundError:
        return set()


async def _close_all(replicas: list[Replica], reason: DuramenError | None) -> None:
    results = await asyncio.gather(*(replica.close(reason) for replica in replicas), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
