"""What a planner sees: one map and one view of the nodes, taken together. A value, so a plan is reproducible."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from log_tier.catalog.cluster_map import Assignment, ClusterMap, TableEntry
from log_tier.catalog.placement import candidates
from log_tier.model.errors import CommandRejected, InvalidRequest, TableNotFound
from log_tier.model.identifiers import PartitionId
from router.membership.views import NodeView, ReplicaView, ReportedState

__all__ = ["Situation"]

_ABSENT = ReplicaView(state=ReportedState.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Situation:
    """The cluster as it should be, and as its nodes say it is."""

    cluster: ClusterMap
    nodes: Mapping[str, NodeView]

    def is_alive(self, node: str) -> bool:
        """Does the node's status stream arrive?"""
        view = self.nodes.get(node)
        return view is not None and view.alive

    def takers(self) -> list[str]:
        """The nodes that may get a replica now: there, and not being drained. By id."""
        return [node for node in candidates(self.cluster) if self.is_alive(node)]

    def replica(self, partition: PartitionId, node: str) -> ReplicaView:
        """What a node says of a replica; state `unknown` where it says nothing, or is lost."""
        view = self.nodes.get(node)
        if view is None or not view.alive:
            return _ABSENT
        return view.replicas.get(partition, _ABSENT)

    def is_ready(self, partition: PartitionId, node: str) -> bool:
        """The partition can be read at `node`, level with the log."""
        return self.replica(partition, node).state == ReportedState.READY

    def bytes_of(self, partition: PartitionId) -> int:
        """How much a new replica of a partition has to copy: the largest that a live one has, else the newest snapshot;
        0 where nobody knows.
        """
        assigned = self.cluster.table(partition.table).assignments[partition.partition]
        held = [self.replica(partition, node).bytes for node, _ in assigned]
        known = self.cluster.snapshots_of(partition)
        return max(held, default=0) or (known[-1].bytes if known else 0)

    def workers(self, partition: PartitionId) -> list[str]:
        """Live nodes that can do something with their replica of a partition; those that are ready first."""
        readable = self.cluster.table(partition.table).readable(partition.partition)
        live = [node for node in readable if self.is_alive(node)]
        return sorted(live, key=lambda node: (not self.is_ready(partition, node), node))

    def held_by(self, node: str) -> Iterator[tuple[TableEntry, PartitionId, Assignment]]:
        """What a node holds, by table name and partition."""
        for table in sorted(self.cluster.tables.values(), key=lambda table: table.name):
            for number, assigned in enumerate(table.assignments):
                for replica in assigned:
                    if replica.node == node:
                        yield table, table.partition(number), replica

    def changing(self) -> set[PartitionId]:
        """Partitions whose replicas a job that is not over is changing."""
        return {task.partition_id for _, task in self.cluster.changing()}

    def check_node(self, node: str) -> None:
        """Raises `InvalidRequest` naming the nodes that are there."""
        if node not in self.cluster.nodes:
            known = ", ".join(sorted(self.cluster.nodes)) or "none"
            raise InvalidRequest(f"there is no node {node!r}; the registered nodes are: {known}")

    def table(self, name: str, partition: int | None = None) -> TableEntry:
        """A table, which has that partition. Raises `TableNotFound`, `InvalidRequest`."""
        if not name:
            raise TableNotFound("no table was named: give its name")
        table = self.cluster.find(name)
        if partition is not None and not 0 <= partition < table.partitions:
            raise InvalidRequest(f"table {name} has partitions 0 to {table.partitions - 1}, not {partition}")
        return table

    def tables(self, name: str = "") -> list[TableEntry]:
        """The named table, or all of them by name."""
        if name:
            return [self.table(name)]
        return sorted(self.cluster.tables.values(), key=lambda table: table.name)

    def lost(self, node: str) -> str:
        """Why a node counts as lost, for a message."""
        view = self.nodes.get(node)
        return (view.reason if view is not None else "") or "it was not heard of"

    def refusal(self, message: str) -> CommandRejected:
        """A plan that this cluster does not allow."""
        return CommandRejected(message, version=self.cluster.version)
