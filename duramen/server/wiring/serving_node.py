"""A serving node, wired: everything between a log with its catalog and the node's endpoints.

    log ──▶ replicas (Node) ◀── Hosting ◀── catalog ──▶ JobWorker ──▶ snapshots, moves, restores …
              │      ▲                                      │
              │   LogEnds (how far behind)                  │
              └──────── status (`serving_tier.service`) ◀────┘

One machine's database has one of these inside; the node role has one and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from log_tier.catalog.catalog import Catalog
from log_tier.catalog.cluster_map import NodeEntry, address_for_servers
from log_tier.catalog.map_follower import MapFollower
from log_tier.concurrency.background import failing
from log_tier.concurrency.clocks import SYSTEM_CLOCK, Clock
from log_tier.concurrency.workers import THREADS, Workers
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import Offset, PartitionId
from log_tier.model.log import Log
from serving_tier.jobs.actions import node_actions
from serving_tier.jobs.bootstrapping import node_bootstrap
from serving_tier.jobs.log_trimmer import ROUND_S, LogTrimmer
from serving_tier.jobs.snapshotting import KEEP_DEFAULT, NodeSnapshots
from serving_tier.jobs.worker import JobWorker
from serving_tier.locations.allowed import ANY_LOCAL, AllowedLocations, allowed_of
from serving_tier.names import INDEX_FOLDER, SNAPSHOTS_FOLDER
from serving_tier.node.hosting import Hosting
from serving_tier.node.log_ends import LogEnds
from serving_tier.node.node import Node
from serving_tier.node.node_load import Load
from serving_tier.proof.running_proof import RunningProof
from serving_tier.snapshots.peer_copy import CopySource
from serving_tier.snapshots.snapshot_store import SnapshotStore

__all__ = ["ON_DEMAND", "ServingNode", "SnapshotPolicy"]

logger = logging.getLogger(__name__)

# A node that is alive reports within milliseconds; one that takes longer counts as not alive.
_STATUS_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class SnapshotPolicy:
    """The store and the schedule of snapshots."""

    url: str = ""
    """The store's URL; empty: the folder `snapshots` of the node's own data."""
    every_s: float = 0.0
    """Seconds between two snapshots of a partition that changed; 0: only on demand."""
    keep: int = KEEP_DEFAULT
    """How many of each partition stay."""

    def allowed(self, named: Iterable[str], *, host: str, folder: Path) -> AllowedLocations:
        """What a node that listens on `host`, with its data in `folder`, opens for its callers: its own store, and
        `named`. Raises `InvalidRequest` for a name that is no location.
        """
        own = self.url or str(folder / SNAPSHOTS_FOLDER)
        own = own if "://" in own else os.path.abspath(own)
        return allowed_of(named, host=host, own=own)


ON_DEMAND: Final = SnapshotPolicy()
"""Snapshots in the node's own data, when an operator asks for one."""


class ServingNode:
    """An open node. `open()` makes one, `close()` ends it; log and catalog are their owner's."""

    def __init__(
        self,
        follower: MapFollower,
        hosting: Hosting,
        worker: JobWorker,
        snapshots: NodeSnapshots,
        proof: RunningProof,
        folder: Path,
        ended: asyncio.Future[DuramenError],
        opened: AsyncExitStack,
    ) -> None:
        self.follower = follower
        """Follows the map for everything in this process that acts on a change of it."""
        self.hosting = hosting
        self.worker = worker
        self.snapshots = snapshots
        self.proof = proof
        self.load = Load()
        """What is under way here; the endpoints count it, the status reports it."""
        self.folder = folder
        self.ended = ended
        """Set with the reason when a background task of this node ended by itself: it must not go on."""
        self._opened = opened

    @classmethod
    async def open(
        cls,
        log: Log,
        catalog: Catalog,
        folder: Path,
        *,
        node_id: str,
        identity: str,
        snapshots: SnapshotPolicy = ON_DEMAND,
        allowed: AllowedLocations = ANY_LOCAL,
        retention_round_s: float = ROUND_S,
        clock: Clock = SYSTEM_CLOCK,
        workers: Workers = THREADS,
    ) -> ServingNode:
        """Host what the catalog gives `node_id`, with everything below `folder`. It has been registered before.

        `allowed`: the locations of versions that it opens. `retention_round_s`: seconds between two rounds in which
        tables' retention shortens their logs.

        Returns when the replicas that the map names begin to be opened. Raises `InvalidRequest` for a snapshot store
        that no library here can open.
        """
        ended: asyncio.Future[DuramenError] = asyncio.get_running_loop().create_future()
        failed = failing(ended)
        async with AsyncExitStack() as opened:
            node = await Node.open(log, folder / INDEX_FOLDER, clock=clock, failed=failed, workers=workers)
            opened.push_async_callback(node.close)
            store = SnapshotStore.open(snapshots.url or _local_store(folder))
            follower = MapFollower(catalog)
            hosting = await Hosting.open(
                follower,
                node,
                node_id=node_id,
                identity=identity,
                bootstrap=node_bootstrap(log, catalog, node_id=node_id, store=store, peer=_peer),
                allowed=allowed,
                failed=failed,
            )
            opened.push_async_callback(hosting.close)
            ends = LogEnds.open(log, node.hosted, clock=clock.monotonic_s, busy_s=clock.busy_s, failed=failed)
            opened.push_async_callback(ends.close)
            taken = await NodeSnapshots.open(
                catalog,
                hosting,
                store,
                keep=snapshots.keep,
                every_s=snapshots.every_s or None,
                clock=clock,
                failed=failed,
            )
            opened.push_async_callback(taken.close)
            worker = await JobWorker.open(
                catalog, follower, node_id=node_id, actions=node_actions(log, hosting, taken), failed=failed
            )
            opened.push_async_callback(worker.close)
            trimmer = await LogTrimmer.open(
                log, catalog, hosting, store, _peer_applied, round_s=retention_round_s, failed=failed
            )
            opened.push_async_callback(trimmer.close)
            proof = await RunningProof.open(log, node, failed=failed)
            opened.push_async_callback(proof.close)
            return cls(follower, hosting, worker, taken, proof, folder, ended, opened.pop_all())
        raise AssertionError("not reached")

    async def close(self) -> None:
        """Stop working and hosting, close every index cleanly. Idempotent."""
        await self._opened.aclose()


def _peer(entry: NodeEntry) -> CopySource:
    # Here, because a database in a program has no peers and need not load gRPC for them.
    from serving_tier.service.peer import NodePeer

    return NodePeer(entry.id, address_for_servers(entry))


async def _peer_applied(entry: NodeEntry) -> Mapping[PartitionId, Offset]:
    from serving_tier.service.peer import NodePeer

    return await NodePeer(entry.id, address_for_servers(entry)).applied(timeout=_STATUS_S)


def _local_store(folder: Path) -> str:
    return f"file://{quote(str((folder / SNAPSHOTS_FOLDER).absolute()))}"
