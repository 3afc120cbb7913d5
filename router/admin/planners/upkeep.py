"""Plans that look after the stored data: snapshots, and a log that is trimmed and compacted below them. Pure.

The log never loses what no verified snapshot covers (I11). The planner checks that here; the node checks it again when
it does the work (J4 of `serving_tier.jobs`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from log_tier.catalog.actions import Action
from log_tier.model.errors import InvalidRequest
from log_tier.model.identifiers import Offset, PartitionId, TableId
from log_tier.model.log import Bounds
from router.admin.planners.choices import Choices
from router.admin.planners.cluster_view import Situation
from router.admin.planners.plan import Plan, Step, plan_of
from router.membership.views import ReportedState
from serving_tier.jobs.trim_limit import trim_limit

__all__ = ["LogBounds", "held_by", "plan_compact", "plan_snapshot", "plan_trim"]

LogBounds = Mapping[TableId, list[Bounds]]
"""What the log of each table holds, by partition."""


def plan_snapshot(situation: Situation, *, table: str = "") -> Plan:
    """A snapshot of each partition of a table, or of every table, at a live replica with little to do.

    A partition without a live replica refuses the whole plan: a set of snapshots with a hole in it helps nobody.
    """
    choices = Choices(situation)
    steps: list[Step] = []
    for entry in situation.tables(table):
        for partition in entry.partition_ids():
            node, size = _worker(situation, choices, partition), situation.bytes_of(partition)
            steps.append(Step(Action.SNAPSHOT, partition, entry.name, node, bytes=size))
    return plan_of("snapshot", table or "all tables", steps)


def plan_trim(
    situation: Situation, bounds: LogBounds, *, table: str, partition: int | None = None, before: int | None = None
) -> Plan:
    """Let the log drop what lies below `before`, or below the newest snapshot of each partition."""
    return _below_snapshots(situation, bounds, Action.TRIM, table, partition, before)


def plan_compact(
    situation: Situation, bounds: LogBounds, *, table: str, partition: int | None = None, below: int | None = None
) -> Plan:
    """Let the log drop overwritten records below `below`, or below the newest snapshot of each partition."""
    return _below_snapshots(situation, bounds, Action.COMPACT, table, partition, below)


def _below_snapshots(
    situation: Situation,
    bounds: LogBounds,
    action: Literal[Action.TRIM, Action.COMPACT],
    table: str,
    partition: int | None,
    asked: int | None,
) -> Plan:
    argument = "before" if action == Action.TRIM else "below"
    entry = situation.table(table, partition)
    if asked is not None and asked < 0:
        raise InvalidRequest(f"{argument} is an offset, not {asked}")
    if entry.adopted:
        raise situation.refusal(
            f"the log of {entry.name} is the topic {entry.over!r} of others, who read it as well: it is theirs to "
            f"{action}; set its retention or compaction where the topic is"
        )
    if action == Action.COMPACT and entry.definition is not None:
        raise situation.refusal(
            f"the log of {entry.name} is not compacted: records that do not fit its definition change nothing, and a "
            f"compaction, which does not judge them, would drop what they seem to overwrite. Trim it instead (`duramen "
            f"admin trim {entry.name}`)"
        )
    choices = Choices(situation)
    steps: list[Step] = []
    notes: list[str] = []
    for place in [entry.partition(partition)] if partition is not None else entry.partition_ids():
        where = situation.cluster.name_of(place)
        held = bounds[entry.id][place.partition]
        swapping = situation.cluster.swapping(entry)
        if swapping is not None:
            raise situation.refusal(
                f"the log of {where} is not touched: job {swapping.id} ({swapping.kind}, {swapping.state}) puts "
                "barriers into it: wait for it, or resume it"
            )
        covered = _covered(situation, place)
        if covered is None and held.latest < held.earliest:
            notes.append(f"the log of {where} is empty")
            continue
        if covered is None:
            since = f" since version {entry.live_version} went live" if entry.last_swap >= 0 else ""
            raise situation.refusal(
                f"the log of {where} is not touched: no verified snapshot of it is known{since}, and what a log loses "
                f"must be in one; take it first (`duramen admin snapshot {entry.name}`)"
            )
        limit = covered if asked is None else Offset(asked)
        if limit > covered:
            raise situation.refusal(
                f"{argument} {limit} of {where} is beyond what its newest snapshot covers ({covered}): take a snapshot "
                f"first (`duramen admin snapshot {entry.name}`), or ask for less"
            )
        if limit <= held.earliest:
            notes.append(f"the log of {where} begins at {held.earliest}: there is nothing below {limit}")
            continue
        notes.extend(_left_behind(situation, place, limit) if action == Action.TRIM else ())
        node = _worker(situation, choices, place)
        note = f"offsets {held.earliest} to {limit - 1}"
        steps.append(Step(action, place, entry.name, node, arguments={argument: limit}, note=note))
    subject = entry.name if partition is None else f"{entry.name}/{partition}"
    return plan_of(action, subject, steps, notes=notes)


def _covered(situation: Situation, partition: PartitionId) -> Offset | None:
    """The first offset that no snapshot holds from which the live version can be restored; None without such one."""
    newest = situation.cluster.covering(partition)
    return None if newest is None else Offset(newest.offset + 1)


def _left_behind(situation: Situation, partition: PartitionId, before: Offset) -> list[str]:
    behind: list[str] = []
    for node, _ in situation.cluster.table(partition.table).assignments[partition.partition]:
        replica = situation.replica(partition, node)
        if situation.is_alive(node) and replica.state != ReportedState.UNKNOWN and replica.applied + 1 < before:
            behind.append(
                f"the replica of {situation.cluster.name_of(partition)} at {node} has applied {replica.applied}: it "
                "will have to fetch a snapshot"
            )
    return behind


def _worker(situation: Situation, choices: Choices, partition: PartitionId) -> str:
    node = choices.worker(partition)
    if node is None:
        holders = situation.cluster.table(partition.table).readable(partition.partition)
        reasons = "; ".join(f"{each}: {situation.lost(each)}" for each in holders)
        raise situation.refusal(
            f"no node that holds {situation.cluster.name_of(partition)} is there ({reasons}): start one of them and "
            "try again"
        )
    return node


def held_by(situation: Situation, partition: PartitionId) -> str:
    """Why retention removes nothing of a partition's log although its table has a bound; empty where it may."""
    table = situation.cluster.table(partition.table)
    if not table.retention.is_bounded:
        return ""
    views = [
        situation.replica(partition, node)
        for node, _ in table.assignments[partition.partition]
        if situation.is_alive(node)
    ]
    applied = [view.applied for view in views if view.state != ReportedState.UNKNOWN]
    return trim_limit(situation.cluster, partition, applied).held_by
