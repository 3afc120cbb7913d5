"""Stored values as columns: types, older schemas, and bytes that are no rows."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from random import Random
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.avro_rows import avro_encode, mutated, random_row, random_schema

from log_tier.model.errors import InvalidRequest, InvalidValue
from log_tier.rows.columns.batch_reader import BatchReader
from log_tier.rows.framing import frame
from log_tier.rows.schema import NumberedSchema, RowSchema


def no_other(value: bytes) -> bytes:
    raise AssertionError("every row has the schema of the table")


def schema_of(type_: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Row", "fields": [{"name": "x", "type": type_}]}


def column(type_: Any, *values: Any) -> pa.Array:
    """What is read of rows with these values in a field `x`."""
    schema = schema_of(type_)
    stored = [frame(3, avro_encode(schema, {"x": each})) for each in values]
    batch = BatchReader(NumberedSchema(3, RowSchema.parse(schema)), None, no_other).batch(stored)
    batch.validate(full=True)
    return batch.column(0)


def decimal(precision: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
SYMBOL = pa.dictionary(pa.int32(), pa.string())
PRICES = pa.list_(pa.field("item", pa.decimal256(40, 2), False))


@pytest.mark.parametrize(
    ("type_", "arrow", "values"),
    [
        (["null", "long"], pa.int64(), [None, 1, None, -(1 << 63), (1 << 63) - 1]),
        (["long", "null"], pa.int64(), [None, None]),
        (decimal(38, 4), pa.decimal128(38, 4), [Decimal("-1.0000"), Decimal("9" * 34 + ".9999")]),
        (decimal(40, 2), pa.decimal256(40, 2), [Decimal("1" * 38 + ".01"), Decimal("-0.01")]),
        ({"type": "array", "items": decimal(40, 2)}, PRICES, [[], [Decimal("-1.50")]]),
        (["null", ENUM], SYMBOL, ["B", None]),
    ],
)
def test_a_type_has_one_type_of_arrow(type_: Any, arrow: pa.DataType, values: list[Any]) -> None:
    found = column(type_, *values)
    assert found.type == arrow
    assert found.to_pylist() == values


def test_a_map_is_a_map() -> None:
    found = column({"type": "map", "values": ["null", "int"]}, {"a": None, "": 1}, {})
    assert found.type == pa.map_(pa.string(), pa.int32())
    assert found.to_pylist() == [[("a", None), ("", 1)], []]


def test_more_digits_than_arrow_has_are_text() -> None:
    digits = "7" * 78
    for type_ in (decimal(80, 2), {"type": "array", "items": decimal(80, 2)}):
        given: Any = Decimal(f"-{digits}.05")
        nested = "items" in type_
        found = column(type_, [given] if nested else given).to_pylist()[0]
        assert (found[0] if nested else found) == f"-{digits}.05"


def test_uuids_are_text_whatever_they_are_stored_as() -> None:
    id_ = UUID("12345678-1234-5678-1234-56789abcdef0")
    fixed = {"type": "fixed", "name": "Id", "size": 16, "logicalType": "uuid"}
    assert column(fixed, id_.bytes, UUID(int=0).bytes).to_pylist() == [str(id_), str(UUID(int=0))]
    assert column({"type": "array", "items": fixed}, [id_.bytes]).to_pylist() == [[str(id_)]]
    assert column({"type": "string", "logicalType": "uuid"}, str(id_)).to_pylist() == [str(id_)]


def test_a_union_is_a_struct_of_its_types() -> None:
    found = column(["null", "long", "string"], None, 5, "text")
    assert found.to_pylist() == [None, {"long": 5, "string": None}, {"long": None, "string": "text"}]


def test_an_enum_has_the_same_symbols_in_every_batch() -> None:
    for type_, empty, full in ((["null", ENUM], None, "B"), ({"type": "array", "items": ENUM}, [], ["B"])):
        batches = [column(type_, empty), column(type_, full)]
        values = [each.flatten() if pa.types.is_list(each.type) else each for each in batches]
        assert values[0].dictionary.equals(values[1].dictionary)


def test_a_row_of_another_schema_is_made_one_of_this() -> None:
    here, there = schema_of("long"), schema_of("int")
    reader = BatchReader(NumberedSchema(3, RowSchema.parse(here)), None, lambda value: frame(3, value[5:]))
    stored = [frame(3, avro_encode(here, {"x": 1})), frame(2, avro_encode(there, {"x": 2}))]
    assert reader.batch(stored).to_pydict() == {"x": [1, 2]}


def test_columns_are_chosen_by_name() -> None:
    reader = BatchReader(NumberedSchema(3, RowSchema.parse(schema_of("long"))), [], no_other)
    assert reader.batch([frame(3, b"\2")] * 4).num_rows == 4
    written = NumberedSchema(3, RowSchema.parse(schema_of("long")))
    for columns in (["y"], ["x", "x"], "x"):
        with pytest.raises(InvalidRequest):
            BatchReader(written, columns, no_other)


@pytest.mark.parametrize("body", [b"", b"\x80", b"\xff" * 9 + b"\x7f", b"\2\2", b"\xff" * 12])
def test_bytes_that_are_no_row_are_refused(body: bytes) -> None:
    reader = BatchReader(NumberedSchema(3, RowSchema.parse(schema_of("long"))), None, no_other)
    good = frame(3, b"\2")
    for stored in ([frame(3, body)], [good, frame(3, body), good]):
        with pytest.raises(InvalidValue, match="no row of its table"):
            reader.batch(stored)


@given(st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_whatever_bytes_come_there_is_an_answer_or_an_error(random: Random) -> None:
    """A length in them takes no memory, and nothing is read outside of them."""
    schema = random_schema(random)
    for field in schema["fields"]:
        if "Row" in str(field) or "next" in str(field):
            field["type"] = ["null", "bytes"]
    written = NumberedSchema(3, RowSchema.parse(schema))
    reader = BatchReader(written, None, no_other)
    body = avro_encode(schema, random_row(random, schema))
    for _ in range(30):
        with suppress(InvalidValue):
            assert reader.batch([frame(3, mutated(random, body)), frame(3, body)]).num_rows == 2
