"""Definitions of tables: what fits, the document, and keys of Python's values."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import pytest
from kit import flight_rows

from log_tier.model.errors import InvalidKey, InvalidRequest, InvalidSchema, UnknownFormat
from log_tier.rows.definition import SCHEMAS_MAX, TableDefinition
from log_tier.rows.key_fields import KEY_FIELDS_MAX, KeyField
from log_tier.rows.schema import NumberedSchema, RowSchema
from log_tier.rows.table_index import INDEXES_MAX, TableIndex
from log_tier.rows.tuple_key import pack_key


def logical(kind: str, name: str, **attributes: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **attributes}


FIXED = {"type": "fixed", "name": "Two", "size": 2}


def schema(**types: Any) -> RowSchema:
    fields = [{"name": name, "type": type_} for name, type_ in types.items()]
    return RowSchema.parse({"type": "record", "name": "Flight", "fields": fields})


def of_rows(*key: KeyField, partition_by: int = 0, **types: Any) -> TableDefinition:
    return TableDefinition(1, key, "row", (NumberedSchema(0, schema(**types)),), partition_by)


CARRIER, FLIGHT = KeyField("carrier", "str"), KeyField("flight", "int")
FLIGHTS = of_rows(CARRIER, FLIGHT, partition_by=1, carrier="string", flight="int", seats="long")
ALL = [
    TableDefinition(),
    TableDefinition(key="str", value="str"),
    TableDefinition(number=7, key=(CARRIER, KeyField("x", optional=True)), value="json"),
    TableDefinition(value="row", schemas=FLIGHTS.schemas),
    FLIGHTS,
    FLIGHTS.numbered([7]),
    replace(
        FLIGHTS, indexes=(TableIndex(1, "by_seats", ("seats", "carrier")), TableIndex(7, "by_flight", ("flight",)))
    ),
]


@pytest.mark.parametrize("definition", ALL)
def test_a_document_is_read_as_what_was_written(definition: TableDefinition) -> None:
    document = json.loads(json.dumps(definition.to_document()))
    assert TableDefinition.from_document(document) == definition


def test_the_document_of_indexes() -> None:
    indexed = replace(FLIGHTS, indexes=(TableIndex(3, "by_seats", ("seats", "carrier")),))
    document = indexed.to_document()
    assert (document["v"], document["indexes"]) == (2, [[3, "by_seats", ["seats", "carrier"]]])
    assert FLIGHTS.to_document()["v"] == 1
    assert not indexed.continues(FLIGHTS)
    assert indexed.index_named("by_seats") == indexed.indexes[0]
    with pytest.raises(InvalidRequest, match="no index 'by_x'; it has by_seats"):
        indexed.index_named("by_x")


@pytest.mark.parametrize(
    "indexes",
    [
        (TableIndex(1, "by", ("seats",)), TableIndex(2, "by", ("carrier",))),
        (TableIndex(2, "by", ("seats",)), TableIndex(1, "of", ("carrier",))),
        (TableIndex(1, "by", ("gate",)),),
        tuple(TableIndex(number, f"by_{number}", ("seats",)) for number in range(1, INDEXES_MAX + 2)),
        ["by"],
    ],
)
def test_indexes_that_do_not_fit_each_other_or_the_rows_are_refused(indexes: Any) -> None:
    with pytest.raises(InvalidSchema, match="index"):
        replace(FLIGHTS, indexes=indexes)
    with pytest.raises(InvalidSchema, match="tables of rows alone have indexes"):
        TableDefinition(indexes=(TableIndex(1, "by", ("seats",)),))


def test_the_document() -> None:
    assert FLIGHTS.numbered([7]).to_document() == {
        "v": 1,
        "number": 1,
        "key": [["carrier", "str", False], ["flight", "int", False]],
        "value": "row",
        "schemas": [[7, FLIGHTS.schemas[0].schema.text]],
        "partition_by": 1,
    }


@pytest.mark.parametrize(
    "change",
    [
        {"v": 8},
        {"v": None},
        {"indexes": []},
        {"number": "1"},
        {"number": 0},
        {"key": 7},
        {"key": "text"},
        {"key": {"carrier": "str"}},
        {"key": [["carrier"], 7]},
        {"key": [["carrier", "str", 1]]},
        {"key": [["carrier", ["str"], False]]},
        {"value": "rows"},
        {"value": []},
        {"schemas": None},
        {"schemas": [7]},
        {"schemas": [[1, "{"]]},
        {"schemas": [["1", FLIGHTS.schemas[0].schema.text]]},
        {"partition_by": True},
    ],
)
def test_a_document_that_this_process_cannot_read_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(UnknownFormat, match="definition"):
        TableDefinition.from_document(FLIGHTS.to_document() | change)


@pytest.mark.parametrize("name", sorted(FLIGHTS.to_document()))
def test_a_document_without_a_field_is_refused(name: str) -> None:
    document = FLIGHTS.to_document()
    del document[name]
    with pytest.raises(UnknownFormat, match="definition"):
        TableDefinition.from_document(document)


@pytest.mark.parametrize("document", [None, [], "x", 7])
def test_what_is_no_document_is_refused(document: Any) -> None:
    with pytest.raises(UnknownFormat, match="definition"):
        TableDefinition.from_document(document)


@pytest.mark.parametrize(
    ("type_", "key_type"),
    [
        ("string", "str"),
        ("bytes", "bytes"),
        (FIXED, "bytes"),
        ("int", "int"),
        ("long", "int"),
        ("float", "float"),
        ("double", "float"),
        ("boolean", "bool"),
        (logical("string", "uuid"), "uuid"),
        ({"type": "fixed", "name": "Id", "size": 16, "logicalType": "uuid"}, "uuid"),
        (logical("int", "date"), "date"),
        (logical("long", "timestamp-millis"), "datetime"),
        (logical("long", "timestamp-micros"), "datetime"),
        (logical("long", "local-timestamp-millis"), "datetime"),
        (logical("long", "local-timestamp-micros"), "datetime"),
        (logical("long", "of-tomorrow"), "int"),
    ],
)
def test_the_types_of_a_keys_fields(type_: Any, key_type: Any) -> None:
    assert of_rows(KeyField("f", key_type), f=type_).partitioner == "fields:1"
    assert of_rows(KeyField("f", key_type, optional=True), f=["null", type_])
    assert of_rows(KeyField("f", key_type, optional=True), f=[type_, "null"])
    other: Any = "int" if key_type != "int" else "str"
    for refused in (KeyField("f", other), KeyField("f", key_type, optional=True), KeyField("f", "any")):
        with pytest.raises(InvalidSchema, match="f of the table's definition"):
            of_rows(refused, f=type_)


@pytest.mark.parametrize(
    "type_",
    [
        "null",
        ["null"],
        ["int", "string"],
        ["null", "int", "string"],
        logical("bytes", "decimal", precision=3),
        logical("int", "time-millis"),
        logical("long", "time-micros"),
        {"type": "enum", "name": "E", "symbols": ["a"]},
        {"type": "array", "items": "int"},
        {"type": "map", "values": "int"},
        {"type": "record", "name": "R", "fields": []},
    ],
    ids=str,
)
def test_other_types_sort_in_no_key(type_: Any) -> None:
    for key_type in ("str", "bytes", "int", "any"):
        with pytest.raises(InvalidSchema, match="a key sorts by no field of the type"):
            of_rows(KeyField("f", key_type, optional="null" in type_), f=type_)


def numbered(*numbers: Any) -> tuple[NumberedSchema, ...]:
    return tuple(NumberedSchema(number, schema(**{f"f{place}": "int"})) for place, number in enumerate(numbers))


@pytest.mark.parametrize(
    ("arguments", "field", "reason"),
    [
        ({"number": 0}, "number", "from 1 on"),
        ({"number": True}, "number", "from 1 on"),
        ({"number": 1 << 63}, "number", "from 1 on"),
        ({"key": "text"}, "key", "bytes, str or a tuple"),
        ({"key": ["a"]}, "key", "bytes, str or a tuple"),
        ({"key": ()}, "key", "1 to 32 fields"),
        ({"key": tuple(KeyField(f"f{n}") for n in range(KEY_FIELDS_MAX + 1))}, "key", "1 to 32 fields, not 33"),
        ({"key": ("carrier",)}, "key", "is a KeyField"),
        ({"key": (CARRIER, CARRIER)}, "carrier", "twice"),
        ({"value": "rows"}, "value", "one of bytes, str, json, row"),
        ({"value": "row"}, "schemas", "if its values are rows"),
        ({"schemas": numbered(1)}, "schemas", "if its values are rows"),
        ({"value": "row", "schemas": list(numbered(1))}, "schemas", "a tuple of NumberedSchema"),
        ({"value": "row", "schemas": numbered(0, 1)}, "schemas", "0 comes last"),
        ({"value": "row", "schemas": numbered(1, 1)}, "schemas", "a number of its own"),
        ({"value": "row", "schemas": numbered(-1)}, "schemas", "a number is 0 to"),
        ({"value": "row", "schemas": numbered(1 << 31)}, "schemas", "a number is 0 to"),
        ({"value": "row", "schemas": numbered("1")}, "schemas", "a number is 0 to"),
        ({"value": "row", "schemas": (*numbered(1), *numbered(2))}, "schemas", "are the same"),
        ({"value": "row", "schemas": numbered(*range(SCHEMAS_MAX + 1))}, "schemas", "at most 1000"),
        ({"value": "row", "schemas": numbered(1), "key": (CARRIER,)}, "carrier", "the schema Flight has not"),
        ({"partition_by": 1}, "partition_by", "it is 0 to 0"),
        ({"partition_by": -1, "key": (CARRIER,)}, "partition_by", "it is 0 to 1"),
        ({"partition_by": 2, "key": (CARRIER,)}, "partition_by", "it is 0 to 1"),
        ({"partition_by": True, "key": (CARRIER,)}, "partition_by", "it is 0 to 1"),
    ],
)
def test_what_does_not_fit_is_refused_by_its_field(arguments: dict[str, Any], field: str, reason: str) -> None:
    with pytest.raises(InvalidSchema, match=reason) as refused:
        TableDefinition(**arguments)
    assert refused.value.fields["field"] == field


@pytest.mark.parametrize(
    "arguments", [("a b",), ("",), (7,), ("ä",), ("a", "text"), ("a", ["str"]), ("a", "str", 1)], ids=str
)
def test_no_field_of_a_key(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidSchema):
        KeyField(*arguments)


def test_a_time_has_a_time_zone_in_all_schemas_or_in_none() -> None:
    one, other = (schema(at=logical("long", name)) for name in ("timestamp-micros", "local-timestamp-micros"))
    with pytest.raises(InvalidSchema, match="a time zone in some"):
        TableDefinition(1, (KeyField("at", "datetime"),), "row", (NumberedSchema(1, one), NumberedSchema(2, other)))


def test_numbers_of_schemas() -> None:
    definition = TableDefinition(value="row", schemas=numbered(0, 0))
    assert [each.number for each in definition.numbered([3, 9]).schemas] == [3, 9]
    assert TableDefinition(value="row", schemas=numbered(3, 0))
    for numbers in ([3], [0, 3], [3, 3]):
        with pytest.raises(InvalidSchema):
            definition.numbered(numbers)


def test_partitioners() -> None:
    assert [each.partitioner for each in ALL] == ["slot", "slot", "fields:2", "slot", *["fields:1"] * 3]


ID = UUID("12345678-1234-5678-1234-567812345678")
NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)
THIRD = struct.unpack("<f", struct.pack("<f", 1 / 3))[0]


@pytest.mark.parametrize(
    ("type_", "key_type", "value", "element"),
    [
        ("string", "str", "UA", "UA"),
        ("bytes", "bytes", b"UA", b"UA"),
        ("long", "int", 7, 7),
        ("double", "float", 7, 7.0),
        ("double", "float", 1 / 3, 1 / 3),
        ("float", "float", 1 / 3, THIRD),
        ("float", "float", float("inf"), float("inf")),
        ("boolean", "bool", True, True),
        (logical("string", "uuid"), "uuid", ID, ID),
        (logical("int", "date"), "date", date(2026, 11, 27), date(2026, 11, 27)),
        (logical("long", "timestamp-millis"), "datetime", NOON, NOON),
        (logical("long", "timestamp-micros"), "datetime", NOON.replace(microsecond=1), NOON.replace(microsecond=1)),
        (logical("long", "local-timestamp-micros"), "datetime", NOON.replace(tzinfo=None), NOON.replace(tzinfo=None)),
    ],
)
def test_keys_of_values(type_: Any, key_type: Any, value: Any, element: Any) -> None:
    assert of_rows(KeyField("f", key_type), f=type_).key_of([value]) == pack_key(element)
    assert of_rows(KeyField("f", key_type, True), f=["null", type_]).key_of([None]) == pack_key(None)
    assert TableDefinition(key=(KeyField("f", key_type),)).key_of([value])


@pytest.mark.parametrize(
    ("type_", "key_type", "value"),
    [
        ("string", "str", None),
        ("string", "str", b"UA"),
        ("string", "str", "\ud800"),
        ("string", "str", "x" * 510),
        ("bytes", "bytes", "UA"),
        ("long", "int", True),
        ("long", "int", 7.0),
        ("double", "float", True),
        ("double", "float", float("nan")),
        ("double", "float", 10**400),
        ("float", "float", 1e300),
        ("boolean", "bool", 1),
        (logical("string", "uuid"), "uuid", str(ID)),
        (logical("int", "date"), "date", NOON),
        (logical("long", "timestamp-micros"), "datetime", date(2026, 11, 27)),
        (logical("long", "timestamp-micros"), "datetime", NOON.replace(tzinfo=None)),
        (logical("long", "local-timestamp-micros"), "datetime", NOON),
        (logical("long", "timestamp-millis"), "datetime", NOON.replace(microsecond=1)),
    ],
)
def test_a_value_of_another_type_makes_no_key(type_: Any, key_type: Any, value: Any) -> None:
    with pytest.raises(InvalidKey):
        of_rows(KeyField("f", key_type), f=type_).key_of([value])


def test_keys_of_several_values_and_of_none() -> None:
    assert FLIGHTS.key_of(["UA", 1545]) == pack_key("UA", 1545)
    assert TableDefinition(key=(KeyField("x"),)).key_of([1.5]) == pack_key(1.5)
    assert TableDefinition().key_of([b"UA"]) == b"UA"
    assert TableDefinition(key="str").key_of(["Ü"]) == "Ü".encode()
    for definition, values in (
        (FLIGHTS, ["UA"]),
        (FLIGHTS, ["UA", 1, 2]),
        (TableDefinition(), ["UA"]),
        (TableDefinition(), [b""]),
        (TableDefinition(), [b"a", b"b"]),
        (TableDefinition(key="str"), [b"UA"]),
        (TableDefinition(key="str"), ["\ud800"]),
    ):
        with pytest.raises(InvalidKey):
            definition.key_of(values)


def test_the_next_definition() -> None:
    first, next_schema = flight_rows.FLIGHTS, RowSchema.parse(flight_rows.LATER_SCHEMA)
    later = first.with_schema(NumberedSchema(7, next_schema))
    assert (later.number, [each.number for each in later.schemas]) == (2, [1, 7])
    third = later.with_schema(NumberedSchema(3, schema(carrier="string", flight="long")))
    assert (third.number, [each.number for each in third.schemas]) == (3, [1, 7, 3]), "the newest is last"
    assert third.first == later.first == first.first == first
    assert all(a.continues(b) for a, b in ((third, later), (later, first), (third, first), (first, first)))
    with pytest.raises(InvalidSchema, match="the table has this one, as schema 1"):
        later.with_schema(NumberedSchema(1, first.schemas[0].schema))
    assert not first.continues(later)
    other = first.with_schema(NumberedSchema(8, next_schema))
    assert not later.continues(other)
    assert not third.continues(other)
    assert not replace(later, partition_by=2).continues(first)
    assert TableDefinition.from_document(json.loads(third.text)) == third


def test_the_next_definition_has_the_same_key() -> None:
    less = {**flight_rows.LATER_SCHEMA, "fields": flight_rows.LATER_SCHEMA["fields"][1:]}
    with pytest.raises(InvalidSchema, match="carrier"):
        flight_rows.FLIGHTS.with_schema(NumberedSchema(2, RowSchema.parse(less)))


@pytest.mark.parametrize(
    ("listed", "why"),
    [
        ([[number, f"no schema {number}"] for number in range(1, SCHEMAS_MAX + 2)], "at most 1000"),
        ([[1, "no schema"], [1, "no schema"]], "two of them are the same"),
    ],
    ids=["too many", "twice"],
)
def test_schemas_of_a_document_are_counted_before_one_is_read(listed: list[list[object]], why: str) -> None:
    """To read one takes 0.1 ms, and a document of a map may name one of them in three bytes."""
    with pytest.raises(UnknownFormat, match=why):
        TableDefinition.from_document(FLIGHTS.to_document() | {"schemas": listed})
