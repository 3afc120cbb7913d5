"""Entries of indexes: what they are made of, with fastavro and `pack_key` as the peers, and how they sort."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.avro_rows import avro_decode, avro_encode, random_row, random_schema
from kit.rows.judged_rows import of_fields, of_rows

from log_tier.model.errors import InvalidSchema
from log_tier.rows.elements import encode_element
from log_tier.rows.framing import frame
from log_tier.rows.index_entries import NAN, IndexEntries
from log_tier.rows.key_fields import key_type_of, without_null
from log_tier.rows.schema import RowSchema
from log_tier.rows.table_index import ENTRY_BYTES_MAX, INDEX_FIELDS_MAX, TableIndex


def sortable_paths(fields: Any, schema: RowSchema, depth: int = 0) -> Iterator[str]:
    for field in fields:
        plain, _ = without_null(field["type"])
        found: Any = schema.named.get(plain, plain) if isinstance(plain, str) else plain
        if key_type_of(plain, schema) is not None:
            yield field["name"]
        elif depth < 2 and isinstance(found, dict) and found["type"] == "record":
            yield from (f"{field['name']}.{inner}" for inner in sortable_paths(found["fields"], schema, depth + 1))


def value_at(row: Any, path: str) -> Any:
    for name in path.split("."):
        row = None if row is None else row[name]
    return row


def element_of(value: Any) -> bytes:
    return NAN if isinstance(value, float) and math.isnan(value) else encode_element(value)


@given(st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_an_entry_has_the_elements_of_its_fields_and_the_key(random: Random) -> None:
    written = random_schema(random, fields=8)
    schema = RowSchema.parse(written)
    paths = list(sortable_paths([{"name": each.name, "type": each.type} for each in schema.fields], schema))
    if not paths:
        return
    indexes = tuple(
        TableIndex(number, f"by_{number}", tuple(random.sample(paths, random.randint(1, min(3, len(paths))))))
        for number in (1, 2, 300)
    )
    definition = replace(of_rows(written), indexes=indexes)
    body = avro_encode(written, random_row(random, written))
    row = avro_decode(written, body)
    expected = [
        each.number.to_bytes(2) + b"".join(element_of(value_at(row, path)) for path in each.fields) + b"key"
        for each in indexes
    ]
    assert IndexEntries(indexes, definition.schemas).of(b"key", frame(7, body)) == expected
    too_long = any(len(entry) - 2 > ENTRY_BYTES_MAX for entry in expected)
    assert (definition.judge.refusal(b"key", frame(7, body)) is None) != too_long
    assert definition.judge.fit([b"key"], [frame(7, body)]) != too_long


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
