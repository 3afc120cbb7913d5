"""A table's schema changes by one job: a number first, then the barriers, then the table has the definition."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kit.flight_rows import ALTERED_FLIGHTS, FLIGHTS, LATER_SCHEMA, UNNUMBERED_FLIGHTS

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
    command_batch,
    parse_command,
)
from log_tier.catalog.definition_fold import next_definition
from log_tier.catalog.map_json import map_from_json, map_to_json
from log_tier.model.batch import decode_batch
from log_tier.model.batch_header import stamp_batch
from log_tier.model.identifiers import Offset, TableId
from log_tier.rows import alter_table
from log_tier.rows.alter_table import AlterTable
from log_tier.rows.schema import RowSchema

TABLE, BYTES = TableId("uz7PoMe1SsyzElQe1u4IvA"), TableId("uz7PoMe1SsyzElQe1u4IbA")
LATER = RowSchema.parse(LATER_SCHEMA).text
THIRD = RowSchema.parse({**LATER_SCHEMA, "doc": "the third"}).text


class AlteredMap:
    """A map that commands are folded into."""

    def __init__(self) -> None:
        self.map = ClusterMap()
        for node in ("n1", "n2"):
            self.says(RegisterNode(node, f"{node}:1", node))
        document = UNNUMBERED_FLIGHTS.to_document()
        assert self.says(CreateTable(TABLE, "flights", 2, 1, "fields:1", definition=document)) == ""
        assert self.says(CreateTable(BYTES, "bytes", 2, 1)) == ""

    def says(self, command: Command) -> str:
        """Why it was refused; empty: it was taken."""
        offset = Offset(self.map.version + 1)
        self.map, decision = fold_command(self.map, offset, 0, f"{offset:016x}", command)
        return decision.rejection

    def alter(self, schema: str = LATER, *, after: int = 1, node: str = "n1") -> str:
        return self.says(AlterTable(TABLE, after, schema, node))

    @property
    def job(self) -> int:
        return max(self.map.jobs)


@pytest.fixture
def folded() -> AlteredMap:
    return AlteredMap()


def test_a_number_first_and_the_definition_last(folded: AlteredMap) -> None:
    assert folded.alter() == ""
    assert folded.map.tables[TABLE].definition == FLIGHTS, "nobody writes by the next one yet"
    assert folded.map.schemas[2] == LATER
    job = folded.map.jobs[folded.job]
    assert (job.kind, [task.action for task in job.tasks], job.puts_barriers) == ("alter", ["alter"], False)
    assert next_definition(folded.map, job) == ALTERED_FLIGHTS
    assert next_definition(map_from_json(map_to_json(folded.map)), job) == ALTERED_FLIGHTS
    assert folded.says(TaskDone(folded.job, 0, "n1")) == ""
    assert folded.map.tables[TABLE].definition == ALTERED_FLIGHTS
    assert folded.map.table_facts().defined[TABLE] == ALTERED_FLIGHTS
    assert folded.map.jobs[folded.job].state == "done"
    assert map_from_json(map_to_json(folded.map)).tables == folded.map.tables


def test_one_of_two_wins_and_the_other_hears_to_what(folded: AlteredMap) -> None:
    folded.alter()
    assert "goes over to definition 2, with schema 2, by job" in folded.alter(THIRD)
    folded.says(TaskDone(folded.job, 0, "n1"))
    assert "has definition 2 by now, with schema 2 of job" in folded.alter(THIRD)
    assert 3 not in folded.map.schemas, "what was refused has no number"
    assert folded.alter(THIRD, after=2) == ""


def test_what_cannot_be(folded: AlteredMap, monkeypatch: pytest.MonkeyPatch) -> None:
    less = RowSchema.parse({**LATER_SCHEMA, "fields": LATER_SCHEMA["fields"][1:]}).text
    assert "carrier" in folded.alter(less)
    assert "as schema 1: give it another `doc`" in folded.alter(FLIGHTS.schemas[0].schema.text)
    assert "no JSON" in folded.alter("?")
    assert "there is no node 'n9'" in folded.alter(node="n9")
    assert "has no rows" in folded.says(AlterTable(BYTES, 1, LATER, "n1"))
    assert "no table has the id" in folded.says(AlterTable(TableId("uz7PoMe1SsyzElQe1u4IxA"), 1, LATER, "n1"))
    assert "begins with an `alter-table`" in folded.says(StartJob("alter", "flights", (), {"table": TABLE}))
    monkeypatch.setattr("log_tier.catalog.definition_fold.DEFINITION_BYTES_MAX", 100)
    assert alter_table.DEFINITION_BYTES_MAX > 100
    assert "a barrier takes 100" in folded.alter()
    assert (dict(folded.map.schemas), folded.map.jobs) == ({1: FLIGHTS.schemas[0].schema.text}, {})


def test_it_is_carried_through_and_not_undone(folded: AlteredMap) -> None:
    folded.alter()
    assert "resume it" in folded.says(AbortJob(folded.job))
    assert "being changed by job" in folded.says(StartJob("stage", "flights", (), {"table": TABLE, "url": "empty:"}))
    folded.says(TaskFailed(folded.job, 0, "n1", "the disk is full"))
    assert folded.map.tables[TABLE].definition == FLIGHTS
    assert "(failed)" in folded.alter(THIRD)
    assert folded.says(ResumeJob(folded.job, {"0": "n2"})) == "", "any node can do it"
    assert folded.says(TaskDone(folded.job, 0, "n2")) == ""
    assert folded.map.tables[TABLE].definition == ALTERED_FLIGHTS


def test_a_table_that_is_dropped_meanwhile(folded: AlteredMap) -> None:
    folded.alter()
    folded.says(DropTable(TABLE))
    assert folded.map.jobs[folded.job].state == "aborted"
    assert folded.map.schemas[2] == LATER, "no number is used again"


def test_a_table_begins_with_its_first_definition(folded: AlteredMap) -> None:
    """One that is made of another, which was altered, too."""
    document = ALTERED_FLIGHTS.to_document()
    again = TableId("uz7PoMe1SsyzElQe1u4IaA")
    assert folded.says(CreateTable(again, "again", 2, 1, "fields:1", definition=document)) == ""
    made = folded.map.tables[again].definition
    assert made is not None
    assert (made.number, [each.number for each in made.schemas]) == (1, [1, 2])
    assert made.first == made


def test_the_command_stays_readable() -> None:
    """The line was written when it landed; it is never written again."""
    line = json.loads((Path(__file__).parent / "fixtures" / "commands-1-alter.jsonl").read_text())
    command_id, command = parse_command(line["key"].encode(), line["value"].encode())
    assert command == AlterTable(TABLE, 1, LATER, "n1")
    batch = stamp_batch(command_batch(command, command_id), base_offset=Offset(0), timestamp_ms=0, unsynced=0)
    assert decode_batch(batch).columns.values[0].decode() == line["value"]
