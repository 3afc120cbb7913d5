"""Entries of indexes: what they are made of, with fastavro and `pack_key` as the peers, and how they sort."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.avro_rows import avro_decode, avro_encode, mutated, random_row, random_schema
from kit.rows.judged_rows import of_fields, of_rows, sortable_paths, varint

from log_tier.model.errors import InvalidSchema
from log_tier.rows.avro.row_reader import READER_ERRORS
from log_tier.rows.definition import TableDefinition
from log_tier.rows.elements import encode_element
from log_tier.rows.framing import frame
from log_tier.rows.index_entries import IndexEntries, complete_entries, entries_reader
from log_tier.rows.quick_reader import EntriesReader, quick_entries
from log_tier.rows.schema import RowSchema
from log_tier.rows.table_index import (
    ENTRY_BYTES_MAX,
    INDEX_FIELDS_MAX,
    NAN,
    OPEN_END,
    EntryForm,
    FieldCondition,
    TableIndex,
    condition_between,
)
from router.remote.definitions import definition_from, definition_message


def value_at(row: Any, path: str) -> Any:
    for name in path.split("."):
        row = None if row is None else row[name]
    return row


def element_of(value: Any) -> bytes:
    return NAN if isinstance(value, float) and math.isnan(value) else encode_element(value)


def random_where(random: Random, elements: list[tuple[str, bytes]]) -> tuple[FieldCondition, ...]:
    """Up to two conditions, each on another field, with a value or a range that begins or ends there."""
    found = []
    for path, element in random.sample(elements, random.randint(0, min(2, len(elements)))):
        bounds = random.choice([(element, element + b"\0"), (element, OPEN_END), (b"", element)])
        if bounds != (b"", b"\0") and NAN not in bounds and bounds[0] < bounds[1]:
            found.append(condition_between(path, *bounds))
    return tuple(found)


@given(st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_an_entry_has_the_elements_of_its_fields_and_the_key(random: Random) -> None:
    written = random_schema(random, fields=8)
    schema = RowSchema.parse(written)
    paths = sortable_paths(schema)
    if not paths:
        return
    body = avro_encode(written, random_row(random, written))
    row, other = avro_decode(written, body), avro_decode(written, avro_encode(written, random_row(random, written)))
    indexes = tuple(
        TableIndex(
            number,
            f"by_{number}",
            tuple(random.sample(paths, random.randint(1, min(3, len(paths))))),
            random_where(random, [(path, element_of(value_at(random.choice((row, other)), path))) for path in paths]),
        )
        for number in (1, 2, 300)
    )
    definition = replace(of_rows(written), indexes=indexes)
    assert TableDefinition.from_document(json.loads(definition.text)) == definition
    assert definition_from(definition_message(definition)) == definition
    expected = [
        each.number.to_bytes(2) + b"".join(element_of(value_at(row, path)) for path in each.fields) + b"key"
        if all(condition.holds(element_of(value_at(row, condition.path))) for condition in each.where)
        else b""
        for each in indexes
    ]
    assert IndexEntries(indexes, definition.schemas).of(b"key", frame(7, body)) == expected
    too_long = any(len(entry) - 2 > ENTRY_BYTES_MAX for entry in expected)
    assert (definition.judge.refusal(b"key", frame(7, body)) is None) != too_long
    assert definition.judge.fit([b"key"], [frame(7, body)]) != too_long


def entries_or_none(read: EntriesReader, body: bytes) -> list[bytes] | None:
    """None: it has refused the row, by an error that readers raise."""
    try:
        return read(b"head" + body, 4, b"key")
    except READER_ERRORS:
        return None


@given(st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_the_quick_reader_makes_the_entries_of_the_complete_one(random: Random) -> None:
    """Of what is no row it may make some all the same, and raises nothing else."""
    written = random_schema(random, fields=8)
    schema = RowSchema.parse(written)
    paths = [tuple(each.split(".")) for each in sortable_paths(schema)]
    if not paths:
        return
    where = random_where(random, [(".".join(path), encode_element(random.choice((None, 7, "a")))) for path in paths])
    conditions = tuple((tuple(each.path.split(".")), each.start, each.end) for each in where)
    indexes = tuple(
        EntryForm(number.to_bytes(2), tuple(random.sample(paths, random.randint(1, min(3, len(paths))))), conditions)
        for number in (1, 300)
    )
    complete, read = complete_entries(schema, indexes), entries_reader(schema, indexes)
    body = avro_encode(written, random_row(random, written))
    assert entries_or_none(read, body) == entries_or_none(complete, body) is not None
    for value in (*(body[:size] for size in range(len(body))), *(mutated(random, body) for _ in range(60))):
        expected = entries_or_none(complete, value)
        found = entries_or_none(read, value)
        assert expected is None or found == expected


ORDINARY: list[tuple[Any, list[Any]]] = [
    ("string", ["", "UA", "Zürich", "a\0b", "x" * 64, "x" * 300]),
    ("int", [0, -1, 5, 300, 100_000]),
    ("long", [0, -1, 63, 64, 8191, 8192, 1_000_000]),
    ("double", [0.0, 1.5, -1.5, 5e-324, -5e-324, math.inf, -math.inf, -0.0, math.nan]),
    ("float", [1.5]),
    ("boolean", [True, False]),
    ("bytes", [b"", b"a\0b"]),
    (["null", "string"], [None, "N1"]),
    (["double", "null"], [None, -2.5]),
    ({"type": "int", "logicalType": "date"}, [19_000, -1]),
    ({"type": "long", "logicalType": "timestamp-micros"}, [1_357_016_400_000_000, 0, -5]),
    ({"type": "string", "logicalType": "uuid"}, ["6f1d8a52-3d5e-4a8e-9c7b-0f3a7f1c2b4d"]),
    (
        {"type": "record", "name": "Inner", "fields": [{"name": "b", "type": "string"}, {"name": "c", "type": "long"}]},
        [],
    ),
]
PASSED: list[tuple[Any, Any]] = [
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B"),
    ({"type": "fixed", "name": "F", "size": 3}, b"abc"),
    ({"type": "array", "items": "string"}, ["a", "b"]),
    (["null", {"type": "map", "values": "long"}], {"a": 1 << 40}),
    ({"type": "long", "logicalType": "timestamp-micros"}, 5),
    ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, b"\x05"),
    ("null", None),
    ("bytes", b"\xff" * 70),
    *((type_, value) for type_, values in ORDINARY for value in values),
]


def check_entries_alone(fields: list[tuple[Any, Any]], *paths: tuple[str, ...]) -> None:
    """Of the row with these types and values, without the complete reader."""

    def complete(value: bytes, at: int, key: bytes) -> list[bytes]:
        raise AssertionError(f"{value!r} was left to the complete reader")

    names = [f"f{number}" for number in range(len(fields))]
    written = {
        "type": "record",
        "name": "R",
        "fields": [{"name": name, "type": type_} for name, (type_, _) in zip(names, fields, strict=True)],
    }
    schema, indexes = (
        RowSchema.parse(written),
        tuple(EntryForm(bytes((0, n)), (path,)) for n, path in enumerate(paths, 1)),
    )
    body = avro_encode(written, {name: value for name, (_, value) in zip(names, fields, strict=True)})
    read = quick_entries(schema, indexes, complete)
    assert read(body, 0, b"key") == complete_entries(schema, indexes)(body, 0, b"key"), fields


def test_an_ordinary_row_has_its_entries_from_one_function() -> None:
    for type_, values in ORDINARY:
        for value in values:
            # What follows is not read; the numbers of eight bytes at once need it to be there.
            check_entries_alone([(type_, value), ("string", "12345678")], ("f0",))
    for type_, value in PASSED:
        check_entries_alone([(type_, value), ("string", "N1"), ("double", 1.0)], ("f1",), ("f2",))
    inner = ORDINARY[-1][0]
    for type_, value in ((inner, {"b": "x", "c": -7}), (["null", inner], {"b": "x", "c": 7}), ([inner, "null"], None)):
        check_entries_alone([("long", 1 << 60), (type_, value), ("string", "y")], ("f1", "c"), ("f1", "b"), ("f2",))


def test_a_row_with_many_fields_up_to_that_of_an_index_has_the_complete_reader_alone() -> None:
    """Source that grows with the schema would stop a server while it is compiled."""
    many = [{"name": f"f{number}", "type": "long"} for number in range(65)]
    wide = RowSchema.parse({"type": "record", "name": "R", "fields": many})
    inside = RowSchema.parse(
        {
            "type": "record",
            "name": "O",
            "fields": [{"name": "a", "type": {"type": "record", "name": "R", "fields": many}}],
        }
    )
    deep: Any = {"type": "record", "name": "R0", "fields": [{"name": "a", "type": "long"}]}
    for number in range(1, 5):
        deep = {"type": "record", "name": f"R{number}", "fields": [{"name": "a", "type": deep}]}

    def is_left(schema: RowSchema, *path: str) -> bool:
        indexes = (EntryForm(b"\0\1", (path,)),)
        complete = complete_entries(schema, indexes)
        return quick_entries(schema, indexes, complete) is complete

    assert is_left(wide, "f64")
    assert not is_left(wide, "f63")
    assert is_left(inside, "a", "f0")
    assert is_left(RowSchema.parse(deep), *"aaaaa")


def test_a_row_that_ends_inside_an_indexed_text_has_no_entries() -> None:
    """No half of a text: a damaged file is named, whatever its rows were."""
    table = replace(of_fields("string"), indexes=(TableIndex(1, "by_a", ("a",)),))
    rows = IndexEntries(table.indexes, table.schemas)
    assert rows.of(b"k", frame(7, varint(6) + b"abc")) == [b"\0\1\x02abc\0k"]
    with pytest.raises(READER_ERRORS):
        rows.of(b"k", frame(7, varint(8) + b"abc"))
    with pytest.raises(READER_ERRORS):
        rows.of(b"k", frame(7, varint(4) + b"\xff\xfe"))
    with pytest.raises(KeyError):
        rows.of(b"k", frame(8, varint(6) + b"abc"))


def entry(value: float | None) -> bytes:
    table = of_fields(["null", "double"])
    (found,) = IndexEntries((TableIndex(1, "by_a", ("a",)),), table.schemas).of(b"", of_double(value))
    return found


def of_double(value: float | None) -> bytes:
    return frame(
        7,
        avro_encode(
            {"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "double"]}]}, {"a": value}
        ),
    )


def test_none_comes_first_and_what_is_no_number_last() -> None:
    values = [None, -math.inf, -1.5, 0.0, 1e-300, 2.0, math.inf, math.nan]
    assert [entry(each) for each in values] == sorted(entry(each) for each in values)
    assert entry(-0.0) == entry(0.0)
    assert entry(math.copysign(math.nan, -1.0)) == entry(math.nan)


def test_an_entry_that_is_too_long_refuses_the_row_by_the_name_of_the_index() -> None:
    table = replace(of_fields("string"), indexes=(TableIndex(1, "by_a", ("a",)),))
    for size, fits in ((ENTRY_BYTES_MAX - 3, True), (ENTRY_BYTES_MAX - 2, False)):
        value = frame(7, bytes((size * 2 & 127 | 128, size * 2 >> 7)) + b"x" * size)
        why = table.judge.refusal(b"k", value)
        assert (why is None) == fits == table.judge.fit([b"k"], [value])
        if why is not None:
            assert "the index by_a" in why


def test_zeros_of_a_text_count_twice() -> None:
    table = replace(of_fields("string"), indexes=(TableIndex(1, "by_a", ("a",)),))
    value = frame(7, bytes((300 * 2 & 127 | 128, 300 * 2 >> 7)) + bytes(300))
    assert "603" in (table.judge.refusal(b"k", value) or "")


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ((), "1 to 16 fields"),
        (("a",) * 2, "twice"),
        (("c",), "has no field c"),
        (("a.b",), "is no record"),
        (("b",), "no index sorts by b"),
        (("a..b",), "is no field"),
        (tuple(f"a{number}" for number in range(INDEX_FIELDS_MAX + 1)), "1 to 16 fields"),
    ],
)
def test_what_is_no_index_is_refused_by_its_name(fields: tuple[str, ...], why: str) -> None:
    with pytest.raises(InvalidSchema, match=why) as caught:
        replace(of_fields("string", {"type": "array", "items": "int"}), indexes=(TableIndex(1, "by", fields),))
    assert "index by" in caught.value.message


@pytest.mark.parametrize("name", ["", "9a", "a b", "é", "x" * 65, 7])
def test_a_name_is_one_of_letters(name: Any) -> None:
    with pytest.raises(InvalidSchema, match="a name has"):
        TableIndex(1, name, ("a",))


@pytest.mark.parametrize("number", [0, 65_535, True, "1"])
def test_a_number_is_one_of_two_bytes(number: Any) -> None:
    with pytest.raises(InvalidSchema, match="its number"):
        TableIndex(number, "by_a", ("a",))
