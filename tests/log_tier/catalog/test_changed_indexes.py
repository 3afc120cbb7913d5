"""An index comes by one job: barriers, a task for each replica, barriers; and goes by another one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kit.flight_rows import FLIGHTS, UNNUMBERED_FLIGHTS

from log_tier.catalog.catalog_fold import fold_command
from log_tier.catalog.cluster_map import ClusterMap
from log_tier.catalog.commands import (
    AbortJob,
    Command,
    CreateTable,
    DropTable,
    RegisterNode,
    ResumeJob,
    StartJob,
    TaskDone,
    TaskFailed,
    TaskPlan,
    TaskReady,
    command_batch,
    parse_command,
)
from log_tier.catalog.decisions import CommandRefused
from log_tier.catalog.definition_fold import next_definition
from log_tier.catalog.jobs import Job
from log_tier.catalog.map_json import map_from_json, map_to_json
from log_tier.model.batch import decode_batch
from log_tier.model.batch_header import stamp_batch
from log_tier.model.identifiers import Offset, Partition, TableId
from log_tier.rows.alter_table import AlterIndexes, AlterTable
from log_tier.rows.definition import TableDefinition
from log_tier.rows.finding.conditions import conditions_of
from log_tier.rows.table_index import pack_where

TABLE, BYTES = TableId("uz7PoMe1SsyzElQe1u4IvA"), TableId("uz7PoMe1SsyzElQe1u4IbA")
BUILDING = FLIGHTS.with_index("by_tail", ("tailnum",))
SERVED = BUILDING.with_index_served(1)
LATE = conditions_of({"dep_delay": (60, None)}, FLIGHTS)
NODES = ("n1", "n2")


class IndexedMap:
    """A map that commands are folded into: both partitions of a table of rows are at two nodes."""

    def __init__(self) -> None:
        self.map = ClusterMap()
        for node in (*NODES, "n3"):
            assert self.says(RegisterNode(node, f"{node}:1", node)) == ""
        document = UNNUMBERED_FLIGHTS.to_document()
        assert self.says(CreateTable(TABLE, "flights", 2, 2, "fields:1", definition=document)) == ""
        assert self.says(CreateTable(BYTES, "bytes", 2, 1)) == ""

    def says(self, command: Command) -> str:
        """Why it was refused; empty: it was taken."""
        offset = Offset(self.map.version + 1)
        self.map, decision = fold_command(self.map, offset, 0, f"{offset:016x}", command)
        return decision.rejection

    def create(self, name: str = "by_tail", fields: str = "tailnum", *, after: int = 1, table: TableId = TABLE) -> str:
        return self.says(AlterIndexes(table, after, name, fields, "n1"))

    @property
    def job(self) -> Job:
        return self.map.jobs[max(self.map.jobs)]

    @property
    def definition(self) -> TableDefinition | None:
        return self.map.tables[TABLE].definition

    def waiting(self) -> list[tuple[int, str, int, str]]:
        return [(at, task.action, task.partition, task.node) for at, task in self.job.tasks.unfinished()]

    def does(self, number: int) -> str:
        return self.says(TaskDone(self.job.id, number, self.job.tasks[number].node))

    def does_all(self) -> None:
        for number, *_ in self.waiting():
            assert self.does(number) == ""


@pytest.fixture
def folded() -> IndexedMap:
    return IndexedMap()


def test_the_steps_of_an_index(folded: IndexedMap) -> None:
    assert folded.create() == ""
    assert (folded.job.kind, folded.definition) == ("create-index", FLIGHTS)
    assert next_definition(folded.map, folded.job) == BUILDING
    assert folded.does(0) == ""
    assert folded.definition == BUILDING
    builds = [(action, partition, node) for _, action, partition, node in folded.waiting()]
    assert sorted(builds) == [
        ("index", partition, node)
        for partition in (0, 1)
        for node in sorted(folded.map.tables[TABLE].readable(Partition(partition)))
    ]
    folded.does_all()
    assert folded.definition == BUILDING, "all are whole, and no barrier says so yet"
    ((last, action, _, _),) = folded.waiting()
    assert action == "alter"
    assert next_definition(folded.map, folded.job, last) == SERVED
    with pytest.raises(CommandRefused, match=r"task 0 of job .* is done"):
        next_definition(folded.map, folded.job, 0)
    assert map_from_json(map_to_json(folded.map)).jobs == folded.map.jobs
    assert folded.does(last) == ""
    assert (folded.job.state, folded.definition) == ("done", SERVED)
    assert map_from_json(map_to_json(folded.map)).tables == folded.map.tables


def test_an_index_goes(folded: IndexedMap) -> None:
    folded.create()
    for _ in range(3):
        folded.does_all()
    assert folded.create(fields="", after=3) == ""
    assert folded.job.kind == "drop-index"
    assert "may have put barriers" in folded.says(AbortJob(folded.job.id))
    folded.does_all()
    assert (folded.job.state, folded.definition) == ("done", SERVED.without_index(1))


def test_one_change_at_a_time(folded: IndexedMap) -> None:
    folded.create()
    for _ in range(2):
        assert "goes over to definition 2, with the index by_tail, by job" in folded.create("by_delay", "dep_delay")
        assert "with the index by_tail" in folded.says(AlterTable(TABLE, 1, "{}", "n1"))
        assert "are being changed by job" in folded.says(
            StartJob("swap", "flights", (), {"table": TABLE, "version": 1})
        )
        folded.does_all()
    assert "goes over to definition 2, with the index" in folded.create("by_delay", "dep_delay", after=2)
    folded.does_all()
    assert "has definition 3 by now, with schema 1 of job" in folded.create("by_delay", "dep_delay", after=1)
    assert folded.create("by_delay", "dep_delay", after=3) == ""


def test_what_cannot_be(folded: IndexedMap) -> None:
    assert "no table has the id" in folded.create(table=TableId("uz7PoMe1SsyzElQe1u4IcA"))
    assert "has no rows" in folded.create(table=BYTES)
    assert "has no field gate" in folded.create("by_gate", "gate")
    assert "a name has 1 to 64" in folded.create("by tail")
    assert "the table has no index 'by_x'" in folded.create("by_x", "")
    assert "there is no node 'n9'" in folded.says(AlterIndexes(TABLE, 1, "by_tail", "tailnum", "n9"))
    assert "begins with" in folded.says(StartJob("create-index", "flights", (), {"table": TABLE}))
    assert folded.map.jobs == {}


def test_an_index_that_is_being_built_is_given_up(folded: IndexedMap) -> None:
    folded.create()
    assert "may have put barriers" in folded.says(AbortJob(folded.job.id))
    folded.does(0)
    folded.does(1)
    assert folded.says(AbortJob(folded.job.id)) == ""
    assert [task.state for task in folded.job.tasks] == ["done", "done", "aborted", "aborted", "aborted", "waiting"]
    assert folded.job.state == "running"
    assert next_definition(folded.map, folded.job, 5) == BUILDING.without_index(1)
    assert "may have put barriers" in folded.says(AbortJob(folded.job.id))
    folded.does_all()
    assert (folded.job.state, folded.definition) == ("aborted", BUILDING.without_index(1))
    assert folded.create(after=3) == ""


def test_a_build_that_failed_is_taken_up_or_given_up(folded: IndexedMap) -> None:
    folded.create()
    folded.does(0)
    (first, *_, node), *others = folded.waiting()
    assert folded.says(TaskFailed(folded.job.id, first, node, "limit_exceeded: a row is too long")) == ""
    for number, *_ in others:
        folded.does(number)
    assert (folded.job.state, folded.definition) == ("failed", BUILDING)
    assert folded.says(ResumeJob(folded.job.id, {})) == ""
    assert [number for number, *_ in folded.waiting()] == [first]
    folded.says(TaskFailed(folded.job.id, first, node, "limit_exceeded: a row is too long"))
    assert folded.says(AbortJob(folded.job.id)) == ""
    folded.does_all()
    assert (folded.job.state, folded.definition) == ("aborted", BUILDING.without_index(1))


def test_replicas_that_come_and_go_meanwhile(folded: IndexedMap) -> None:
    folded.create()
    folded.does(0)
    building, table = folded.job.id, folded.map.tables[TABLE]
    (source, *_) = table.readable(Partition(0))
    (target,) = {*NODES, "n3"} - set(table.readable(Partition(0)))
    plan = TaskPlan("move", TABLE, Partition(0), target, {"from": source})
    assert folded.says(StartJob("move", "flights/0", (plan,))) == ""
    moving = folded.job.id

    assert folded.says(TaskReady(moving, 0, target)) == ""
    assert folded.says(TaskDone(moving, 0, target)) == ""
    job = folded.map.jobs[building]
    for number, task in list(job.tasks.unfinished()):
        if (task.partition, task.node) != (0, source):
            assert folded.says(TaskDone(building, number, task.node)) == ""
    assert folded.says(ResumeJob(building, {})) == "", "what lost its replica has nothing to build"
    ((number, task),) = folded.map.jobs[building].tasks.unfinished()
    assert (task.action, task.partition, task.node) == ("index", 0, target)
    folded.says(TaskDone(building, number, target))
    ((number, task),) = folded.map.jobs[building].tasks.unfinished()
    assert task.action == "alter"
    folded.says(TaskDone(building, number, task.node))
    assert folded.definition == SERVED


def test_a_table_that_is_dropped_meanwhile(folded: IndexedMap) -> None:
    folded.create()
    folded.does(0)
    assert folded.says(DropTable(TABLE)) == ""
    assert folded.job.state == "aborted"
    folded.says(ResumeJob(folded.job.id, {}))
    assert folded.job.state == "aborted"


def test_an_index_of_some_rows(folded: IndexedMap) -> None:
    said = AlterIndexes(TABLE, 1, "late", "tailnum", "n1", pack_where(LATE))
    assert folded.says(said) == ""
    assert folded.job.arguments["where"] == pack_where(LATE)
    coming = FLIGHTS.with_index("late", ("tailnum",), LATE)
    assert next_definition(folded.map, folded.job) == coming
    folded.does(0)
    assert folded.definition == coming
    folded.does_all()
    folded.does(folded.waiting()[0][0])
    assert folded.definition == coming.with_index_served(1)
    assert map_from_json(map_to_json(folded.map)).tables == folded.map.tables


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("[", "an index's conditions cannot be read"),
        ("[[1]]", "an index's conditions cannot be read"),
        ('[["gate","00","0000"]]', "has no field gate"),
        ('[["dep_delay","00","zz"]]', "an index's conditions cannot be read"),
        ('[["dep_delay","","ff"]]', "each row meets the condition on dep_delay"),
    ],
)
def test_conditions_that_are_none_are_refused(folded: IndexedMap, where: str, why: str) -> None:
    assert why in folded.says(AlterIndexes(TABLE, 1, "late", "tailnum", "n1", where))
    assert folded.definition == FLIGHTS


def test_the_command_is_on_the_log() -> None:
    command = AlterIndexes(TABLE, 3, "by_tail", "tailnum,origin.code", "n1")
    stored = stamp_batch(command_batch(command, "c" * 16), base_offset=Offset(0), timestamp_ms=1, unsynced=0)
    columns = decode_batch(stored).columns
    assert columns.keys[0] == b"alter-indexes"
    assert parse_command(columns.keys[0], columns.values[0]) == ("c" * 16, command)


def test_the_command_stays_readable() -> None:
    """The lines were written when it landed; they are never written again."""
    lines = (Path(__file__).parent / "fixtures" / "commands-1-alter-indexes.jsonl").read_text().splitlines()
    known = [
        AlterIndexes(TABLE, 3, "by_tail", "tailnum,origin.code", "n1"),
        AlterIndexes(TABLE, 5, "by_tail", "", "n2"),
        AlterIndexes(TABLE, 3, "late", "tailnum", "n1", pack_where(LATE)),
    ]
    for line, command in zip(map(json.loads, lines), known, strict=True):
        command_id, read = parse_command(line["key"].encode(), line["value"].encode())
        assert read == command
        stored = stamp_batch(command_batch(command, command_id), base_offset=Offset(0), timestamp_ms=0, unsynced=0)
        assert decode_batch(stored).columns.values[0].decode() == line["value"]
