"""Where replicas go. Pure, and used by the fold: two processes that place a table place it alike."""

from __future__ import annotations

from collections.abc import Iterable

from log_tier.catalog.cluster_map import ClusterMap

__all__ = ["candidates", "loads", "place_replicas"]


def loads(cluster: ClusterMap) -> dict[str, int]:
    """How many replicas each registered node should have, those that leave not counted. As `table_facts`."""
    return {**dict.fromkeys(cluster.nodes, 0), **cluster.table_facts().loads}


def candidates(cluster: ClusterMap, *, without: Iterable[str] = ()) -> list[str]:
    """The nodes that may get a replica, by id."""
    excluded = set(without)
    return sorted(node.id for node in cluster.nodes.values() if not node.draining and node.id not in excluded)


def place_replicas(cluster: ClusterMap, *, partitions: int, replicas: int) -> list[list[str]]:
    """Nodes for each partition of a new table: the least loaded first, no node twice in a partition.

    Equal loads are settled by the id, so that the first replicas of a table, which do a little more than the others,
    go around as well. O(partitions × nodes log nodes). The caller has checked that there are enough nodes.
    """
    counted = loads(cluster)
    nodes = candidates(cluster)
    firsts = dict.fromkeys(nodes, 0)
    assert len(nodes) >= replicas, f"{replicas} replicas on {len(nodes)} nodes"
    placed: list[list[str]] = []
    for _ in range(partitions):
        chosen = sorted(nodes, key=lambda node: (counted[node], node))[:replicas]
        chosen.sort(key=lambda node: (firsts[node], node))
        firsts[chosen[0]] += 1
        for node in chosen:
            counted[node] += 1
        placed.append(chosen)
    return placed
