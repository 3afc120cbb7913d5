"""The catalog's fold: a map and a command make the next map. Pure, deterministic, and the same everywhere (C1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from log_tier.catalog import commands as c
from log_tier.catalog.actions import AUTOMATIC, Action, JobKind
from log_tier.catalog.cluster_map import Assignment, ClusterMap, NodeEntry, TableEntry
from log_tier.catalog.decisions import DECISIONS_MAX, CommandDecision, CommandRefused
from log_tier.catalog.job_fold import (
    abort_job,
    alter_table,
    clear_table,
    resume_job,
    start_job,
    task_done,
    task_failed,
    task_ready,
    undo_tasks_of,
)
from log_tier.catalog.placement import candidates, place_replicas
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import (
    AUDIT_TABLE,
    HISTORY_TABLE,
    PARTITIONS_MAX,
    REPLICAS_MAX,
    RESERVED_PREFIX,
    Offset,
    check_name,
)
from log_tier.model.retention import Retention, check_retention
from log_tier.rows.alter_table import AlterIndexes, AlterTable
from log_tier.rows.definition import TableDefinition
from log_tier.rows.definitions.numbering import number_schemas
from log_tier.rows.table_spec import check_unique
from log_tier.tally.audit_note import with_note
from log_tier.trust.trust_commands import TRUST_COMMANDS, TrustCommand
from log_tier.trust.trust_fold import TrustRefused, fold_trust

__all__ = ["fold_command"]

# A node that was away while more tables than this were dropped keeps an index that nobody needs, and says so.
_DROPPED_MAX: Final = 1000


def fold_command(
    cluster: ClusterMap, offset: Offset, time_ms: int, command_id: str, command: c.Command
) -> tuple[ClusterMap, CommandDecision]:
    """The next map, and what became of the command. `time_ms`: the record's timestamp.

    A command whose id is known is void, and its decision is the first one's. O(size of the map) at worst.
    """
    assert offset > cluster.version, f"command {offset} after version {cluster.version}"
    known = cluster.decisions.get(command_id)
    if known is not None:
        return replace(cluster, version=offset), known
    try:
        after = _FOLDS[type(command)](cluster, offset, time_ms, command)
        decision = CommandDecision(offset, "")
    except CommandRefused as refusal:
        after, decision = cluster, CommandDecision(offset, str(refusal))
    return replace(after, version=offset, decisions=after.decisions.with_decision(command_id, decision)), decision


def _register_node(cluster: ClusterMap, _offset: Offset, _time_ms: int, command: c.RegisterNode) -> ClusterMap:
    try:
        check_name(command.node, what="node")
    except DuramenError as error:
        raise CommandRefused(error.message) from error
    known = cluster.nodes.get(command.node)
    if known is not None and known.identity != command.identity and not command.take_over:
        raise CommandRefused(
            f"node {command.node} is registered at {known.address or 'a program'} with the data folder "
            f"{known.identity}, this one is {command.identity}: give it another id; or, where the old folder is lost "
            "for good, start it with --take-over"
        )
    draining = known.draining if known else False
    entry = NodeEntry(command.node, command.address, command.identity, draining, command.peer_address)
    return replace(cluster, nodes={**cluster.nodes, command.node: entry})


def _create_table(cluster: ClusterMap, _offset: Offset, time_ms: int, command: c.CreateTable) -> ClusterMap:
    try:
        check_name(command.name)
    except DuramenError as error:
        raise CommandRefused(error.message) from error
    if command.name == AUDIT_TABLE:
        _check_audited(cluster)
    elif command.name.startswith(RESERVED_PREFIX) and command.name != HISTORY_TABLE:
        raise CommandRefused(
            f"names that begin with {RESERVED_PREFIX} are Duramen's own; choose another than {command.name}"
        )
    if command.table in cluster.dropped and not command.adopted:
        raise CommandRefused(f"the id {command.table} was a table's that was dropped; ids are never used again")
    same = cluster.tables.get(command.table)
    if same is not None and same.adopted and same.name != command.name:
        raise CommandRefused(f"table {same.name!r} lies over topic {same.over} already: use it, or drop it first")
    if same is not None or cluster.named(command.name) is not None:
        raise CommandRefused(f"there is a table {command.name!r} already: choose another name, or drop it first")
    if not 1 <= command.partitions <= PARTITIONS_MAX:
        raise CommandRefused(f"a table has 1 to {PARTITIONS_MAX} partitions, not {command.partitions}")
    if command.starts and len(command.starts) != command.partitions:
        raise CommandRefused(
            f"table {command.name} has {command.partitions} partitions, and {len(command.starts)} offsets at which "
            "they begin: name one for each, or none"
        )
    cluster, definition = _defined(cluster, command)
    retention = _checked_retention(command)
    if command.adopted and retention.is_bounded:
        raise _others_topic(command.name, command.over)
    nodes = candidates(cluster)
    if not 1 <= command.replicas <= min(len(nodes), REPLICAS_MAX):
        raise CommandRefused(
            f"table {command.name} wants {command.replicas} replicas of each partition, and the nodes that can take "
            f"one are {', '.join(nodes) or 'none'}: start more nodes, or ask for fewer replicas"
        )
    placed = place_replicas(cluster, partitions=command.partitions, replicas=command.replicas)
    assignments = tuple(tuple(Assignment(node, "member") for node in chosen) for chosen in placed)
    table = TableEntry(
        command.table,
        command.name,
        command.partitions,
        command.replicas,
        assignments,
        partitioner=command.partitioner,
        adopted=command.adopted,
        over=command.over,
        starts=command.starts,
        retention_ms=retention.ms,
        retention_bytes=retention.bytes,
        definition=definition,
        made_ms=time_ms,
    )
    if table.id in cluster.dropped:  # the topic of others outlives the tables over it, and so does its id
        cluster = replace(cluster, dropped=tuple(gone for gone in cluster.dropped if gone != table.id))
    return cluster.with_table(table)


def _defined(cluster: ClusterMap, command: c.CreateTable) -> tuple[ClusterMap, TableDefinition | None]:
    """The map with the schemas of a new table, and the table's definition with their numbers; None: it holds bytes."""
    if not command.definition:
        return cluster, None
    try:
        given = replace(TableDefinition.from_document(command.definition), number=1)
        check_unique(given, command.partitions)
        definition, added = number_schemas(given, cluster.schemas)
    except DuramenError as error:
        raise CommandRefused(error.message) from error
    if command.adopted:
        raise CommandRefused(f"the log of {command.name} is the topic {command.over!r} of others, which holds bytes")
    if command.partitioner != definition.partitioner:
        raise CommandRefused(
            f"the keys of table {command.name} are placed by {definition.partitioner}, not by {command.partitioner}"
        )
    schemas = cluster.schemas
    for number, text in added.items():
        schemas = schemas.with_entry(number, text)
    return replace(cluster, schemas=schemas), definition


