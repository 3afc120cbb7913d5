"""Subjects and numbers of a map."""

from __future__ import annotations

from dataclasses import replace

from kit.flight_rows import FLIGHTS

from duramen.server.registry.subjects import Subject, SubjectIndex
from log_tier.catalog.cluster_map import ClusterMap, TableEntry
from log_tier.model.identifiers import TableId
from log_tier.rows.definition import TableDefinition
from log_tier.rows.schema import NumberedSchema, RowSchema

WIDER = RowSchema.parse(
    {
        "type": "record",
        "name": "Flight",
        "fields": [
            {"name": "carrier", "type": "string"},
            {"name": "flight", "type": "long"},
            {"name": "gate", "type": "string", "default": ""},
        ],
    }
)


def entry(number: int, name: str, definition: TableDefinition | None) -> TableEntry:
    return TableEntry(TableId(f"t{number:021d}"), name, 1, 1, ((),), definition=definition)


def test_tables_of_rows_alone_have_subjects_and_share_numbers() -> None:
    two = replace(FLIGHTS, schemas=(*FLIGHTS.schemas, NumberedSchema(4, WIDER)))
    cluster = ClusterMap()
    for number, (name, definition) in enumerate(
        [("zoo", FLIGHTS), ("bytes", None), ("flights", two), ("texts", TableDefinition(key="str", value="str"))]
    ):
        cluster = cluster.with_table(entry(number, name, definition))
    index = SubjectIndex.of(cluster, lambda table: f"db.{table.name}")
    assert isinstance(FLIGHTS.key, tuple)
    flights = Subject("db.flights-value", "flights", two.schemas, FLIGHTS.key)
    zoo = Subject("db.zoo-value", "zoo", FLIGHTS.schemas, FLIGHTS.key)
    assert list(index.by_name.items()) == [(each.name, each) for each in (flights, zoo)]
    assert index.by_number == {1: (flights, zoo), 4: (flights,)}


def test_a_cluster_without_rows_has_none() -> None:
    assert SubjectIndex.of(ClusterMap().with_table(entry(0, "bytes", None)), lambda table: table.name) == ({}, {})
