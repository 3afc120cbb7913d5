"""What there is: nodes, partitions, lag, snapshots. From the map, the nodes' own words and the log's bounds. Pure.

Each function gives messages of `router/proto/admin.proto`.
"""

from __future__ import annotations

from collections.abc import Sequence

from log_tier.catalog.cluster_map import Assignment
from log_tier.model.identifiers import NOTHING, Offset, Partition, PartitionId, TableId
from log_tier.model.log import Bounds
from router.admin.audits.note_audit import audited_of
from router.admin.planners.cluster_view import Situation
from router.admin.planners.upkeep import LogBounds, held_by
from router.membership.views import ReportedState
from router.proto import admin_pb2 as pb

__all__ = ["known_bounds", "list_lags", "list_nodes", "list_partitions", "list_snapshots"]


def list_nodes(situation: Situation) -> list[pb.AdminNode]:
    """Every registered node, by id."""
    found: list[pb.AdminNode] = []
    for node, entry in sorted(situation.cluster.nodes.items()):
        view = situation.nodes.get(node)
        alive = view is not None and view.alive
        replicas = [situation.replica(partition, node) for _, partition, _ in situation.held_by(node)]
        found.append(
            pb.AdminNode(
                node=node,
                address=entry.address,
                state="alive" if alive else "lost",
                reason="" if alive else situation.lost(node),
                draining=entry.draining,
                replicas=len(replicas),
                ready=sum(replica.state == ReportedState.READY for replica in replicas),
                bytes=sum(replica.bytes for replica in replicas),
                lag_ms=max((replica.lag_ms for replica in replicas), default=0),
                load=view.load if view is not None else 0,
                tasks=sum(1 for _ in situation.cluster.unfinished_tasks(node)),
                disk_free=view.disk_free if view is not None else 0,
                disk_used=view.disk_used if view is not None else 0,
                clock_skew_ms=view.clock_skew_ms if view is not None else 0,
                uptime_s=view.uptime_s if view is not None else 0,
                map_version=view.map_version if view is not None else -1,
                identity=entry.identity,
                insecure=view is not None and view.insecure,
                without_users=view is not None and view.without_users,
            )
        )
    return found


def list_partitions(situation: Situation, bounds: LogBounds, *, table: str = "") -> list[pb.AdminPartition]:
    """Every partition of a table, or of all."""
    return [
        _partition(situation, partition, bounds[entry.id][partition.partition])
        for entry in situation.tables(table)
        if entry.id in bounds
        for partition in entry.partition_ids()
    ]


def _partition(situation: Situation, partition: PartitionId, bounds: Bounds) -> pb.AdminPartition:
    table, number = situation.cluster.table(partition.table), partition.partition
    replicas = [_replica(situation, partition, each, bounds) for each in table.assignments[number]]
    known = situation.cluster.snapshots_of(partition)
    readable = [each for each in replicas if each.role != "joining"]
    return pb.AdminPartition(
        table=table.name,
        partition=number,
        earliest=bounds.earliest,
        latest=bounds.latest,
        keys=max((each.keys for each in replicas), default=0),
        bytes=max((each.bytes for each in replicas), default=0),
        void=max((each.void for each in replicas), default=0),
        wanted=table.replicas,
        ready=sum(each.state == ReportedState.READY for each in readable),
        snapshots=len(known),
        snapshot=known[-1].offset if known else None,
        replicas=replicas,
        retention_ms=table.retention_ms,
        retention_bytes=table.retention_bytes,
        retention_held_by=held_by(situation, partition),
        audits=audited_of(table.audits, number),
    )


def _replica(situation: Situation, partition: PartitionId, assignment: Assignment, bounds: Bounds) -> pb.AdminReplica:
    view = situation.replica(partition, assignment.node)
    alive = situation.is_alive(assignment.node)
    return pb.AdminReplica(
        node=assignment.node,
        role=assignment.role,
        state=view.state if alive else ReportedState.LOST,
        reason=view.reason if alive else situation.lost(assignment.node),
        applied=view.applied,
        lag_records=max(0, bounds.latest - view.applied),
        lag_ms=view.lag_ms,
        keys=view.keys,
        bytes=view.bytes,
        source=view.source,
        void=view.void,
        version=view.version,
        level=view.level,
        reads_s=view.reads_s,
    )


def known_bounds(situation: Situation, table: str = "") -> LogBounds:
    """Where the logs end as far as the replicas know: for a log that does not answer."""
    found: dict[TableId, list[Bounds]] = {}
    for entry in situation.tables(table):
        found[entry.id] = []
        for number, assigned in enumerate(entry.assignments):
            views = [situation.replica(entry.partition(number), node) for node, _ in assigned]
            latest = max((view.latest for view in views), default=NOTHING)
            found[entry.id].append(Bounds(Offset(0), latest))
    return found


def list_lags(situation: Situation, bounds: LogBounds, *, table: str = "", silent: str = "") -> list[pb.AdminLag]:
    """Every replica and how far it is behind its log; those that are furthest behind come first.

    `silent`: why the log does not say where it ends.
    """
    found = [
        pb.AdminLag(
            table=each.table,
            partition=each.partition,
            node=replica.node,
            role=replica.role,
            state=replica.state,
            applied=replica.applied,
            latest=each.latest,
            lag_records=replica.lag_records,
            lag_ms=replica.lag_ms,
            reason=replica.reason or silent,
        )
        for each in list_partitions(situation, bounds, table=table)
        for replica in each.replicas
    ]
    return sorted(found, key=lambda each: (-each.lag_records, -each.lag_ms, each.table, each.partition))


def list_snapshots(situation: Situation, bounds: LogBounds, *, table: str = "") -> list[pb.AdminSnapshot]:
    """The snapshots that the catalog knows, by table, partition and offset."""
    found: list[pb.AdminSnapshot] = []
    for entry in situation.tables(table):
        limits: Sequence[Bounds] = bounds.get(entry.id, ())
        for partition in map(Partition, range(len(limits))):
            for snapshot in situation.cluster.snapshots_of(entry.partition(partition)):
                earliest, latest, *_ = limits[partition]
                found.append(
                    pb.AdminSnapshot(
                        table=entry.name,
                        partition=partition,
                        offset=snapshot.offset,
                        log_time_ms=snapshot.log_time_ms,
                        keys=snapshot.keys,
                        bytes=snapshot.bytes,
                        behind_records=max(0, latest - snapshot.offset),
                        usable=snapshot.offset + 1 >= earliest and situation.cluster.covers(snapshot),
                        path=snapshot.path,
                        node=snapshot.node,
                        id=snapshot.id,
                    )
                )
    return found