def _check_audited(cluster: ClusterMap) -> None:
    """The table of the audit can be made once there are users. Users cannot ask for it: `TableSpec`."""
    if not cluster.trust.is_closed:
        raise CommandRefused(f"there is no user, and so nothing that {AUDIT_TABLE} would hold")


def _drop_table(cluster: ClusterMap, _offset: Offset, _time_ms: int, command: c.DropTable) -> ClusterMap:
    table = cluster.tables.get(command.table)
    if table is None:
        raise CommandRefused(f"no table has the id {command.table}: it was dropped, or never was")
    cluster = undo_tasks_of(cluster, table)
    snapshots = cluster.snapshots
    for place in table.partition_ids():
        if place in snapshots:
            snapshots = snapshots.without(place)
    return replace(
        cluster.with_facts(cluster.table_facts().without_table(cluster.tables[table.id])),
        snapshots=snapshots,
        dropped=(*cluster.dropped, table.id)[-_DROPPED_MAX:],
    )


def _set_retention(cluster: ClusterMap, _offset: Offset, _time_ms: int, command: c.SetRetention) -> ClusterMap:
    table = cluster.tables.get(command.table)
    if table is None:
        raise CommandRefused(f"no table has the id {command.table}: it was dropped, or never was")
    retention = _checked_retention(command)
    if table.adopted and retention.is_bounded:
        raise _others_topic(table.name, table.over)
    changed = replace(table, retention_ms=retention.ms, retention_bytes=retention.bytes)
    return cluster.with_table(changed)


def _note_audit(cluster: ClusterMap, _offset: Offset, time_ms: int, command: c.NoteAudit) -> ClusterMap:
    """The table that was audited: one that was dropped and made anew has another id."""
    table = cluster.tables.get(command.table)
    if table is None:
        raise CommandRefused(f"no table has the id {command.table}: it was dropped, or never was")
    if wrong := command.note.wrong(table.partitions):
        raise CommandRefused(wrong)
    return cluster.with_table(replace(table, audits=with_note(table.audits, command.note, time_ms)))


def _checked_retention(command: c.CreateTable | c.SetRetention) -> Retention:
    try:
        return check_retention(Retention(command.retention_ms, command.retention_bytes))
    except DuramenError as error:
        raise CommandRefused(error.message) from error


def _others_topic(table: str, topic: str) -> CommandRefused:
    return CommandRefused(f"the log of {table} is the topic {topic!r} of others: set the retention where the topic is")


def _start_job(cluster: ClusterMap, offset: Offset, time_ms: int, command: c.StartJob) -> ClusterMap:
    if command.kind in AUTOMATIC:
        _check_automatic(cluster, command)
    elif command.kind == JobKind.AUTOMATE:
        cluster = _with_automatic(cluster, command)
    return start_job(cluster, offset, time_ms, command)


