"""Situations for the planners' tests: a map that the catalog's own fold takes, and nodes that say what they should."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from log_tier.catalog.catalog_fold import fold_command
from log_tier.catalog.cluster_map import Assignment, ClusterMap, SnapshotEntry, TableEntry
from log_tier.catalog.commands import AddSnapshot, Command, RegisterNode
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId
from router.admin.planners.cluster_view import Situation
from router.membership.views import NodeView, ReplicaView

ZERO = Partition(0)


def folded(cluster: ClusterMap, *commands: Command) -> ClusterMap:
    """The map after these commands, none of which may be rejected."""
    for command in commands:
        offset = Offset(cluster.version + 1)
        cluster, decision = fold_command(cluster, offset, 1000 + offset, f"test {offset}", command)
        assert not decision.rejection, decision.rejection
    return cluster


def with_nodes(*nodes: str) -> ClusterMap:
    return folded(ClusterMap(), *(RegisterNode(node, f"{node}:1", node) for node in nodes))


def with_table(
    cluster: ClusterMap, assignments: Sequence[str], *, name: str = "flights", replicas: int | None = None
) -> ClusterMap:
    """A table whose partitions are held by these nodes: ["n1 n2", "n2 n3"]."""
    assigned = tuple(tuple(Assignment(node, "member") for node in nodes.split()) for nodes in assignments)
    table = TableEntry(TableId(name.ljust(22, "x")), name, len(assigned), replicas or len(assigned[0]), assigned)
    return cluster.with_table(table)


def with_snapshot(cluster: ClusterMap, table: TableEntry, partition: int, offset: int, **fields: int) -> ClusterMap:
    entry = SnapshotEntry(
        f"{table.name}-{partition}-{offset}",
        table.id,
        Partition(partition),
        Offset(offset),
        fields.get("log_time_ms", offset),
        keys=1,
        bytes=fields.get("bytes", 700),
        path="path",
        node="n1",
    )
    return folded(cluster, AddSnapshot(entry))


def seen(
    cluster: ClusterMap,
    *,
    lost: Sequence[str] = (),
    behind: Mapping[str, str] | None = None,
    sizes: Mapping[int, int] | None = None,
    loads: Mapping[str, int] | None = None,
) -> Situation:
    """Every node there with all its replicas ready, but for those that are `lost`, or whose replicas are `behind`."""
    views: dict[str, NodeView] = {}
    for node, entry in cluster.nodes.items():
        if node in lost:
            views[node] = NodeView(node, entry.address, reason="it was switched off")
            continue
        state = (behind or {}).get(node, "ready")
        replicas = {
            PartitionId(table.id, partition): ReplicaView(
                Offset(99), Offset(99), state=state, bytes=(sizes or {}).get(partition, 1000), keys=10
            )
            for table, partition, _ in cluster.held_by(node)
        }
        views[node] = NodeView(node, entry.address, alive=True, replicas=replicas, load=(loads or {}).get(node, 0))
    return Situation(cluster, views)
