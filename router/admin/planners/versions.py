"""Plans about the versions of a table: staged, swapped in, rolled back, discarded. Pure.

The catalog's fold (`log_tier.catalog.version_fold`) decides what a plan may do, from what the replicas reported. The
planner also looks at the nodes' status: a node that has lost a version since reports it there and nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from log_tier.catalog.actions import Action, JobKind
from log_tier.catalog.cluster_map import ClusterMap, TableEntry
from log_tier.catalog.commands import ClearTable
from log_tier.catalog.jobs import ArgumentValue
from log_tier.model.errors import InvalidRequest
from log_tier.model.identifiers import SERVERS_TABLES, Partition, PartitionId
from log_tier.model.log import Bounds
from router.admin.planners.choices import Choices
from router.admin.planners.cluster_view import Situation
from router.admin.planners.plan import Plan, Step, check_content_may_change, plan_of
from router.admin.planners.upkeep import LogBounds

__all__ = [
    "clear_command",
    "has_version",
    "lacking",
    "needed_at",
    "plan_clear",
    "plan_discard",
    "plan_rollback",
    "plan_stage",
    "plan_swap",
]


def plan_stage(situation: Situation, *, table: str, url: str, part_bytes: Sequence[int] = ()) -> Plan:
    """Have every replica fetch the version at `url`; the same again for one that is staged: those that lack it do.

    `part_bytes`: the sizes of its partitions. A node that is not there holds the job up until it is back, or until the
    job is aborted.
    """
    entry = situation.table(table)
    known = next((version for version in entry.versions if version.url == url), None)
    steps: list[Step] = []
    notes: list[str] = []
    for partition in entry.partition_ids():
        for node in entry.readable(partition.partition):
            is_level = known is not None and has_version(situation, partition, node, known.number)
            if known is not None and is_level and node in known.holders[partition.partition]:
                continue
            if not situation.is_alive(node):
                notes.append(f"node {node} is not there ({situation.lost(node)}): the stage waits for it")
            size = part_bytes[partition.partition] if part_bytes else 0
            steps.append(Step(Action.STAGE, partition, entry.name, node, bytes=size))
    arguments: dict[str, ArgumentValue] = {"table": entry.id, "url": url}
    return plan_of(JobKind.STAGE, entry.name, steps, arguments=arguments, notes=list(dict.fromkeys(notes)))


def lacking(situation: Situation, *, table: str, version: int | None = None) -> bool:
    """Is there a live replica that has not said yet that it has what the catalog says it has?"""
    entry = situation.table(table)
    numbers = [each.number for each in entry.versions if each.state != "staging"] if version is None else [version]
    return any(
        situation.is_alive(node) and not has_version(situation, partition, node, number)
        for number in numbers
        for partition in entry.partition_ids()
        for node in entry.readable(partition.partition)
    )


def plan_swap(situation: Situation, *, table: str, version: int | None = None, keep: int | None = None) -> Plan:
    """Put a version into service. `keep`: how many of the older ones stay; None: one."""
    entry = situation.table(table)
    staged = [each for each in entry.versions if each.state == "staged"]
    if version is None and not staged:
        raise situation.refusal(f"no version of {entry.name} is staged: `duramen admin stage {entry.name} URL`")
    number = staged[-1].number if version is None else version
    return _plan_barriers(situation, JobKind.SWAP, entry, number, {} if keep is None else {"keep": keep})


def plan_rollback(situation: Situation, *, table: str, version: int | None = None) -> Plan:
    """Put a version into service again that was live before."""
    entry = situation.table(table)
    kept = [each for each in entry.versions if each.state == "kept"]
    if version is None and not kept:
        raise situation.refusal(f"no version of {entry.name} is kept that could be rolled back to")
    number = max(kept, key=lambda each: each.number < entry.live_version).number if version is None else version
    return _plan_barriers(situation, JobKind.ROLLBACK, entry, number, {"keep": len(kept)})


def plan_discard(situation: Situation, *, table: str, version: int, force: bool = False) -> Plan:
    """Give up a version that is not live. Refused without `force` while a restore may need what it was built of."""
    entry = situation.table(table)
    meets = None if force else needed_at(situation.cluster, entry, version)
    if meets is not None:
        where = f"{entry.name}/{meets}"
        raise situation.refusal(
            f"version {version} of {entry.name} was live, and no snapshot of {where} is known since version "
            f"{entry.live_version} went live: a restore of {where} would still fetch version {version} from where it "
            f"was built; take a snapshot of each partition first (`duramen admin snapshot {entry.name}`), or discard "
            "it with --force"
        )
    arguments: dict[str, ArgumentValue] = {"table": entry.id, "version": version}
    return plan_of(JobKind.DISCARD, f"{entry.name} version {version}", (), arguments=arguments, begins_empty=True)


def needed_at(cluster: ClusterMap, table: TableEntry, number: int) -> Partition | None:
    """A partition of which a restore may meet a barrier to a built version that is not live any more: no snapshot of it
    holds the last barrier. None where there is none. An empty version is built nowhere, and one that was never live
    has no barrier.
    """
    version = table.version(number)
    if version is None or version.state != "kept" or not version.url or version.begins_empty:
        return None
    return next((place.partition for place in table.partition_ids() if cluster.covering(place) is None), None)


_KEEP_OF_CLEARING: Final = 1
"""A clearing that was a mistake can be rolled back; `FLUSHDB` keeps nothing."""


def plan_clear(situation: Situation, bounds: LogBounds, *, table: str, keep: int | None = None) -> Plan:
    """Put an empty version into service: every replica makes it, then one node appends the barriers."""
    entry = situation.table(table)
    steps: list[Step] = []
    notes: list[str] = []
    for partition in entry.partition_ids():
        for node in entry.readable(partition.partition):
            if not situation.is_alive(node):
                notes.append(f"node {node} is not there ({situation.lost(node)}): the clearing waits for it")
            steps.append(Step(Action.STAGE, partition, entry.name, node))
    last = "barriers in every partition, by the node that is level last"
    steps.append(Step(Action.SWAP, entry.partition(0), entry.name, "", note=last))
    command = clear_command(entry, bounds[entry.id], _KEEP_OF_CLEARING if keep is None else keep)
    return Plan(str(JobKind.CLEAR), entry.name, command, steps, list(dict.fromkeys(notes)))


def clear_command(table: TableEntry, bounds: Sequence[Bounds], keep: int) -> ClearTable:
    """Clear what the table's log held at these bounds. Raises `InvalidName` for a table of the servers."""
    if table.name in SERVERS_TABLES:
        check_content_may_change(JobKind.CLEAR, table.name)
    return ClearTable(table.id, tuple(each.latest for each in bounds), keep)


