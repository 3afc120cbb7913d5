"""A node's `Bootstrap`: from the catalog's snapshots, the live peers, or the log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from log_tier.catalog.catalog import Maps
from log_tier.catalog.cluster_map import NodeEntry
from log_tier.model.identifiers import FIRST, PartitionId
from log_tier.model.log import Log, Topic
from serving_tier.node.hosting import Bootstrap
from serving_tier.snapshots.install import check_copy
from serving_tier.snapshots.peer_copy import CopySource
from serving_tier.snapshots.snapshot_store import SnapshotStore
from serving_tier.snapshots.source_plan import Goal, Offered, plan_sources
from serving_tier.snapshots.sources import bootstrap

__all__ = ["REPLAY_RECORDS", "node_bootstrap"]

# So many records are folded in a tenth of a second, which is less than a request for a copy takes.
REPLAY_RECORDS: Final = 10_000


def node_bootstrap(
    log: Log,
    maps: Maps,
    *,
    node_id: str,
    store: SnapshotStore | None,
    peer: Callable[[NodeEntry], CopySource],
) -> Bootstrap:
    """The bootstrap of a node: snapshot, peer, log, in this order (decision 11). `peer` makes a source of a node."""

    tried: dict[PartitionId, list[str]] = {}

    async def fill(
        topic: Topic, partition: PartitionId, folder: Path, wanted: str, progress: Callable[[str, int, int], None]
    ) -> str:
        bounds = await log.bounds(partition)
        cluster = maps.map
        table = cluster.tables.get(partition.table)
        start = FIRST if table is None else table.start(partition.partition)
        holders: Sequence[str] = () if table is None else table.readable(partition.partition)
        giving = {task.arguments.get("from") for _, task in cluster.changing() if task.partition_id == partition}
        # What a job moves away may be at a node that is lost, or that has too much already: that one is asked last.
        holders = sorted(holders, key=lambda holder: holder in giving)
        peers = [
            peer(cluster.nodes[holder])
            for holder in holders
            if holder != node_id and holder in cluster.nodes and cluster.nodes[holder].address
        ]
        offered = Offered(bounds, start, cluster.snapshots_of(partition), peers)
        version, swap = (1, None) if table is None else (table.live_version, table.last_swap)
        early = [entry.id for entry in offered.snapshots if entry.swap != swap]
        before = tried[partition] = [entry for entry in tried.get(partition, ()) if entry in early]
        goal = Goal(wanted=wanted, version=version, swap=swap, tried=before, trivial_records=REPLAY_RECORDS)
        plan = plan_sources(offered, goal)
        source = await bootstrap(
            plan,
            offered,
            same_history=partial(_same_history, log, partition),
            store=store,
            topic=topic,
            partition=partition,
            folder=folder,
            progress=progress,
            replay_max=REPLAY_RECORDS,
        )
        # A replica that is brought up once more did not come over a barrier with this one: others are tried first.
        before += [entry for entry in early if source.startswith(f"snapshot {entry} ") and entry not in before]
        return source

    return fill


async def _same_history(log: Log, partition: PartitionId, folder: Path, name: str) -> None:
    await check_copy(log, folder, partition=partition, name=name)