def _check_automatic(cluster: ClusterMap, command: c.StartJob) -> None:
    """One healing at a time, and one relief, each decided after the last one: routers that decide at once begin one
    job. A relief moves what works: it waits for every other job that moves replicas, and for those of operators first.
    """
    kind, noun = command.kind, "healing" if command.kind == JobKind.HEAL else "relief"
    if kind in cluster.by_hand:
        raise CommandRefused(f"no {noun} begins by itself: an operator has switched it off (`duramen admin automate`)")
    alike = [job for job in cluster.jobs.values() if job.kind == kind]
    for job in alike:
        if job.state in ("running", "failed"):
            raise CommandRefused(f"job {job.id} {kind}s {job.subject} already: wait for it, or abort it")
    newest = max((job.id for job in alike), default=-1)
    if command.arguments.get("after") != newest:
        raise CommandRefused(
            f"the {noun} was decided after job {command.arguments.get('after')}, and job {newest} is the newest one: "
            "decide anew"
        )
    if kind == JobKind.RELIEVE and (other := next((job for job, _ in cluster.changing()), None)) is not None:
        raise CommandRefused(f"job {other.id} ({other.kind} {other.subject}) moves replicas: a relief waits for it")
    node = command.arguments.get("node")
    if not all(task.action == Action.MOVE and task.arguments.get("from") == node for task in command.tasks):
        raise CommandRefused(f"a {noun} of node {node!r} moves replicas away from it, and does nothing else")


def _with_automatic(cluster: ClusterMap, command: c.StartJob) -> ClusterMap:
    """Switch on or off what routers begin by themselves."""
    what, off = command.arguments.get("what"), command.arguments.get("off")
    if what not in AUTOMATIC or off not in (0, 1) or command.tasks:
        raise CommandRefused(f"automate names {what!r}, and should name {' or '.join(AUTOMATIC)}, and no tasks")
    kept = {kind for kind in cluster.by_hand if kind != what} | ({str(what)} if off else set())
    return replace(cluster, by_hand=tuple(sorted(kept)))


def _add_snapshot(cluster: ClusterMap, _offset: Offset, _time_ms: int, command: c.AddSnapshot) -> ClusterMap:
    snapshot = command.snapshot
    table = cluster.tables.get(snapshot.table)
    if table is None or not 0 <= snapshot.partition < table.partitions:
        raise CommandRefused(
            f"snapshot {snapshot.id} is of {snapshot.table}/{snapshot.partition}, which does not exist"
        )
    place = snapshot.partition_id
    known = cluster.snapshots.get(place, ())
    if any(entry.id == snapshot.id for entry in known):
        raise CommandRefused(f"snapshot {snapshot.id} is known already")
    entries = tuple(sorted((*known, snapshot), key=lambda entry: (entry.offset, entry.id)))
    return replace(cluster, snapshots=cluster.snapshots.with_entry(place, entries))


def _forget_snapshots(cluster: ClusterMap, _offset: Offset, _time_ms: int, command: c.ForgetSnapshots) -> ClusterMap:
    place = command.partition_id
    known = cluster.snapshots.get(place, ())
    gone = set(command.ids)
    if not gone <= {entry.id for entry in known}:
        raise CommandRefused(f"not all of the snapshots {', '.join(sorted(gone))} are known")
    left = tuple(entry for entry in known if entry.id not in gone)
    if left:
        return replace(cluster, snapshots=cluster.snapshots.with_entry(place, left))
    return replace(cluster, snapshots=cluster.snapshots.without(place) if known else cluster.snapshots)


def _change_trust(cluster: ClusterMap, offset: Offset, time_ms: int, command: TrustCommand) -> ClusterMap:
    """Of a command that is not older than that, a second copy is known by its id: nothing is changed twice."""
    if not 0 < offset - command.seen <= DECISIONS_MAX:
        raise CommandRefused(
            f"the command was decided at version {command.seen} and comes at {offset} of the catalog, more than "
            f"{DECISIONS_MAX} later or before it: send a new one"
        )
    try:
        return replace(cluster, trust=fold_trust(cluster.trust, time_ms, command))
    except TrustRefused as refusal:
        raise CommandRefused(str(refusal)) from refusal


_FOLDS: Final[Mapping[type, Callable[[ClusterMap, Offset, int, Any], ClusterMap]]] = {
    c.RegisterNode: _register_node,
    c.CreateTable: _create_table,
    c.DropTable: _drop_table,
    c.SetRetention: _set_retention,
    c.NoteAudit: _note_audit,
    c.StartJob: _start_job,
    c.ClearTable: clear_table,
    AlterTable: alter_table,
    AlterIndexes: alter_table,
    c.TaskReady: lambda cluster, _offset, _time_ms, command: task_ready(cluster, command),
    c.TaskDone: lambda cluster, _offset, _time_ms, command: task_done(cluster, command),
    c.TaskFailed: lambda cluster, _offset, _time_ms, command: task_failed(cluster, command),
    c.AbortJob: lambda cluster, _offset, _time_ms, command: abort_job(cluster, command),
    c.ResumeJob: lambda cluster, _offset, _time_ms, command: resume_job(cluster, command),
    c.AddSnapshot: _add_snapshot,
    c.ForgetSnapshots: _forget_snapshots,
    **dict.fromkeys(TRUST_COMMANDS.values(), _change_trust),
}
assert set(_FOLDS) == set(c.COMMANDS.values()), "a command has no fold"