def _plan_barriers(
    situation: Situation, kind: str, table: TableEntry, number: int, more: dict[str, ArgumentValue]
) -> Plan:
    version = table.version(number)
    if version is None:
        raise InvalidRequest(
            f"table {table.name} has no version {number}; it has "
            f"{', '.join(str(each.number) for each in table.versions) or '1'}"
        )
    notes: list[str] = []
    for partition in table.partition_ids():
        for node in table.readable(partition.partition):
            if not situation.is_alive(node):
                notes.append(
                    f"node {node} is not there ({situation.lost(node)}): it goes over when it is back, if it still has "
                    f"version {number}"
                )
            elif not has_version(situation, partition, node, number):
                raise situation.refusal(
                    f"version {number} of {table.name}/{partition.partition} is not level at node {node}"
                    + (": wait for it, or stage it again" if version.url else ", which got the replica later")
                )
    first = table.partition(0)
    worker = Choices(situation).worker(first)
    if worker is None:
        raise situation.refusal(f"no node that holds {table.name}/0 is there: start one of them and try again")
    step = Step(Action.SWAP, first, table.name, worker, note=f"barriers to version {number} in every partition")
    arguments: dict[str, ArgumentValue] = {"table": table.id, "version": number, **more}
    return plan_of(
        kind, f"{table.name} to version {number}", [step], arguments=arguments, notes=list(dict.fromkeys(notes))
    )


def has_version(situation: Situation, partition: PartitionId, node: str, number: int) -> bool:
    """Does a node say that its replica reads a version, or is level with it?"""
    view = situation.replica(partition, node)
    return number == view.version or number in view.level
