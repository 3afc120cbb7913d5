"""Rows of one schema as those of another, with fastavro as the peer; and patches across the schemas of a table."""

from __future__ import annotations

import io
import json
import math
import struct
from random import Random
from typing import Any

import fastavro
import pytest
from kit.avro_rows import avro_encode, random_row
from kit.rows.patches import patch_of

from log_tier.model.record import VALUE_BYTES_MAX
from log_tier.rows.avro.row_room import ROW_VALUES_MAX
from log_tier.rows.definition import TableDefinition
from log_tier.rows.framing import frame
from log_tier.rows.patches.hindrance import Hindrance
from log_tier.rows.patches.resolution import RowResolution, TooLarge
from log_tier.rows.patches.row_patch import NotPatched
from log_tier.rows.patches.row_patcher import RowPatcher
from log_tier.rows.schema import NumberedSchema, RowSchema

OLD = RowSchema.parse(
    {
        "type": "record",
        "name": "Row",
        "fields": [
            {"name": "gone", "type": {"type": "map", "values": "string"}},
            {"name": "n", "type": "int"},
            {"name": "ratio", "type": "float"},
            {"name": "text", "type": "string"},
            {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B", "C"]}},
            {"name": "city", "type": {"type": "record", "name": "City", "fields": [{"name": "size", "type": "int"}]}},
            {"name": "maybe", "type": ["null", "City"]},
            {"name": "cities", "type": {"type": "array", "items": "City"}},
            {"name": "by_name", "type": {"type": "map", "values": ["null", "int"]}},
            {"name": "floats", "type": {"type": "array", "items": "float"}},
            {"name": "seats", "type": "int"},
            {"name": "parts", "type": {"type": "array", "items": "Row"}},
            {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
        ],
    }
)
NEW = RowSchema.parse(
    {
        "type": "record",
        "name": "Row",
        "fields": [
            {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
            {"name": "added", "type": {"type": "array", "items": "string"}, "default": ["x"]},
            {"name": "number", "aliases": ["n"], "type": "long"},
            {"name": "ratio", "type": "double"},
            {"name": "text", "type": "bytes"},
            {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["C", "A"], "default": "A"}},
            {
                "name": "city",
                "type": {
                    "type": "record",
                    "name": "City",
                    "fields": [{"name": "name", "type": "string", "default": "-"}, {"name": "size", "type": "double"}],
                },
            },
            {"name": "maybe", "type": ["City", "null"]},
            {"name": "cities", "type": {"type": "array", "items": ["null", "City"]}},
            {"name": "by_name", "type": {"type": "map", "values": ["long", "null"]}},
            {"name": "floats", "type": {"type": "array", "items": "double"}},
            {"name": "seats", "type": ["null", "long"]},
            {"name": "parts", "type": {"type": "array", "items": "Row"}},
        ],
    }
)
TABLE = TableDefinition(value="row", schemas=(NumberedSchema(5, OLD), NumberedSchema(3, NEW)))
"""The order of its schemas counts, and not their numbers."""

PATCHER = RowPatcher(TABLE)
KEY = b"k"
ROW: dict[str, Any] = {
    "gone": {"a": "b"},
    "n": 7,
    "ratio": 1.5,
    "text": "Zürich",
    "kind": "B",
    "city": {"size": 5},
    "maybe": {"size": 6},
    "cities": [{"size": 7}],
    "by_name": {"a": 1, "b": None},
    "floats": [1.5, -0.0],
    "seats": 3,
    "parts": [],
    "hash": b"\0\xff",
}
LATER: dict[str, Any] = {
    "hash": b"\0\xff",
    "added": ["x"],
    "number": 7,
    "ratio": 1.5,
    "text": "Zürich".encode(),
    "kind": "A",
    "city": {"name": "-", "size": 5.0},
    "maybe": {"name": "-", "size": 6.0},
    "cities": [{"name": "-", "size": 7.0}],
    "by_name": {"a": 1, "b": None},
    "floats": [1.5, -0.0],
    "seats": 3,
    "parts": [],
}


def parsed(schema: RowSchema) -> Any:
    return fastavro.parse_schema(json.loads(schema.text))


def read(body: bytes, schema: RowSchema, reader: RowSchema | None = None) -> Any:
    return fastavro.schemaless_reader(io.BytesIO(body), parsed(schema), None if reader is None else parsed(reader))


def old_row(**fields: Any) -> bytes:
    return frame(5, avro_encode(parsed(OLD), {**ROW, **fields}))


def new_row(**fields: Any) -> bytes:
    return frame(3, avro_encode(parsed(NEW), {**LATER, **fields}))


def later(value: bytes) -> dict[str, Any]:
    """The fields of a row of the newer schema that are others than those of `LATER`."""
    assert value[:5] == frame(3, b""), "of the newer schema"
    found = read(value[5:], NEW)
    return {name: found[name] for name in found if repr(found[name]) != repr(LATER[name])}


def test_a_row_of_the_older_schema() -> None:
    assert RowResolution(OLD, NEW).body(old_row()[5:]) == new_row()[5:]


def test_random_rows_are_read_as_fastavro_reads_them() -> None:
    random, resolution = Random(83), RowResolution(OLD, NEW)
    for _ in range(300):
        row = {**random_row(random, parsed(OLD))}
        row["parts"] = [{**row, "parts": []}] * random.randrange(3)
        body = avro_encode(parsed(OLD), row)
        peer = avro_encode(parsed(NEW), read(body, OLD, NEW))  # in the order of its fields
        assert repr(read(resolution.body(body), NEW)) == repr(read(peer, NEW))


def test_nan_has_one_form() -> None:
    odd = struct.pack("<f", -math.nan)
    body = RowResolution(OLD, NEW).value(b"\2" + odd + b"\0", {"type": "array", "items": "float"}, NEW.fields[10].type)
    assert body == b"\2" + bytes.fromhex("000000000000f87f") + b"\0"
    assert RowResolution(OLD, NEW).value(odd, "float", "double").hex() == "000000000000f87f"


def test_a_patch_by_the_newer_schema_makes_the_row_one_of_it() -> None:
    value = patch_of(
        NEW, 3, add={"number": 1 << 40, "city.size": 0.5, "seats": 1}, append={"added": ["y"]}, set={"maybe": None}
    )
    assert PATCHER.refusal(KEY, value) is None
    assert later(PATCHER.patched(KEY, old_row(), value)) == {
        "number": 7 + (1 << 40),
        "city": {"name": "-", "size": 5.5},
        "seats": 4,
        "added": ["x", "y"],
        "maybe": None,
    }


def test_a_patch_by_the_older_schema_leaves_the_row_one_of_the_newer() -> None:
    value = patch_of(
        OLD,
        5,
        add={"n": 1, "city.size": 1, "maybe.size": 1, "seats": -1},
        append={"text": "!", "cities": [{"size": 1}]},
        set={"kind": "C", "by_name": {"c": 3}},
        multiply={"ratio": 2.0},
    )
    assert PATCHER.refusal(KEY, value) is None
    assert later(PATCHER.patched(KEY, new_row(number=1 << 40), value)) == {
        "number": (1 << 40) + 1,
        "city": {"name": "-", "size": 6.0},
        "maybe": {"name": "-", "size": 7.0},
        "seats": 2,
        "text": "Zürich!".encode(),
        "cities": [{"name": "-", "size": 7.0}, {"name": "-", "size": 1.0}],
        "kind": "C",
        "by_name": {"c": 3},
        "ratio": 3.0,
    }


def test_what_the_newer_row_does_not_have() -> None:
    def why(row: bytes, **operations: Any) -> tuple[Hindrance, int]:
        value = patch_of(OLD, 5, **operations)
        assert PATCHER.refusal(KEY, value) is None
        with pytest.raises(NotPatched) as caught:
            PATCHER.patched(KEY, row, value)
        return caught.value.why, caught.value.change

    assert why(new_row(), set={"n": 1, "gone": {}}) == (Hindrance.GONE, 1)
    assert why(new_row(maybe=None), add={"maybe.size": 1}) == (Hindrance.NULL, 0)
    assert why(new_row(seats=None), add={"n": 1, "seats": 1}) == (Hindrance.NULL, 1)
    assert why(new_row(number=(1 << 63) - 1), add={"n": 1}) == (Hindrance.OVERFLOW, 0)


def test_a_row_that_the_patchs_schema_does_not_read() -> None:
    """Where evolution was not asked for anything."""
    table = TableDefinition(value="row", schemas=(NumberedSchema(3, NEW), NumberedSchema(5, OLD)))
    value = patch_of(OLD, 5, set={"n": 1})
    with pytest.raises(NotPatched) as caught:
        RowPatcher(table).patched(KEY, new_row(), value)
    assert caught.value.why is Hindrance.UNREADABLE


def test_a_row_that_grows_too_large_by_defaults() -> None:
    wide = {"type": "record", "name": "I", "fields": [{"name": "i", "type": "int"}, _default("x" * 5000)]}
    small = {"type": "record", "name": "I", "fields": [{"name": "i", "type": "int"}]}
    old = RowSchema.parse({"type": "record", "name": "R", "fields": [_items(small)]})
    new = RowSchema.parse({"type": "record", "name": "R", "fields": [_items(wide)]})
    resolution = RowResolution(old, new)
    assert len(resolution.body(avro_encode(parsed(old), {"items": [{"i": 1}] * 100}))) > 500_000
    with pytest.raises(TooLarge):
        resolution.body(avro_encode(parsed(old), {"items": [{"i": 1}] * (VALUE_BYTES_MAX // 5000 + 1)}))
    with pytest.raises(TooLarge):
        resolution.body(avro_encode(parsed(old), {"items": [{"i": 1}] * (ROW_VALUES_MAX + 1)}))


def _items(type_: Any) -> dict[str, Any]:
    return {"name": "items", "type": {"type": "array", "items": type_}}


def _default(text: str) -> dict[str, Any]:
    return {"name": "text", "type": "string", "default": text}
