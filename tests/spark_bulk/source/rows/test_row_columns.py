"""Rows as columns of Spark, without Spark: types, pages, conditions, and what is encoded."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from kit.flight_rows import ALTERED_FLIGHTS, FLIGHTS, flight, flight_key, later_flight

from log_tier.model.errors import InvalidKey, InvalidRequest, InvalidRow, InvalidSchema, InvalidValue, UnknownFormat
from log_tier.rows.definition import TableDefinition
from log_tier.rows.framing import frame
from log_tier.rows.json_rows.json_form import row_from_json
from log_tier.rows.key_fields import KeyField
from log_tier.rows.schema import NumberedSchema, RowSchema
from log_tier.rows.table_index import TableIndex
from spark_bulk.source.model.key_ranges import ALL_KEYS, KeyRange
from spark_bulk.source.model.row_columns import (
    as_row_column,
    as_spark_column,
    check_row_columns,
    row_columns,
    spark_type,
)
from spark_bulk.source.model.row_conditions import row_conditions
from spark_bulk.source.table.closed_index_file import Rows
from spark_bulk.source.table.row_pages import RowPages
from spark_bulk.source.writes.encoded_rows import RowEncoder

NESTED = pa.struct(
    [
        pa.field("clock", pa.time32("ms")),
        pa.field("prices", pa.list_(pa.field("item", pa.decimal256(50, 2)))),
        pa.field("opens", pa.map_(pa.string(), pa.field("value", pa.time64("us")))),
    ]
)
VALUES: list[Any] = [
    {"clock": time(1, 2, 3), "prices": [Decimal("1.50"), None], "opens": [("a", time(4))]},
    None,
    {"clock": None, "prices": None, "opens": None},
    {"clock": time(23), "prices": [], "opens": []},
]


def stored(values: list[bytes]) -> Rows:
    versions = np.arange(len(values))
    return Rows(len(values), pa.array([b"k"] * len(values)), pa.array(values, pa.binary()), versions, None)


def pages(definition: TableDefinition, schema: pa.Schema | None = None, where: Any = None) -> RowPages:
    rest = row_conditions(where or {}, definition).rest
    return RowPages(definition, schema or row_columns(definition), rest, "flights/3")


@pytest.mark.parametrize("part", [slice(0, 4), slice(1, 4), slice(2, 3), slice(0, 0)])
def test_nested_columns_become_spark_s_types_and_come_back(part: slice) -> None:
    column = pa.array(VALUES, NESTED)[part]
    shown = as_spark_column(column, spark_type(NESTED))
    assert str(spark_type(NESTED)) == ("struct<clock: int32, prices: list<item: string>, opens: map<string, int64>>")
    shown.validate(full=True)
    back = as_row_column(shown, NESTED)
    back.validate(full=True)
    assert back.to_pylist() == column.to_pylist()


def test_a_schema_names_the_fields_and_what_every_row_has() -> None:
    check_row_columns(pa.schema([("dep_delay", pa.float64()), ("version", pa.int64()), ("key", pa.binary())]), FLIGHTS)
    for schema, said in (
        ({"flight": pa.int32()}, "the column `flight` is int64, the schema says int32"),
        ({"value": pa.binary()}, "there is no column `value`: there are carrier, flight, tailnum, dep_delay"),
        ({"version": pa.string()}, "the column `version` is int64, not string"),
    ):
        with pytest.raises(InvalidRequest, match=said):
            check_row_columns(pa.schema(list(schema.items())), FLIGHTS)
    by_text = TableDefinition(key="str", value="row", schemas=FLIGHTS.schemas)
    assert row_columns(by_text).names == ["key", "carrier", "flight", "tailnum", "dep_delay"]


def test_pages_are_read_by_the_newest_schema_and_conditions_hold_for_all() -> None:
    values = [flight("UA", 1, "N1"), later_flight("UA", 2, "B7", tailnum="N1"), flight("UA", 3)]
    rows, fields = pages(ALTERED_FLIGHTS).read(stored(values))
    assert (rows.count, fields["gate"].to_pylist()) == (3, ["-", "B7", "-"])
    rows, fields = pages(ALTERED_FLIGHTS, where={"tailnum": "N1"}).read(stored(values))
    assert (rows.count, rows.versions.tolist(), fields["flight"].to_pylist()) == (2, [0, 1], [1, 2])
    rows, fields = pages(ALTERED_FLIGHTS, where={"tailnum": "N9"}).read(stored(values))
    assert (rows.count, fields["gate"].to_pylist()) == (0, [])
    assert pages(FLIGHTS, pa.schema([("version", pa.int64())])).read(stored(values))[1] == {}


def test_a_row_of_a_later_schema_and_bytes_that_are_none_are_named_by_their_partition() -> None:
    with pytest.raises(UnknownFormat, match=r"flights/3: a stored row has schema 2.*: the table was altered while"):
        pages(FLIGHTS).read(stored([later_flight("UA", 2)]))
    with pytest.raises(InvalidValue, match="flights/3: a stored value is no row of its table"):
        pages(FLIGHTS).read(stored([flight("UA", 2)[:-3]]))
    with pytest.raises(InvalidValue, match="flights/3: a stored value is no row of its table"):
        pages(FLIGHTS).read(stored([b"\1x"]))


def test_conditions_on_the_first_fields_of_the_key_are_a_range_of_it() -> None:
    assert row_conditions({}, FLIGHTS).keys == ALL_KEYS
    found = row_conditions({"flight": [10, 20], "carrier": "UA", "dep_delay": [5.0, None]}, FLIGHTS)
    assert found.keys == KeyRange(flight_key("UA", 10), flight_key("UA", 20))
    assert found.key_prefix == flight_key("UA", 10)[:4]
    assert [each.path for each in found.rest] == ["dep_delay"]
    found = row_conditions({"flight": 10}, FLIGHTS)
    assert (found.keys, found.key_prefix, [each.path for each in found.rest]) == (ALL_KEYS, b"", ["flight"])
    found = row_conditions({"carrier": ["UA", None]}, FLIGHTS)
    assert (found.keys, found.rest) == (KeyRange(flight_key("UA", 1)[:4], None), ())
    with pytest.raises(InvalidRequest, match="the condition on flight"):
        row_conditions({"flight": "ten"}, FLIGHTS)


def encode(rows: list[dict[str, Any]], schema: pa.Schema, definition: TableDefinition = FLIGHTS) -> list[Any]:
    batch = pa.RecordBatch.from_pylist(rows, schema=schema)
    encoder = RowEncoder(definition, schema)
    made = encoder.stored(batch, where="task 2", first_row=100)
    assert made.schema == encoder.stored_schema(schema)
    return list(zip(made.column("key").to_pylist(), made.column("value").to_pylist(), strict=True))


FIELDS = pa.schema([("carrier", pa.string()), ("flight", pa.int32()), ("dep_delay", pa.float64())])


def test_rows_are_encoded_as_every_other_writer_encodes_them() -> None:
    rows = [{"carrier": "UA", "flight": number, "dep_delay": 1.5} for number in range(3)]
    assert encode(rows, FIELDS) == [(flight_key("UA", n), flight("UA", n, None, 1.5)) for n in range(3)]
    with_operation = FIELDS.append(pa.field("operation", pa.string()))
    rows = [
        {"carrier": "UA", "flight": 1, "dep_delay": None, "operation": "delete"},
        {"carrier": "UA", "flight": 2, "dep_delay": 0.0, "operation": "put"},
    ]
    assert encode(rows, with_operation) == [(flight_key("UA", 1), None), (flight_key("UA", 2), flight("UA", 2))]


def test_a_row_that_does_not_fit_is_refused_with_its_place() -> None:
    with_operation = FIELDS.append(pa.field("operation", pa.string()))
    good = {"carrier": "UA", "flight": 1, "dep_delay": 0.0, "operation": "put"}
    for bad, kind, said in (
        ({"dep_delay": None}, InvalidRow, "task 2, row 101: the field dep_delay is null, expected double"),
        ({"operation": "add"}, InvalidValue, "task 2, row 101: `operation` is 'add'; rows are put or deleted"),
        ({"flight": None, "operation": "delete"}, InvalidKey, "task 2, row 101: the key's field flight is None"),
        ({"carrier": "x" * 600}, InvalidKey, "task 2, row 101: the key of the row: "),
    ):
        with pytest.raises(kind, match=said):
            encode([good, {**good, **bad}], with_operation)


def test_columns_that_are_none_of_the_table_s_are_refused_before_the_first_row() -> None:
    with pytest.raises(InvalidSchema, match="delay: it is no field of Flight"):
        RowEncoder(FLIGHTS, FIELDS.append(pa.field("delay", pa.int32())))
    with pytest.raises(InvalidSchema, match="dep_delay: it is missing, and the field has no default"):
        RowEncoder(FLIGHTS, FIELDS.remove(2))
    by_text = TableDefinition(key="str", value="row", schemas=FLIGHTS.schemas)
    with pytest.raises(InvalidRequest, match="the keys of this table are str, and no fields of its rows"):
        RowEncoder(by_text, FIELDS)
    alone = replace(FLIGHTS, indexes=(TableIndex(1, "by_tail", ("carrier", "tailnum"), unique=True),))
    with pytest.raises(InvalidRequest, match="a job of Spark does not wait for verdicts"):
        RowEncoder(alone, FIELDS)


def test_an_entry_that_is_too_long_for_an_index_is_refused_and_not_void() -> None:
    schema = RowSchema.parse(
        {
            "type": "record",
            "name": "Note",
            "fields": [{"name": "id", "type": "long"}, {"name": "text", "type": "string"}],
        }
    )
    notes = TableDefinition(key=(KeyField("id", "int"),), value="row", schemas=(NumberedSchema(1, schema),))
    indexed = notes.with_index("by_text", ["text"])
    columns = pa.schema([("id", pa.int64()), ("text", pa.string())])
    with pytest.raises(InvalidRow, match="task 2, row 100: its entry in the index by_text has"):
        encode([{"id": 1, "text": "x" * 600}], columns, indexed)


FIRST: Any = {
    "type": "record",
    "name": "Item",
    "fields": [{"name": "id", "type": "long"}, {"name": "n", "type": "int"}, {"name": "name", "type": "string"}],
}
KIND: Any = {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}
SECOND: Any = {
    **FIRST,
    "fields": [
        {"name": "kind", "type": KIND, "default": "B"},
        *FIRST["fields"],
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": ["x"]},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
THIRD: Any = {
    **SECOND,
    "fields": [
        {"name": "title", "type": "string", "aliases": ["name"], "default": "?"},
        {"name": "n", "type": "long"},
        *(each for each in SECOND["fields"] if each["name"] not in ("n", "name")),
    ],
}


def test_rows_of_several_schemas_are_in_their_order_with_the_newest_ones_types() -> None:
    """The second schema adds fields, which is read by steps for all rows; the third widens one and renames another."""
    items = TableDefinition(
        key=(KeyField("id", "int"),), value="row", schemas=(NumberedSchema(1, RowSchema.parse(FIRST)),)
    )
    rows: list[Any] = [
        {"id": 0, "n": 7, "name": "a"},
        {"id": 1, "n": 8, "name": "b", "kind": "A", "tags": [], "note": "!"},
        {"id": 2, "n": 9, "name": "c"},
        {"id": 3, "n": 10, "name": "d", "kind": "B", "tags": ["y", "z"], "note": None},
    ]
    values = [
        frame(number, row_from_json(RowSchema.parse(schema), json.dumps(row)))
        for row, (number, schema) in zip(rows, [(1, FIRST), (2, SECOND)] * 2, strict=True)
    ]
    missing = {"kind": "B", "tags": ["x"], "note": None}
    second = items.with_schema(NumberedSchema(2, RowSchema.parse(SECOND)))
    for definition in (second, second.with_schema(NumberedSchema(3, RowSchema.parse(THIRD)))):
        names = row_columns(definition).names
        name = "title" if "title" in names else "name"
        expected = [{**missing, **row, name: row["name"]} for row in rows]
        found = pages(definition).read(stored(values))[1]
        assert {each: column.to_pylist() for each, column in found.items()} == {
            each: [row[each] for row in expected] for each in names
        }
        assert {each: column.type for each, column in found.items()} == {
            each.name: each.type for each in row_columns(definition)
        }
