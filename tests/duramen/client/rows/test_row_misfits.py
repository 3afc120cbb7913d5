"""A type of rows that is not the table's is refused by the field, before the first row."""

from __future__ import annotations

import dataclasses
from dataclasses import make_dataclass
from typing import Any

import pytest
from kit.rows.flights import Cabin, Flight

from duramen.client.rows.asked_definition import asked_definition
from duramen.client.rows.row_codec import RowCodec
from duramen.client.rows.shapes.shape import shape_of
from log_tier.model.errors import InvalidSchema
from log_tier.rows.definition import TableDefinition

FLIGHT = Flight("UA", 1545, "N14228", 2.0)


def definition(row: object, *key: str) -> TableDefinition:
    """A table's, numbered."""
    asked = asked_definition(row, key)
    assert asked is not None
    assert asked.definition is not None
    return asked.definition.numbered([7])


def record(*fields: tuple[str, Any]) -> dict[str, Any]:
    """A schema of Avro, of names and types."""
    return {"type": "record", "name": "Row", "fields": [{"name": each, "type": kind} for each, kind in fields]}


@pytest.mark.parametrize(
    ("fields", "field", "says"),
    [
        ([("carrier", str), ("flight", int)], "tailnum", "the table's rows have it"),
        ([*Flight.__annotations__.items(), ("gate", str)], "gate", "the table's rows have not"),
        ([*Flight.__annotations__.items(), ("carrier", bytes)], "carrier", "bytes here, and string in the table"),
        ([*Flight.__annotations__.items(), ("tailnum", str)], "tailnum", "str here, and a union"),
        ([*Flight.__annotations__.items(), ("flight", int | None)], "flight", "None | int here, and long"),
        ([*Flight.__annotations__.items(), ("tailnum", int | None)], "tailnum", "string in the table"),
    ],
)
def test_a_class_that_is_not_the_tables_is_refused_by_the_field(fields: list[Any], field: str, says: str) -> None:
    types = {"str": str, "int": int, "float": float, "str | None": str | None}
    found = {name: types.get(kind, kind) if isinstance(kind, str) else kind for name, kind in fields}
    other = make_dataclass("Other", list(found.items()))
    with pytest.raises(InvalidSchema, match="not the table's") as caught:
        RowCodec(definition(Flight, "carrier"), shape_of(other))
    assert caught.value.fields["field"] == field
    assert says in caught.value.message


def test_a_class_of_the_same_fields_reads_the_rows_of_another_name() -> None:
    same = make_dataclass(
        "Same", [("flight", int), ("carrier", str), ("tailnum", str | None), ("dep_delay", float), ("remark", str)]
    )
    flights = definition(Flight, "carrier", "flight")
    stored = RowCodec[Flight](flights, shape_of(Flight)).encode(FLIGHT)[1]
    rows = RowCodec[Any](flights, shape_of(same))
    assert dataclasses.asdict(rows.decode(stored)) == dataclasses.asdict(FLIGHT)


@pytest.mark.parametrize(
    ("other", "field"),
    [
        (record(("k", "long")), "x"),
        (record(("k", "long"), ("x", "string"), ("y", "long")), "y"),
        (record(("k", "long"), ("x", ["null", "string"])), "x"),
        (record(("k", "long"), ("x", {"type": "string", "logicalType": "uuid"})), "x"),
    ],
)
def test_a_schema_that_is_not_the_tables_is_refused_by_the_field(other: Any, field: str) -> None:
    with pytest.raises(InvalidSchema, match="not the table's") as caught:
        RowCodec(definition(record(("k", "long"), ("x", "string")), "k"), shape_of(other))
    assert caught.value.fields["field"] == field


def test_the_enum_of_a_class_is_the_tables() -> None:
    from enum import Enum

    fewer = Enum("Cabin", ["ECONOMY"])  # type: ignore[misc]
    other = make_dataclass("One", [("k", int), ("cabin", fewer)])
    own = make_dataclass("One", [("k", int), ("cabin", Cabin)])
    with pytest.raises(InvalidSchema, match="FIRST"):
        RowCodec(definition(own, "k"), shape_of(other))
