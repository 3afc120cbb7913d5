"""The error for a call that asks this node for a partition that it does not have."""

from __future__ import annotations

from log_tier.catalog.cluster_map import ClusterMap
from log_tier.model.errors import DuramenError, NotHosted, TableNotFound
from log_tier.model.identifiers import PartitionId
from serving_tier.node.bootstrap import PendingReplica

__all__ = ["absence"]


def absence(
    cluster: ClusterMap, partition: PartitionId, *, node_id: str, pending: PendingReplica | None
) -> DuramenError:
    """Why a partition is not here."""
    table_id, number = partition
    table = cluster.tables.get(table_id)
    if table is None:
        return TableNotFound(f"no table has the id {table_id} here: it was dropped, or never was", table=table_id)
    if not 0 <= number < table.partitions:
        return TableNotFound(
            f"table {table.name} has partitions 0 to {table.partitions - 1}, not {number}",
            table=table_id,
        )
    if pending is not None:
        return NotHosted(
            f"replica {table.name}/{number} is not open yet at node {node_id} ({pending.phase}): ask another "
            "node, or again",
            table=table_id,
            partition=number,
        )
    holders = ", ".join(table.readable(number)) or "nobody"
    return NotHosted(
        f"node {node_id} holds no replica of {table.name}/{number}; {holders} does",
        table=table_id,
        partition=number,
    )
