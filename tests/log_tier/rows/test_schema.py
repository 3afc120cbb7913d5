"""Schemas of rows: their canonical form, and what is refused."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any

import fastavro
import pytest

from log_tier.model.errors import InvalidSchema
from log_tier.rows.avro.avro_types import FIELDS_MAX, NESTING_MAX
from log_tier.rows.schema import SCHEMA_BYTES_MAX, RowField, RowSchema


def row(*fields: Any, **attributes: Any) -> dict[str, Any]:
    """A schema: each field is a type, or a whole field."""
    named = [
        each
        if isinstance(each, dict) and "name" in each and each.get("type") not in ("record", "enum", "fixed")
        else {"name": f"f{number}", "type": each}
        for number, each in enumerate(fields)
    ]
    return {"type": "record", "name": "Flight", "fields": named, **attributes}


GATE = {"type": "record", "name": "Gate", "fields": [{"name": "name", "type": "string"}]}


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        (row(), '{"fields":[],"name":"Flight","type":"record"}'),
        (row({"type": "int"}), '{"fields":[{"name":"f0","type":"int"}],"name":"Flight","type":"record"}'),
        (
            row("string", namespace="air", doc="Flüge", aliases=["Old", "b.Old"]),
            '{"aliases":["air.Old","b.Old"],"doc":"Flüge","fields":[{"name":"f0","type":"string"}],'
            '"name":"air.Flight","type":"record"}',
        ),
        (
            row(GATE, "Gate", ["null", "Flight"], name="air.Flight"),
            '{"fields":[{"name":"f0","type":{"fields":[{"name":"name","type":"string"}],"name":"air.Gate",'
            '"type":"record"}},{"name":"f1","type":"air.Gate"},{"name":"f2","type":["null","air.Flight"]}],'
            '"name":"air.Flight","type":"record"}',
        ),
        (
            row({"type": "bytes", "logicalType": "decimal", "scale": 2, "precision": 9}),
            '{"fields":[{"name":"f0","type":{"logicalType":"decimal","precision":9,"scale":2,"type":"bytes"}}],'
            '"name":"Flight","type":"record"}',
        ),
        (
            row({"name": "f", "type": ["null", "long"], "default": None, "order": "ignore", "connect.name": {"b": 1}}),
            '{"fields":[{"connect.name":{"b":1},"default":null,"name":"f","order":"ignore","type":["null","long"]}],'
            '"name":"Flight","type":"record"}',
        ),
        (
            row({"type": "array", "items": {"type": ["null", {"type": "map", "values": {"type": "double"}}]}}),
            '{"fields":[{"name":"f0","type":{"items":["null",{"type":"map","values":"double"}],"type":"array"}}],'
            '"name":"Flight","type":"record"}',
        ),
        (
            row({"type": "string", "logicalType": "of-tomorrow"}),
            '{"fields":[{"name":"f0","type":{"logicalType":"of-tomorrow","type":"string"}}],'
            '"name":"Flight","type":"record"}',
        ),
    ],
)
def test_the_canonical_form(given: dict[str, Any], canonical: str) -> None:
    schema = RowSchema.parse(given)
    assert schema.text == canonical
    assert RowSchema.parse(json.dumps(given, indent=2)) == schema
    assert RowSchema.parse(canonical).text == canonical
    assert hash(RowSchema.parse(canonical)) == hash(schema)
    assert fastavro.parse_schema(json.loads(canonical), _force=True)


def test_what_fastavro_has_parsed_is_the_same_schema() -> None:
    given = row(GATE, "Gate", {"name": "f", "type": "int", "default": 7}, namespace="air")
    assert RowSchema.parse(fastavro.parse_schema(given)) == RowSchema.parse(given)  # type: ignore[arg-type]


def test_fields_and_names() -> None:
    schema = RowSchema.parse(row(GATE, {"name": "seats", "type": "int", "default": 7}, name="air.Flight"))
    assert schema.name == "air.Flight"
    assert schema.fields[1] == RowField("seats", "int", True, 7)
    assert schema.field_of("seats") is schema.fields[1]
    assert schema.field_of("Seats") is None
    assert list(schema.named) == ["air.Flight", "air.Gate"]
    assert schema.named["air.Gate"] == schema.fields[0].type


def test_null_is_a_default() -> None:
    (with_one,) = RowSchema.parse(row({"name": "f", "type": "null", "default": None})).fields
    (without,) = RowSchema.parse(row({"name": "f", "type": "null"})).fields
    assert (with_one.has_default, without.has_default) == (True, False)


ENUM = {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}
FIXED = {"type": "fixed", "name": "Two", "size": 2}


@pytest.mark.parametrize(
    ("type_", "default"),
    [
        ("null", None),
        ("boolean", False),
        ("int", -(1 << 31)),
        ("long", (1 << 63) - 1),
        ("float", 1),
        ("double", 1.5),
        ("bytes", "\x00\xff"),
        ("string", ""),
        (["string", "null"], "x"),
        (ENUM, "B"),
        (FIXED, "\x00\xff"),
        ({"type": "array", "items": "int"}, [1, 2]),
        ({"type": "map", "values": ["null", "int"]}, {"a": None}),
        (GATE, {"name": "B7"}),
        ({"type": "record", "name": "G", "fields": [{"name": "n", "type": "int", "default": 1}]}, {}),
    ],
)
def test_defaults(type_: Any, default: Any) -> None:
    field = RowSchema.parse(row({"name": "f", "type": type_, "default": default})).fields[0]
    assert (field.has_default, field.default) == (True, default)


def deep(levels: int) -> Any:
    type_: Any = "int"
    for _ in range(levels):
        type_ = {"type": "array", "items": type_}
    return type_


REFUSED: list[tuple[Any, str, str]] = [
    ('"string"', "", "a row's schema is a record"),
    (7, "", "a schema is text or a mapping, not int"),
    ("{", "", "no JSON"),
    ("[" * 100_000, "", "no JSON"),
    ('{"type":"record","x":' + "[" * 200 + "]" * 200 + "}", "", "nested more than 128 deep"),
    ('{"type":"record","type":"record"}', "", 'an object has "type" twice'),
    ('{"type":"record","name":"A","fields":[],"x":NaN}', "", "NaN is no number"),
    ('{"type":"record","name":"A","fields":[],"x":' + "9" * 5000 + "}", "", "no JSON"),
    (row(doc="\ud800"), "", "surrogate"),
    (row(doc="x" * SCHEMA_BYTES_MAX), "", "at most 65536 bytes"),
    (" " * 300_000, "", "at most 65536 bytes"),
    (row(x=float("nan")), "", "no JSON"),
    ({"type": "record", "name": "A"}, "", "a list of `fields`"),
    ({"type": "record", "fields": []}, "", "has a `name`"),
    (row(name=""), "", "has a `name`"),
    (row(name="1a"), "", "is no name"),
    (row(name="a..b"), "", "is no name"),
    (row(name="Flüge"), "", "is no name"),
    (row(name="a.string"), "", "has the name of a type of Avro"),
    (row(namespace=7), "", "a namespace is text"),
    (row(doc=7), "", "`doc` is text"),
    (row(aliases="x"), "", "`aliases` is a list of names"),
    (row(*["int"] * (FIELDS_MAX + 1)), "", "at most 1024 fields"),
    (row({"name": "a-b", "type": "int"}), "a-b", "is no name"),
    (row({"name": "a", "type": "int"}, {"name": "a", "type": "int"}), "a", "two fields of this name"),
    (row({"name": "a"}), "a", "no `type`"),
    (row({"name": "a", "type": "int", "order": "up"}), "a", "`order` is one of"),
    ({"type": "record", "name": "A", "fields": [7]}, "", "a field is an object"),
    (row("strin"), "f0", '"strin" is no type of Avro'),
    (row("Gate", GATE), "f0", '"Gate" is no type of Avro'),
    (row(GATE, GATE), "f1", "the name Gate is taken"),
    (row(7), "f0", "a type is a name"),
    (row({"items": "int"}), "f0", "has no `type`"),
    (row({"type": "Flight", "doc": "x"}), "f0", "a type with other attributes"),
    (row({"type": "array"}), "f0", "has `items`"),
    (row({"type": "map"}), "f0", "has `values`"),
    (row({"type": "array", "items": ["int", {"type": "map", "values": "x"}]}), "f0[][]", '"x" is no type'),
    (row([]), "f0", "at least one type"),
    (row(["int", ["null"]]), "f0", "no type of a union"),
    (row(["int", {"type": "int", "logicalType": "date"}]), "f0", "int again"),
    (row([{"type": "array", "items": "int"}, {"type": "array", "items": "long"}]), "f0", "array again"),
    (row(deep(NESTING_MAX)), "f0" + "[]" * (NESTING_MAX - 1), "nested more than 32 deep"),
    (row({"type": "enum", "name": "E", "symbols": []}), "f0", "a list of `symbols`"),
    (row({"type": "enum", "name": "E", "symbols": ["a", "a"]}), "f0", "are the same"),
    (row({"type": "enum", "name": "E", "symbols": ["a b"]}), "f0", "is no name"),
    (row({"type": "enum", "name": "E", "symbols": ["a"], "default": "b"}), "f0", "no symbol"),
    (row({"type": "fixed", "name": "F"}), "f0", "a `size` of 0 to"),
    (row({"type": "fixed", "name": "F", "size": -1}), "f0", "a `size` of 0 to"),
    (row({"type": "fixed", "name": "F", "size": True}), "f0", "a `size` of 0 to"),
    (row({"type": "fixed", "name": "F", "size": 1 << 23}), "f0", "a `size` of 0 to"),
    (row({"type": "array", "items": "null"}), "f0", "at least one byte"),
    (row({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}), "f0", "at least one byte"),
    (row({"type": "record", "name": "E", "fields": []}, {"type": "array", "items": "E"}), "f1", "at least one byte"),
    (row("Flight"), "", "contains itself"),
    (row(["Flight"]), "", "contains itself"),
    (row({"type": "record", "name": "G", "fields": [{"name": "f", "type": "Flight"}]}), "", "contains itself"),
    (row({"type": "record", "name": "C", "namespace": "", "fields": []}, name="a.B"), "f0", "nothing could name it"),
    (row({"type": "string", "logicalType": "date"}), "f0", "the logical type date is of int, not of string"),
    (row({"type": "string", "logicalType": 7}), "f0", "`logicalType` is text"),
    (row({"type": "bytes", "logicalType": "decimal"}), "f0", "a `precision` of 1 to 1000"),
    (row({"type": "bytes", "logicalType": "decimal", "precision": 10**9}), "f0", "a `precision` of 1 to 1000"),
    (row({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}), "f0", "`scale`"),
    (row({**FIXED, "logicalType": "decimal", "precision": 5}), "f0", "no room for 5 digits"),
    (row({**FIXED, "logicalType": "uuid"}), "f0", "a uuid has 16 bytes"),
]


@pytest.mark.parametrize(("given", "field", "reason"), REFUSED)
def test_a_schema_is_refused_by_its_field_and_the_reason(given: Any, field: str, reason: str) -> None:
    with pytest.raises(InvalidSchema) as refused:
        RowSchema.parse(given)
    assert refused.value.fields["field"] == field
    assert reason in str(refused.value.fields["reason"])
    assert reason in refused.value.message


@pytest.mark.parametrize(
    ("type_", "default"),
    [
        ("null", 0),
        ("boolean", 0),
        ("int", True),
        ("int", 1 << 31),
        ("long", 1.0),
        ("double", "1"),
        ("double", 10**400),
        ("bytes", "ā"),
        ("string", None),
        (["null", "string"], "x"),
        ([], None),
        (ENUM, "C"),
        (FIXED, "\x00"),
        ({"type": "array", "items": "int"}, {}),
        ({"type": "array", "items": "int"}, ["x"]),
        ({"type": "map", "values": "int"}, []),
        (GATE, {}),
        (GATE, {"name": "a", "no": 1}),
        (GATE, []),
    ],
)
def test_a_default_of_another_type_is_refused(type_: Any, default: Any) -> None:
    with pytest.raises(InvalidSchema, match="the field f: "):
        RowSchema.parse(row({"name": "f", "type": type_, "default": default}))


def test_as_deep_as_allowed() -> None:
    assert RowSchema.parse(row(deep(NESTING_MAX - 2)))


def test_records_may_contain_themselves_where_a_row_ends() -> None:
    for type_ in (["null", "Flight"], {"type": "array", "items": "Flight"}, {"type": "map", "values": "Flight"}):
        assert RowSchema.parse(row(type_))


@pytest.mark.parametrize(
    "given",
    [
        row([f"T{number}" for number in range(9000)]),
        row({"type": "enum", "name": "E", "symbols": [f"s{number}" for number in range(7000)]}),
        row(*[{"type": "fixed", "name": f"F{number}", "size": 0} for number in range(1000)]),
        row(
            *[
                {
                    "type": "record",
                    "name": f"R{n}",
                    "fields": [
                        {"name": "a", "type": f"R{n - 1}" if n else "int"},
                        {"name": "b", "type": f"R{n - 1}" if n else "int"},
                    ],
                }
                for n in range(500)
            ]
        ),
        '{"a":1,' + ",".join(f'"k{number}":1' for number in range(20_000)) + ',"a":1}',
    ],
)
def test_the_time_grows_with_the_size(given: Any) -> None:
    start = time.process_time()
    with contextlib.suppress(InvalidSchema):
        RowSchema.parse(given)
    assert time.process_time() - start < 1, "a schema of 64 KiB takes some 30 ms"
