"""Whatever operators and nodes command, in whatever order: the map stays one that can be, and every follower has it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from kit.log.map_script import table_id

from log_tier.catalog.catalog_fold import fold_command
from log_tier.catalog.cluster_map import ClusterMap, SnapshotEntry, TableEntry
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
    command_batch,
    parse_command,
)
from log_tier.catalog.decisions import Decisions
from log_tier.catalog.job_fold import FINISHED_JOBS_MAX, undo_tasks_of
from log_tier.catalog.map_json import MapTexts, map_from_json, map_to_json
from log_tier.model.batch import decode_batch
from log_tier.model.batch_header import stamp_batch
from log_tier.model.identifiers import Offset, Partition
from log_tier.tally.audit_note import AuditedPart, AuditNote

NODES = st.sampled_from(["n1", "n2", "n3", "n4"])
TABLES = st.sampled_from(["flights", "ships"]).map(table_id)
PARTITIONS = st.integers(0, 2).map(Partition)
JOBS = st.integers(0, 40)
KEEPS = st.integers(0, 2)


@st.composite
def task_plans(draw: st.DrawFn) -> TaskPlan:
    action = draw(st.sampled_from(["move", "move", "add", "remove", "snapshot", "rebuild", "trim"]))
    arguments: dict[str, int | str] = {"from": draw(NODES)} if action == "move" else {}
    return TaskPlan(action, draw(TABLES), draw(PARTITIONS), draw(NODES), arguments)


@st.composite
def start_jobs(draw: st.DrawFn) -> StartJob:
    kind = draw(st.sampled_from(["move", "drain", "undrain", "retire", "set-replicas", "snapshot"]))
    arguments: dict[str, int | str] = {}
    if kind in ("drain", "undrain", "retire"):
        arguments = {"node": draw(NODES)}
    if kind == "set-replicas":
        arguments = {"table": draw(TABLES), "replicas": draw(st.integers(1, 3))}
    return StartJob(kind, "subject", tuple(draw(st.lists(task_plans(), max_size=3))), arguments)


@st.composite
def snapshots(draw: st.DrawFn) -> SnapshotEntry:
    offset = Offset(draw(st.integers(0, 50)))
    return SnapshotEntry(f"s{offset}", draw(TABLES), draw(PARTITIONS), offset, 7, 1, 100, f"path/{offset}", "n1")


@st.composite
def audit_notes(draw: st.DrawFn) -> AuditNote:
    parts = draw(st.lists(st.builds(AuditedPart, PARTITIONS, st.integers(0, 5), st.just(Offset(4))), max_size=2))
    return AuditNote(draw(st.sampled_from(["export", "session", "index"])), draw(st.sampled_from("ab")), tuple(parts))


COMMANDS = st.one_of(
    st.builds(RegisterNode, NODES, st.just("host:1"), st.sampled_from(["a", "a", "b"]), st.booleans()),
    st.builds(CreateTable, TABLES, st.sampled_from(["flights", "ships"]), st.integers(0, 3), st.integers(1, 3)),
    st.builds(
        CreateTable,
        TABLES,
        st.sampled_from(["flights", "ships"]),
        st.integers(1, 3),
        st.integers(1, 3),
        st.sampled_from(["slot", "murmur2"]),
        st.booleans(),
        st.sampled_from(["", "topic"]),
        st.lists(st.integers(0, 9).map(Offset), max_size=3).map(tuple),
    ),
    st.builds(DropTable, TABLES),
    st.builds(SetRetention, TABLES, st.integers(-1, 5), st.integers(-1, 5)),
    st.builds(NoteAudit, TABLES, audit_notes()),
    start_jobs(),
    start_jobs(),
    st.builds(ClearTable, TABLES, st.lists(st.integers(-1, 9).map(Offset), min_size=2, max_size=3).map(tuple), KEEPS),
    st.builds(ClearTable, st.just(table_id("flights")), st.just((Offset(3),) * 3), KEEPS),
    st.builds(TaskReady, JOBS, st.integers(0, 2), NODES),
    st.builds(TaskReady, JOBS, st.just(0), NODES),
    st.builds(TaskDone, JOBS, st.integers(0, 2), NODES, st.just("note")),
    st.builds(TaskDone, JOBS, st.just(0), NODES),
    st.builds(TaskFailed, JOBS, st.integers(0, 2), NODES, st.just("why")),
    st.builds(AbortJob, JOBS),
    st.builds(ResumeJob, JOBS, st.dictionaries(st.sampled_from(["0", "1"]), NODES, max_size=1)),
    st.builds(AddSnapshot, snapshots()),
    st.builds(ForgetSnapshots, TABLES, PARTITIONS, st.just(("s1",))),
)

BEGIN: list[Command] = [
    *(RegisterNode(f"n{number}", "host:1", "a") for number in (1, 2, 3)),
    CreateTable(table_id("flights"), "flights", 3, 2),
    CreateTable(table_id("ships"), "ships", 2, 1),
]


def check_map(cluster: ClusterMap, before: ClusterMap) -> None:
    for table in cluster.tables.values():
        assert len(table.assignments) == table.partitions
        assert len(table.starts) in (0, table.partitions)
        assert table.id not in cluster.dropped, "a node would delete what it shall have"
        for number, assigned in enumerate(table.assignments):
            nodes = [replica.node for replica in assigned]
            assert len(set(nodes)) == len(nodes), "a node holds a partition once"
            assert table.readable(Partition(number)), f"{table.name}/{number} can be read by nobody (C3)"
            changing = [
                (job.id, task)
                for job in cluster.jobs.values()
                if job.state in ("running", "failed")
                for task in job.tasks
                if (task.table, task.partition) == (table.id, number)
                and task.action in ("move", "add")
                and task.state not in ("done", "aborted")
            ]
            assert len({job for job, _ in changing}) <= 1, "one job at a time changes a partition (C4)"
            joining = [replica.node for replica in assigned if replica.role == "joining"]
            leaving = [replica.node for replica in assigned if replica.role == "leaving"]
            assert set(joining) <= {task.node for _, task in changing}, "who joins has a task that says so"
            assert set(leaving) <= {task.arguments.get("from") for _, task in changing}
        check_versions(cluster, table)
    for job in cluster.jobs.values():
        if job.state == "running":
            assert any(task.state in ("waiting", "ready") for task in job.tasks), "somebody works on it"
            for task in job.tasks:
                assert task.state == "aborted" or task.table in cluster.tables or task.state == "done"
    assert sum(job.state in ("done", "aborted") for job in cluster.jobs.values()) <= FINISHED_JOBS_MAX
    for (table_id_, partition), entries in cluster.snapshots.items():
        assert table_id_ in cluster.tables
        assert partition < cluster.tables[table_id_].partitions
        assert [entry.offset for entry in entries] == sorted(entry.offset for entry in entries)
    assert cluster.version > before.version


def check_versions(cluster: ClusterMap, table: TableEntry) -> None:
    numbers = [version.number for version in table.versions]
    assert numbers == sorted(set(numbers))
    assert sum(version.state == "live" for version in table.versions) == bool(numbers), "one version is read"
    changing = [
        job
        for job in cluster.jobs.values()
        if job.kind == "clear" and job.state in ("running", "failed") and job.arguments["table"] == table.id
    ]
    assert len(changing) <= 1, "one job at a time changes the versions"
    coming = {version.number: version.state for version in table.versions if version.state in ("staging", "staged")}
    for job in changing:
        swaps = [task for task in job.tasks if task.action == "swap"]
        assert coming.pop(int(job.arguments["version"])) == ("staged" if swaps else "staging")
        assert len(swaps) <= 1
        assert not swaps or all(task.state == "done" for task in list(job.tasks)[:-1]), (
            "barriers come when all are level"
        )
    assert not coming, "nobody would swap it in, or discard it"


@st.composite
def lives(draw: st.DrawFn) -> list[Command]:
    """A clearing of `flights`, and what its workers and operators may say about it, in any order."""
    job = len(BEGIN)
    steps = st.one_of(
        st.builds(TaskDone, st.just(job), st.integers(0, 7), NODES),
        st.builds(TaskDone, st.just(job), st.integers(0, 7), NODES),
        st.builds(TaskFailed, st.just(job), st.integers(0, 7), NODES, st.just("why")),
        st.builds(ResumeJob, st.just(job), st.dictionaries(st.sampled_from(["0", "6"]), NODES, max_size=1)),
        COMMANDS,
    )
    begin = ClearTable(table_id("flights"), (Offset(3),) * 3, draw(KEEPS))
    everybody = [TaskDone(job, number, node) for number in range(7) for node in ("n1", "n2", "n3")]
    return [begin, *draw(st.lists(steps, max_size=20)), *everybody]


@settings(max_examples=250, deadline=None)
@given(st.one_of(st.lists(COMMANDS, max_size=60), lives()))
def test_the_map_stays_one_that_can_be(commands: list[Command]) -> None:
    cluster, texts = ClusterMap(), MapTexts()
    for number, command in enumerate([*BEGIN, *commands]):
        before = cluster
        cluster, decision = fold_command(cluster, Offset(number), 1000 + number, f"c{number}", command)
        check_map(cluster, before)
        assert texts.encode(cluster) == map_to_json(cluster), "whatever it has kept of the maps before"
        if decision.rejection:
            assert replace(cluster, version=before.version, decisions=before.decisions) == before, "rejected as a whole"
    assert map_from_json(map_to_json(cluster)) == replace(cluster, decisions=Decisions())


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(COMMANDS, st.integers(0, 5)), max_size=40), st.lists(st.integers(0, 44), max_size=5))
def test_every_follower_has_the_same_map(commands: list[tuple[Command, int]], restarts: list[int]) -> None:
    """Through the bytes of the log, with commands that come twice, and followers that begin anew."""
    log: list[tuple[str, bytes]] = [(f"b{n}", command_batch(command, f"b{n}")) for n, command in enumerate(BEGIN)]
    for number, (command, back) in enumerate(commands):
        log.append((f"c{number}", command_batch(command, f"c{number}")))
        if back == 0:
            log.append(log[-1])

    def follow(begin_again: set[int]) -> ClusterMap:
        cluster = ClusterMap()
        for offset in range(len(log)):
            if offset in begin_again:
                cluster = ClusterMap()
                for earlier in range(offset):
                    cluster = step(cluster, earlier)
            cluster = step(cluster, offset)
        return cluster

    def step(cluster: ClusterMap, offset: int) -> ClusterMap:
        columns = decode_batch(_stored(log[offset][1])).columns
        command_id, command = parse_command(columns.keys[0], columns.values[0])
        return fold_command(cluster, Offset(offset), 1000 + offset, command_id, command)[0]

    first = follow(set())
    assert follow(set(restarts)) == first
    assert map_to_json(follow(set())) == map_to_json(first)


def _stored(batch: bytes) -> bytes:
    return stamp_batch(batch, base_offset=Offset(0), timestamp_ms=1, unsynced=0)


@given(COMMANDS)
def test_a_command_comes_back_from_its_bytes(command: Command) -> None:
    columns = decode_batch(_stored(command_batch(command, "id"))).columns
    assert parse_command(columns.keys[0], columns.values[0]) == ("id", command)


def test_dropping_undoes_nothing_of_other_tables() -> None:
    cluster = ClusterMap()
    for number, command in enumerate(BEGIN):
        cluster, _ = fold_command(cluster, Offset(number), 1, f"c{number}", command)
    assert undo_tasks_of(cluster, cluster.find("ships")) == cluster
