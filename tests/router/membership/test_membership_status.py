"""From status messages to views."""

from __future__ import annotations

from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId, table_id_to_bytes
from router.membership.status_views import renewed
from router.membership.views import NodeView, ReplicaView, TaskView
from serving_tier.proto import node_pb2

TABLE = TableId("AAAAAAAAAAAAAAAAAAAAAA")
RAW = table_id_to_bytes(TABLE)
LOST = NodeView("n1", "host:1", reason="gone")


def status(partition: int, applied: int = 5) -> node_pb2.ReplicaStatus:
    return node_pb2.ReplicaStatus(
        table_id=RAW,
        partition=partition,
        applied=applied,
        latest=7,
        lag_ms=30,
        state="behind",
        reason="slow",
        bytes=100,
        keys=3,
        source="peer n2",
        void=4,
    )


def test_a_message_makes_a_node_alive() -> None:
    message = node_pb2.NodeStatus(
        node="n1",
        map_version=9,
        load=4,
        replicas=[status(2)],
        tasks=[node_pb2.TaskProgress(job=1, task=2, phase="copy", done=3, total=4)],
        disk_free=10,
        disk_used=20,
        clock_ms=1_500,
        uptime_s=60,
    )
    assert renewed(LOST, message, first=True, clock_ms=1_000) == NodeView(
        id="n1",
        address="host:1",
        alive=True,
        map_version=Offset(9),
        load=4,
        replicas={
            PartitionId(TABLE, Partition(2)): ReplicaView(
                Offset(5), Offset(7), 30, "behind", "slow", 100, 3, "peer n2", 4
            )
        },
        tasks=(TaskView(1, 2, "copy", 3, 4),),
        disk_free=10,
        disk_used=20,
        clock_skew_ms=500,
        uptime_s=60,
    )


def test_later_messages_change_what_they_name() -> None:
    before = renewed(LOST, node_pb2.NodeStatus(replicas=[status(0), status(1), status(2)]), first=True, clock_ms=0)
    message = node_pb2.NodeStatus(
        replicas=[status(1, applied=6)], gone=[node_pb2.ReplicaName(table_id=RAW, partition=0)]
    )
    after = renewed(before, message, first=False, clock_ms=0)
    assert {name[1]: found.applied for name, found in after.replicas.items()} == {1: 6, 2: 5}
    assert len(before.replicas) == 3, "a view is never changed in place"


def test_the_first_message_of_a_stream_names_all() -> None:
    before = renewed(LOST, node_pb2.NodeStatus(replicas=[status(0), status(1)]), first=True, clock_ms=0)
    after = renewed(before, node_pb2.NodeStatus(replicas=[status(1)]), first=True, clock_ms=0)
    assert [name[1] for name in after.replicas] == [1]
