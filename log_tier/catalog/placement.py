"""Where replicas go, and the map in which they are there. Pure, and used by the fold: two processes that place a table
place it alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from log_tier.catalog.cluster_map import Assignment, ClusterMap, ReplicaRole
from log_tier.catalog.decisions import CommandRefused
from log_tier.catalog.jobs import Task
from log_tier.model.identifiers import TableId

__all__ = [
    "candidates",
    "loads",
    "place_replicas",
    "with_assigned",
    "with_draining",
    "with_replicas",
    "with_role",
    "without_replica",
]


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


def with_assigned(cluster: ClusterMap, task: Task, assigned: tuple[Assignment, ...]) -> ClusterMap:
    """The map in which the replicas of the task's partition are at `assigned`."""
    table, number = cluster.tables[task.table], task.partition
    assignments = (*table.assignments[:number], assigned, *table.assignments[number + 1 :])
    return cluster.with_table(replace(table, assignments=assignments))


def with_role(cluster: ClusterMap, task: Task, node: str, role: ReplicaRole) -> ClusterMap:
    """The map in which the replica of the task's partition at `node` has `role`."""
    table = cluster.tables[task.table]
    assigned = tuple(
        Assignment(node, role) if replica.node == node else replica for replica in table.assignments[task.partition]
    )
    return with_assigned(cluster, task, assigned)


def without_replica(cluster: ClusterMap, task: Task, node: str) -> ClusterMap:
    """The map in which `node` has no replica of the task's partition."""
    table = cluster.tables[task.table]
    assigned = tuple(replica for replica in table.assignments[task.partition] if replica.node != node)
    return with_assigned(cluster, task, assigned)


def with_draining(cluster: ClusterMap, node: str, *, draining: bool) -> ClusterMap:
    """The map in which a node gets no new replicas, or may have them again. Raises `CommandRefused`."""
    entry = cluster.nodes.get(node)
    if entry is None:
        if draining:
            raise CommandRefused(
                f"there is no node {node!r}; registered are {', '.join(sorted(cluster.nodes)) or 'none'}"
            )
        return cluster
    return replace(cluster, nodes={**cluster.nodes, node: replace(entry, draining=draining)})


def with_replicas(cluster: ClusterMap, arguments: Mapping[str, int | str]) -> ClusterMap:
    """The map in which a table wants another number of replicas. Raises `CommandRefused`."""
    table = cluster.tables.get(TableId(str(arguments.get("table"))))
    wanted = arguments.get("replicas")
    if table is None or not isinstance(wanted, int) or wanted < 1:
        raise CommandRefused(f"set-replicas names table {arguments.get('table')!r} and {wanted!r} replicas")
    return cluster.with_table(replace(table, replicas=wanted))
