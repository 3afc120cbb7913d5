"""Columns as stored rows: casts that lose nothing, and refusals by the field."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from kit.avro_rows import avro_encode

from log_tier.model.errors import InvalidKey, InvalidRow, InvalidSchema
from log_tier.rows.columns.batch_writer import BatchWriter
from log_tier.rows.definition import TableDefinition
from log_tier.rows.framing import frame
from log_tier.rows.key_fields import KeyField
from log_tier.rows.schema import NumberedSchema, RowSchema

ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
FIXED_ID = {"type": "fixed", "name": "Id", "size": 16, "logicalType": "uuid"}
RECORD = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "string", "default": "z"}],
}


def logical(type_: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": type_, "logicalType": name, **more}


def table_with(type_: Any, **more: Any) -> TableDefinition:
    """A table of rows with a key `k` and a field `x`."""
    fields = [{"name": "k", "type": "string"}, {"name": "x", "type": type_, **more}]
    schema = RowSchema.parse({"type": "record", "name": "Row", "fields": fields})
    return TableDefinition(1, (KeyField("k", "str"),), "row", (NumberedSchema(4, schema),))


def written(type_: Any, column: pa.Array) -> list[Any]:
    batch = pa.record_batch({"k": pa.array([f"k{n}" for n in range(len(column))]), "x": column})
    return BatchWriter(table_with(type_), batch.schema).pairs(batch)


STAMP = datetime(2026, 11, 27, 18, 30, tzinfo=UTC)
LOCAL = datetime(2026, 11, 27)
DECIMAL = logical("bytes", "decimal", precision=5, scale=2)
ID = UUID("12345678-1234-5678-1234-56789abcdef0")

CASTS: list[tuple[Any, pa.Array, Any]] = [
    ("int", pa.array([7], pa.uint8()), 7),
    ("long", pa.array([7.0]), 7),
    ("double", pa.array([7], pa.int16()), 7.0),
    ("float", pa.array([0.1], pa.float64()), 0.1),
    ("string", pa.array(["é"], pa.large_string()), "é"),
    ("string", pa.array(["é"]).dictionary_encode(), "é"),
    ("bytes", pa.array([b"\xff"], pa.binary(1)), b"\xff"),
    (logical("int", "date"), pa.array([LOCAL], pa.timestamp("ns")), date(2026, 11, 27)),
    (logical("int", "time-millis"), pa.array([time(1, 2)], pa.time64("ns")), time(1, 2)),
    (logical("long", "timestamp-micros"), pa.array([STAMP], pa.timestamp("s", "Europe/Berlin")), STAMP),
    (logical("long", "timestamp-millis"), pa.array([STAMP], pa.timestamp("ns", "UTC")), STAMP),
    (logical("long", "local-timestamp-micros"), pa.array([LOCAL], pa.timestamp("ms")), LOCAL),
    (DECIMAL, pa.array([7]), Decimal("7.00")),
    (DECIMAL, pa.array([Decimal("1.5000")], pa.decimal256(40, 4)), Decimal("1.50")),
    (logical("bytes", "decimal", precision=80, scale=2), pa.array(["-1.5"]), Decimal("-1.50")),
    (ENUM, pa.array(["B"]), "B"),
    (FIXED_ID, pa.array([str(ID).upper()]), ID.bytes),
    (logical("string", "uuid"), pa.array([ID.bytes]), str(ID)),
    ({"type": "map", "values": "int"}, pa.array([[{"key": "a", "value": 1}]]), {"a": 1}),
    ({"type": "array", "items": "int"}, pa.array([[1, 2]], pa.list_(pa.int8(), 2)), [1, 2]),
    (RECORD, pa.array([{"a": 5}]), {"a": 5, "b": "z"}),
    (["null", "string", "long"], pa.array([{"long": 5}]), ("long", 5)),
]


@pytest.mark.parametrize(("type_", "column", "value"), CASTS)
def test_a_cast_that_loses_nothing_is_made(type_: Any, column: pa.Array, value: Any) -> None:
    ((key, stored),) = written(type_, column)
    schema = {
        "type": "record",
        "name": "Row",
        "fields": [{"name": "k", "type": "string"}, {"name": "x", "type": type_}],
    }
    assert stored == frame(4, avro_encode(schema, {"k": "k0", "x": value}))
    assert key == table_with(type_).key_of(["k0"])


REFUSED: list[tuple[Any, pa.Array, str, str]] = [
    ("int", pa.array([1, 1 << 31]), r"the field x is 2147483648 \(int64\), expected int", "x"),
    ("long", pa.array([1, 1.5]), r"the field x is 1.5 \(double\), expected long", "x"),
    ("long", pa.array(["1", "2"]), r"is '1' \(string\), expected long: cast the column to int64", "x"),
    ("long", pa.array([1, None]), "the field x is null, expected long: the field is not optional", "x"),
    ("boolean", pa.array([0, 1]), "expected boolean", "x"),
    ("float", pa.array([1.0, 1e300]), "expected float", "x"),
    ("string", pa.array([b"\xff", b"a"]), "expected string", "x"),
    (logical("int", "date"), pa.array([LOCAL, datetime(2026, 11, 27, 1)]), "expected date", "x"),
    (logical("long", "timestamp-micros"), pa.array([LOCAL]), "give it a time zone", "x"),
    (logical("long", "timestamp-millis"), pa.array([STAMP.replace(microsecond=1)]), "round it first", "x"),
    (DECIMAL, pa.array([Decimal("1.005")]), "expected decimal", "x"),
    (DECIMAL, pa.array([Decimal("1000.00")]), "expected decimal", "x"),
    (ENUM, pa.array(["A", "C"]), r"is 'C' \(string\), expected one of A, B", "x"),
    (FIXED_ID, pa.array(["no"]), "expected uuid", "x"),
    ({"type": "fixed", "name": "F", "size": 2}, pa.array([b"abc"]), "expected fixed", "x"),
    ({"type": "array", "items": "int"}, pa.array([[1], [None]]), r"the field x\[\] is null", "x[]"),
    ({"type": "map", "values": "int"}, pa.array([{"a": 1}]), "expected a map", "x"),
    (RECORD, pa.array([{"b": "c"}]), r"the field x\.a is missing", "x.a"),
    (RECORD, pa.array([{"a": 1, "c": 1}]), r"the field x\.c is given, expected no such field", "x.c"),
    (["null", "string", "long"], pa.array([{"long": 5, "string": "x"}]), "one of them not null", "x"),
    (["null", "string", "long"], pa.array([5]), "expected a struct of string, long", "x"),
    ("null", pa.array([1]), "expected null", "x"),
]


@pytest.mark.parametrize(("type_", "column", "message", "place"), REFUSED)
def test_a_value_that_does_not_fit_is_named(type_: Any, column: pa.Array, message: str, place: str) -> None:
    found = written(type_, column)
    refused = [each for each in found if isinstance(each, InvalidRow)]
    assert refused, found
    with pytest.raises(InvalidRow, match=message) as caught:
        raise refused[0]
    assert caught.value.fields["field"] == place
    assert len(found) == len(column), "the rows around it are written"


def test_rows_around_one_that_does_not_fit_are_those_of_the_batch() -> None:
    found = written("long", pa.array([1.0, 1.5, 2.0]))
    assert isinstance(found[1], InvalidRow)
    assert [found[0], found[2]] == written("long", pa.array([1, 9, 2]))[::2]


def test_what_the_judge_refuses_is_named_too() -> None:
    """A date of Arrow may be beyond the years that Python and the fold have."""
    (found,) = written(logical("int", "date"), pa.array([10_000_000], pa.int32()).view(pa.date32()))
    assert isinstance(found, InvalidRow)
    assert found.fields["field"] == "x"
    text = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"]).buffers())
    (found,) = written("string", text)
    assert isinstance(found, InvalidRow)
    assert "UTF-8" in found.message


def test_a_key_that_is_too_long_is_refused() -> None:
    batch = pa.record_batch({"k": ["x" * 600], "x": [1]})
    (found,) = BatchWriter(table_with("long"), batch.schema).pairs(batch)
    assert isinstance(found, InvalidKey)


def test_the_columns_are_the_fields() -> None:
    key = pa.field("k", pa.string())
    with pytest.raises(InvalidSchema, match="x: it is missing"):
        BatchWriter(table_with("long"), pa.schema([key]))
    with pytest.raises(InvalidSchema, match="y: it is no field of Row, which has k, x"):
        BatchWriter(table_with("long", default=1), pa.schema([key, ("y", pa.int64())]))
    with pytest.raises(InvalidSchema, match="k: it comes twice"):
        BatchWriter(table_with("long", default=1), pa.schema([key, key]))
    batch = pa.record_batch({"k": ["a"]})
    (pair,) = BatchWriter(table_with("long", default=1), batch.schema).pairs(batch)
    assert isinstance(pair, tuple)
    assert pair[1] == frame(4, b"\2a\2")
