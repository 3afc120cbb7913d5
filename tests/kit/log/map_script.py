"""A small language for the catalog's fold: commands in, decisions and what changed out.

    node n1 [identity] [take-over]
    table flights PARTITIONS REPLICAS [partitioner=P] [over=TOPIC] [starts=OFFSET,OFFSET...]
    drop flights                               retention flights MS BYTES
    audit flights TIER NAME [P:ROWS[:VERDICT] ...]
    job KIND ACTION TABLE/P NODE [from=N] ...  [node=N] (arguments of the job come after `with`)
    ready JOB TASK NODE | done JOB TASK NODE [note] | failed JOB TASK NODE note
    clear flights OFFSET,OFFSET... [keep=N]
    abort JOB | resume JOB [TASK=NODE ...]
    snapshot TABLE/P ID OFFSET [version=V] [swap=JOB]
                                               forget TABLE/P ID ...
    again                                      the last command once more, with the same id

After each line come indented lines: what the fold decided, and the parts of the map that are different from before.
"""

from __future__ import annotations

from log_tier.catalog.catalog_fold import fold_command
from log_tier.catalog.cluster_map import ClusterMap, SnapshotEntry
from log_tier.catalog.commands import (
    AbortJob,
    AddSnapshot,
    ClearTable,
    Command,
    CreateTable,
    DropTable,
    ForgetSnapshots,
    NoteAudit,
    RegisterNode,
    ResumeJob,
    SetRetention,
    StartJob,
    TaskDone,
    TaskFailed,
    TaskPlan,
    TaskReady,
)
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId
from log_tier.tally.audit_note import AuditedPart, AuditNote

__all__ = ["play", "summary", "table_id"]


def table_id(name: str) -> TableId:
    return TableId((name + "A" * 22)[:22])


def _place(cluster: ClusterMap, text: str) -> PartitionId:
    name, _, number = text.partition("/")
    known = cluster.named(name)
    return PartitionId(table_id(name) if known is None else known.id, Partition(int(number or 0)))


def _value(text: str) -> int | str:
    return int(text) if text.lstrip("-").isdigit() else text


def _part(partition: str, rows: str, verdict: str = "equal") -> AuditedPart:
    return AuditedPart(Partition(int(partition)), int(rows), Offset(int(rows) - 1), verdict)


def _command(cluster: ClusterMap, line: str) -> Command:
    head, _, extra = line.partition(" with ")
    verb, *words = head.split()
    plain = [word for word in words if "=" not in word]
    named = {key: _value(value) for key, _, value in (word.partition("=") for word in words if "=" in word)}
    if verb == "node":
        take_over = "take-over" in plain
        names = [word for word in plain if word != "take-over"]
        return RegisterNode(names[0], f"{names[0]}:1", names[1] if len(names) > 1 else names[0], take_over)
    if verb == "table":
        over = str(named.get("over", ""))
        return CreateTable(
            table_id(over or plain[0]),
            plain[0],
            int(plain[1]),
            int(plain[2]),
            partitioner=named.get("partitioner", "slot"),  # type: ignore[arg-type]
            adopted=bool(over),
            over=over,
            starts=tuple(Offset(int(start)) for start in str(named["starts"]).split(",")) if "starts" in named else (),
        )
    if verb == "drop":
        return DropTable(_place(cluster, plain[0])[0])
    if verb == "retention":
        return SetRetention(_place(cluster, plain[0])[0], int(plain[1]), int(plain[2]))
    if verb == "audit":
        parts = tuple(_part(*word.split(":")) for word in plain[3:])
        return NoteAudit(_place(cluster, plain[0])[0], AuditNote(plain[1], plain[2], parts))
    if verb == "job":
        arguments = {key: _value(value) for key, _, value in (word.partition("=") for word in extra.split())}
        if "table" in arguments:
            arguments["table"] = _place(cluster, str(arguments["table"]))[0]
        tasks: tuple[TaskPlan, ...] = ()
        if len(plain) > 1:
            tasks = (TaskPlan(plain[1], *_place(cluster, plain[2]), plain[3], named),)
        return StartJob(plain[0], " ".join(plain[1:]) or extra, tasks, arguments)
    if verb == "clear":
        offsets = tuple(Offset(int(offset)) for offset in plain[1].split(","))
        return ClearTable(_place(cluster, plain[0])[0], offsets, int(named.get("keep", 0)))
    if verb == "ready":
        return TaskReady(int(plain[0]), int(plain[1]), plain[2])
    if verb == "done":
        return TaskDone(int(plain[0]), int(plain[1]), plain[2], " ".join(plain[3:]))
    if verb == "failed":
        return TaskFailed(int(plain[0]), int(plain[1]), plain[2], " ".join(plain[3:]))
    if verb == "abort":
        return AbortJob(int(plain[0]))
    if verb == "resume":
        return ResumeJob(int(plain[0]), {key: str(value) for key, value in named.items()})
    if verb == "snapshot":
        table, partition = _place(cluster, plain[0])
        return AddSnapshot(
            SnapshotEntry(
                plain[1],
                table,
                partition,
                Offset(int(plain[2])),
                7,
                10,
                100,
                f"x/{plain[1]}",
                "n1",
                int(named.get("version", 1)),
                int(named.get("swap", -1)),
            )
        )
    assert verb == "forget", line
    return ForgetSnapshots(*_place(cluster, plain[0]), tuple(plain[1:]))


