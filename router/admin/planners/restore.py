"""Plans that bring data back: the replicas of a node, or a table as it once was. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from log_tier.catalog.actions import Action
from log_tier.catalog.cluster_map import TableEntry
from log_tier.model.errors import InvalidRequest, OffsetTrimmed, TokenAhead
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId, partition_id
from log_tier.model.log import Bounds
from router.admin.planners.choices import Choices
from router.admin.planners.cluster_view import Situation
from router.admin.planners.plan import Plan, Step, plan_of
from serving_tier.snapshots.source_plan import SOURCES

__all__ = ["check_restorable", "plan_restore_node", "plan_restore_table"]


def plan_restore_node(situation: Situation, *, node: str, source: str = "auto") -> Plan:
    """Build every replica of a node anew. Each old one is read until its new one is level with the log."""
    if node not in situation.cluster.nodes and situation.cluster.named(node) is not None:
        raise InvalidRequest(
            f"{node} is a table: name the new table for its content, and the point in time (`--as NEW --until "
            "TOKEN|TIME`); the live one is never rolled back"
        )
    situation.check_node(node)
    if source not in SOURCES:
        raise InvalidRequest(f"a replica is restored from one of {', '.join(SOURCES)}, not from {source!r}")
    if not situation.is_alive(node):
        raise situation.refusal(
            f"node {node} is not there ({situation.lost(node)}), and restores its replicas itself: start it; what it "
            "lacks it fetches by itself then"
        )
    steps: list[Step] = []
    notes: list[str] = []
    for table, partition, replica in situation.held_by(node):
        if replica.role == "joining":
            notes.append(f"{situation.cluster.name_of(partition)} is on its way to {node} already")
            continue
        steps.append(
            Step(
                Action.REBUILD,
                partition,
                table.name,
                node,
                bytes=situation.bytes_of(partition),
                arguments={"source": source},
            )
        )
    return plan_of("restore", f"node {node}", steps, arguments={"node": node, "source": source}, notes=notes)


def plan_restore_table(
    situation: Situation, *, table: TableEntry, target: TableId, target_name: str, offsets: Mapping[Partition, Offset]
) -> Plan:
    """Write `table`, as it was at `offsets` (inclusive; -1: before its first record), into the table `target`."""
    choices = Choices(situation)
    steps: list[Step] = []
    for number in map(Partition, range(table.partitions)):
        node = choices.worker(table.partition(number))
        if node is None:
            raise situation.refusal(
                f"no node that holds {table.name}/{number} is there: start one of "
                f"{', '.join(table.readable(number))} and try again"
            )
        steps.append(
            Step(
                Action.COPY,
                partition_id(target, number),
                target_name,
                node,
                bytes=situation.bytes_of(table.partition(number)),
                arguments={
                    "source_table": table.id,
                    "source_partition": number,
                    "offset": offsets[number],
                },
                note=f"{table.name}/{number} as it was at offset {offsets[number]}",
            )
        )
    arguments = {"table": table.id, "as": target_name}
    return plan_of("restore", f"{table.name} as {target_name}", steps, arguments=arguments)


def check_restorable(
    situation: Situation,
    partition: PartitionId,
    offset: Offset,
    bounds: Bounds,
    *,
    time_ms: int | None = None,
) -> None:
    """Can the state at `offset` be made? From the log's beginning, or from a snapshot before it and the log behind it.
    With `time_ms`, `offset` is what the log says of that time, which a snapshot may not be younger than.

    Raises `TokenAhead` for what is yet to come, `OffsetTrimmed` for what is gone, with what is left.
    """
    name = situation.cluster.name_of(partition)
    if offset > bounds.latest:
        raise TokenAhead(
            f"{name} is to be restored at offset {offset}, its log ends at {bounds.latest}",
            partition=partition.partition,
            asked=offset,
            latest=bounds.latest,
        )
    start = situation.cluster.table(partition.table).start(partition.partition)
    if bounds.earliest <= start and bounds.leads(Offset(start - 1), offset):
        return
    known = situation.cluster.snapshots_of(partition)
    usable = [
        entry.offset
        for entry in known
        if entry.offset + 1 >= bounds.earliest and (time_ms is None or entry.log_time_ms <= time_ms)
    ]
    if any(each <= offset and bounds.leads(each, offset) for each in usable):
        return
    bases = [*usable, *([Offset(start - 1)] if bounds.earliest <= start else [])]
    earliest = max(min(bases), Offset(bounds.compacted - 1)) if bases else None
    log = f"its log begins at {bounds.earliest}" + (f", is compacted below {bounds.compacted}" * bool(bounds.compacted))
    begins = "none reaches that far" if earliest is None else f"the earliest offset that can be restored is {earliest}"
    exact = [str(each) for each in sorted(usable) if earliest is not None and each < earliest]
    also = f"; below it, the offsets of snapshots can ({', '.join(exact)})" if exact else ""
    raise OffsetTrimmed(
        f"{name} cannot be restored at offset {offset}: {log}, and of its {len(known)} snapshots {begins}{also}",
        partition=partition.partition,
        asked=offset,
        earliest=bounds.earliest if earliest is None else earliest,
    )
