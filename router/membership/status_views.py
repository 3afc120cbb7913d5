"""From status messages to views. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from log_tier.model.identifiers import NOTHING, Offset, Partition, PartitionId, table_id_from_bytes
from router.membership.views import NodeView, ReplicaView, TaskView
from serving_tier.proto import node_pb2

__all__ = ["renewed"]


def renewed(view: NodeView, message: node_pb2.NodeStatus, *, first: bool, clock_ms: int) -> NodeView:
    """The view after a message. `first`: the stream's first one, which names every replica. O(replicas)
    where something of them has changed.

    `clock_ms`: this process's clock, ms since 1970.
    """
    replicas: Mapping[PartitionId, ReplicaView] = view.replicas
    if first or message.gone or message.replicas:
        replicas = _changed({} if first else dict(replicas), message)
    return NodeView(
        id=view.id,
        address=view.address,
        alive=True,
        map_version=Offset(message.map_version),
        load=message.load,
        replicas=replicas,
        tasks=tuple(TaskView(task.job, task.task, task.phase, task.done, task.total) for task in message.tasks),
        disk_free=message.disk_free,
        disk_used=message.disk_used,
        clock_skew_ms=message.clock_ms - clock_ms,
        uptime_s=message.uptime_s,
        insecure=message.insecure,
        without_users=message.without_users,
    )


def _changed(replicas: dict[PartitionId, ReplicaView], message: node_pb2.NodeStatus) -> dict[PartitionId, ReplicaView]:
    for gone in message.gone:
        replicas.pop(PartitionId(table_id_from_bytes(gone.table_id), Partition(gone.partition)), None)
    for status in message.replicas:
        replicas[PartitionId(table_id_from_bytes(status.table_id), Partition(status.partition))] = ReplicaView(
            Offset(status.applied),
            Offset(status.latest),
            status.lag_ms,
            status.state,
            status.reason,
            status.bytes,
            status.keys,
            status.source,
            status.void,
            status.version or 1,  # an older node does not send it
            tuple(status.level),
            status.served_s,
            status.reads_s,
            Offset(status.proven) if status.HasField("proven") else NOTHING,
            status.differs,
        )
    return replicas
