"""Tables with a definition in the catalog: their schemas get numbers, and the map that has them says so."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kit.flight_rows import FLIGHT_SCHEMA, FLIGHTS, UNNUMBERED_FLIGHTS

from log_tier.catalog.catalog import MapFeed
from log_tier.catalog.catalog_fold import fold_command
from log_tier.catalog.cluster_map import ClusterMap
from log_tier.catalog.commands import (
    ClearTable,
    CreateTable,
    DropTable,
    RegisterNode,
    StartJob,
    command_batch,
    parse_command,
)
from log_tier.catalog.decisions import CommandDecision
from log_tier.catalog.map_json import map_from_json, map_to_json
from log_tier.model.batch import decode_batch
from log_tier.model.batch_header import stamp_batch
from log_tier.model.errors import InvalidRequest, LimitExceeded, UnknownFormat
from log_tier.model.identifiers import NOTHING, Offset, TableId
from log_tier.rows.definition import TableDefinition
from log_tier.rows.definitions import numbering
from log_tier.rows.schema import NumberedSchema, RowSchema
from log_tier.rows.table_index import TableIndex

TABLES = [TableId(f"uz7PoMe1SsyzElQe1u4I{letter}A") for letter in "abcd"]
PLANE = {"type": "record", "name": "Plane", "fields": [{"name": "tailnum", "type": "string"}]}
PLANES = TableDefinition(value="row", schemas=(NumberedSchema(0, RowSchema.parse(PLANE)),))


class DefinedTables:
    """A map that commands are folded into."""

    def __init__(self) -> None:
        self.map = ClusterMap()
        self.said(RegisterNode("n1", "h:1", "i1"))

    def said(self, command: Any) -> CommandDecision:
        offset = Offset(self.map.version + 1)
        self.map, decision = fold_command(self.map, offset, 0, f"{offset:016x}", command)
        return decision

    def create(self, number: int, name: str, definition: TableDefinition | None, **how: Any) -> str:
        document = {} if definition is None else definition.to_document()
        how = {"partitioner": "slot" if definition is None else definition.partitioner, **how}
        return self.said(CreateTable(TABLES[number], name, 2, 1, definition=document, **how)).rejection


@pytest.fixture
def folded() -> DefinedTables:
    return DefinedTables()


def test_schemas_are_numbered_for_the_whole_cluster(folded: DefinedTables) -> None:
    assert folded.create(0, "flights", UNNUMBERED_FLIGHTS) == ""
    assert folded.create(1, "planes", PLANES) == ""
    assert folded.create(2, "more_flights", UNNUMBERED_FLIGHTS) == ""
    numbers = [
        [each.number for each in entry.definition.schemas] for entry in folded.map.tables.values() if entry.definition
    ]
    assert numbers == [[1], [2], [1]]
    assert [number for number, _ in folded.map.schemas.items()] == [1, 2]
    assert folded.map.tables[TABLES[0]].definition == FLIGHTS


def test_a_number_outlives_its_table(folded: DefinedTables) -> None:
    folded.create(0, "flights", UNNUMBERED_FLIGHTS)
    folded.said(DropTable(TABLES[0]))
    folded.create(1, "planes", PLANES)
    folded.create(2, "flights", UNNUMBERED_FLIGHTS)
    assert folded.map.tables[TABLES[1]].definition == PLANES.numbered([2])
    assert folded.map.tables[TABLES[2]].definition == FLIGHTS


def test_a_table_that_cannot_be_changes_nothing(folded: DefinedTables) -> None:
    assert "are placed by fields:1, not by slot" in folded.create(0, "t", UNNUMBERED_FLIGHTS, partitioner="slot")
    assert "the topic 'o' of others" in folded.create(0, "t", UNNUMBERED_FLIGHTS, adopted=True, over="o")
    assert (
        "wants 2 replicas"
        in folded.said(
            CreateTable(TABLES[0], "t", 2, 2, "fields:1", definition=UNNUMBERED_FLIGHTS.to_document())
        ).rejection
    )
    assert not folded.map.schemas


def test_a_cluster_has_so_many_schemas(folded: DefinedTables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbering, "CLUSTER_SCHEMAS_MAX", 1)
    assert folded.create(0, "flights", UNNUMBERED_FLIGHTS) == ""
    assert "the cluster takes 1 of" in folded.create(1, "planes", PLANES)
    assert folded.create(2, "more_flights", UNNUMBERED_FLIGHTS) == "", "its schema has a number"
    with pytest.raises(LimitExceeded):
        numbering.number_schemas(PLANES, {1: "x"})


def test_the_map_says_what_is_in_its_tables(folded: DefinedTables) -> None:
    folded.create(0, "bytes", None)
    assert json.loads(map_to_json(folded.map))["v"] == 1, "older followers read it"
    folded.create(1, "flights", UNNUMBERED_FLIGHTS)
    folded.create(2, "texts", TableDefinition(key="str", value="json"))
    document = json.loads(map_to_json(folded.map))
    assert document["v"] == 2
    assert document["schemas"] == [[1, RowSchema.parse(FLIGHT_SCHEMA).text]]
    assert [table.get("definition", {}).get("schemas") for table in document["tables"]] == [None, [1], []]
    read = map_from_json(map_to_json(folded.map))
    assert read.tables == folded.map.tables
    assert read.schemas == folded.map.schemas
    assert read.table_facts().defined == folded.map.table_facts().defined
    assert [ref.defined for ref in (table.ref for table in read.tables.values())] == [False, True, True]
    with pytest.raises(UnknownFormat, match="has format 3"):
        map_from_json(json.dumps({**document, "v": 3}).encode())


def test_facts_follow_tables_that_come_and_go(folded: DefinedTables) -> None:
    feed, seen = MapFeed(), []
    defined = feed.defined
    for change in (
        lambda: folded.create(0, "flights", UNNUMBERED_FLIGHTS),
        lambda: folded.create(1, "bytes", None),
        lambda: folded.create(2, "planes", PLANES),
        lambda: folded.said(DropTable(TABLES[1])),
        lambda: folded.said(DropTable(TABLES[0])),
    ):
        change()
        feed.advance(folded.map)
        assert folded.map.table_facts().defined == replace(folded.map, facts=None).table_facts().defined
        seen.append(sorted(TABLES.index(each) for each in defined))
    assert seen == [[0], [0], [0, 2], [0, 2], [2]]
    assert feed.defined is defined, "each write looks at it without a call"


FIXTURES = Path(__file__).parent / "fixtures"


def test_what_landed_stays_readable() -> None:
    """The files were written when definitions landed; they are never written again."""
    text = (FIXTURES / "map-2-definitions.json").read_bytes().strip()
    cluster = map_from_json(text)
    assert map_to_json(cluster) == text
    flights, texts = cluster.tables.values()
    assert flights.definition == FLIGHTS
    assert texts.definition == TableDefinition(key="str", value="json")
    lines = [json.loads(line) for line in (FIXTURES / "commands-1-definitions.jsonl").read_text().splitlines()]
    for line, table in zip(lines, (flights, texts), strict=True):
        _, command = parse_command(line["key"].encode(), line["value"].encode())
        assert isinstance(command, CreateTable)
        assert (command.table, command.partitioner) == (table.id, table.partitioner)
        assert written(command).decode() == line["value"]


def written(command: CreateTable) -> bytes:
    batch = stamp_batch(command_batch(command, "0123456789abcdef"), base_offset=Offset(0), timestamp_ms=0, unsynced=0)
    return decode_batch(batch).columns.values[0]


def test_a_command_carries_its_definition() -> None:
    command = CreateTable(TABLES[0], "flights", 2, 1, "fields:1", definition=UNNUMBERED_FLIGHTS.to_document())
    assert parse_command(b"create-table", written(command)) == ("0123456789abcdef", command)
    assert b"definition" not in written(CreateTable(TABLES[0], "flights", 2, 1)), "older processes read it"


@pytest.mark.parametrize("definition", [{"v": 2}, {"v": 1}, {"v": 1, "key": "bytes", "value": "tree"}, {"x": 1}])
def test_a_definition_that_cannot_be_is_on_no_log(definition: Any) -> None:
    command = CreateTable(TABLES[0], "flights", 2, 1, definition=definition)
    with pytest.raises(InvalidRequest, match=r"CreateTable\.definition"):
        written(command)
    value = json.dumps(
        {"v": 1, "id": "x", "table": TABLES[0], "name": "t", "partitions": 1, "replicas": 1, "definition": definition}
    )
    with pytest.raises(UnknownFormat, match=r"CreateTable\.definition"):
        parse_command(b"create-table", value.encode())


def test_a_unique_index_that_two_logs_would_have_to_decide_is_refused(folded: DefinedTables) -> None:
    by_tail = TableIndex(1, "by_tail", ("tailnum",), unique=True)
    refused = folded.create(0, "flights", replace(UNNUMBERED_FLIGHTS, indexes=(by_tail,)))
    assert "has not the fields that decide the partition (carrier)" in refused
    wider = replace(by_tail, fields=("tailnum", "carrier"))
    assert "(flight)" in folded.create(0, "flights", replace(UNNUMBERED_FLIGHTS, partition_by=0, indexes=(wider,)))
    assert folded.create(0, "flights", replace(UNNUMBERED_FLIGHTS, indexes=(wider,))) == ""
    planes = replace(PLANES, indexes=(by_tail,))
    assert "no field decides the partition" in folded.create(1, "planes", planes)
    created = CreateTable(TABLES[1], "planes", 1, 1, definition=planes.to_document(), partitioner="slot")
    assert folded.said(created).rejection == ""
    definition = folded.map.tables[TABLES[0]].definition
    assert definition is not None
    assert definition.indexes == (wider,)
    assert map_from_json(map_to_json(folded.map)).tables == folded.map.tables


def test_a_version_that_was_built_elsewhere_is_refused_where_an_index_is_unique(folded: DefinedTables) -> None:
    index = TableIndex(1, "by_tail", ("carrier", "tailnum"), unique=True)
    assert folded.create(0, "flights", replace(UNNUMBERED_FLIGHTS, indexes=(index,))) == ""
    arguments: dict[str, Any] = {"table": TABLES[0], "url": "file:///builds/7", "version": 0}
    found = folded.said(StartJob("stage", "flights", (), arguments))
    assert "has the unique index by_tail, which is decided by its log" in found.rejection
    clear = ClearTable(TABLES[0], (NOTHING, NOTHING), 1)
    assert folded.said(clear).rejection == "", "an empty version has no rows of its own"