def summary(cluster: ClusterMap) -> list[str]:
    """The map, a line for each thing in it."""
    lines = [f"node {node.id} {node.identity}{' draining' if node.draining else ''}" for node in cluster.nodes.values()]
    for table in cluster.tables.values():
        special = "" if table.partitioner == "slot" else f", by {table.partitioner}"
        special += f", over {table.over}" if table.adopted else ""
        special += f", from {', '.join(map(str, table.starts))}" if table.starts else ""
        if table.retention.is_bounded:
            special += f", keeps {table.retention_ms} ms, {table.retention_bytes} bytes"
        lines.append(f"table {table.name}: {table.partitions} partitions, {table.replicas} replicas{special}")
        for number, assigned in enumerate(table.assignments):
            marks = {"member": "", "joining": "+", "leaving": "-"}
            lines.append(f"{table.name}/{number}: " + " ".join(marks[r.role] + r.node for r in assigned))
        for note in table.audits:
            counts = ", ".join(f"{p.partition}: {p.rows} {p.verdict} at {p.checked_ms}" for p in note.parts)
            lines.append(f"{table.name} {note.tier} {note.name}: {counts}")
        for version in table.versions:
            held = "; ".join(" ".join(nodes) or "nobody" for nodes in version.holders)
            lines.append(f"{table.name} version {version.number}: {version.state} at {held}")
    for job in cluster.jobs.values():
        tasks = ", ".join(f"{t.action} {t.node} {t.state}{f' ({t.note})' if t.note else ''}" for t in job.tasks)
        lines.append(f"job {job.id} {job.kind}: {job.state} [{tasks}]")
    for place, entries in cluster.snapshots.items():
        covering = cluster.covering(place)
        lines += [f"snapshot {entry.id} at {entry.offset}{', covers' * (entry is covering)}" for entry in entries]
    lines += [f"dropped {name[:7].rstrip('A')}" for name in cluster.dropped]
    return lines


def play(text: str) -> str:
    """The script with what the fold makes of it."""
    cluster, last, last_id = ClusterMap(), "", 0
    out: list[str] = []
    for line in text.splitlines():
        if not line or line.startswith((" ", "#")):
            if not line.startswith(" "):
                out.append(line)
            continue
        if line == "again":
            command = _command(cluster, last)
        else:
            last, last_id = line, last_id + 1
            command = _command(cluster, line)
        before = summary(cluster)
        cluster, decision = fold_command(cluster, Offset(cluster.version + 1), 1000, f"c{last_id}", command)
        out.append(line)
        out.append(f"  {cluster.version}: {decision.rejection or 'taken'}")
        after = summary(cluster)
        out += [f"    {each}" for each in after if each not in before]
        out += [f"    gone: {each}" for each in before if each not in after]
    return "\n".join(out) + "\n"
