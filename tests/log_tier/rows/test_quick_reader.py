"""The quick reader says what the complete one says, and asks it seldom."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.avro_rows import avro_encode, mutated, random_row, random_schema

from log_tier.rows.avro.varints import Misfit
from log_tier.rows.judge import complete_reader, row_reader
from log_tier.rows.key_fields import key_type_of, without_null
from log_tier.rows.quick_reader import RowReader, quick_reader
from log_tier.rows.schema import RowSchema


def answer(read: RowReader, value: bytes) -> bytes | str:
    try:
        return read(b"head" + value, 4)
    except Misfit as misfit:
        return f"{misfit.place}: {misfit.reason}"


@given(st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_both_decide_alike(random: Random) -> None:
    schema = random_schema(random, fields=8)
    parsed = RowSchema.parse(schema)
    names = [each.name for each in parsed.fields if key_type_of(without_null(each.type)[0], parsed) is not None]
    random.shuffle(names)
    key = tuple(names[: random.randrange(4)])
    both = row_reader(parsed, key), complete_reader(parsed, key)
    body = avro_encode(schema, random_row(random, schema))
    for value in (body, *(body[:size] for size in range(len(body))), *(mutated(random, body) for _ in range(60))):
        quick, complete = (answer(read, value) for read in both)
        assert quick == complete


ORDINARY: list[tuple[Any, list[Any]]] = [
    ("string", ["", "UA", "Zürich", "x" * 63]),
    ("int", [0, -1, 5, 300, 100_000]),
    ("long", [0, -1, 63, 64, 8191, 8192, 1_000_000, 1 << 62]),
    ("double", [1.5]),
    ("float", [1.5]),
    ("boolean", [True, False]),
    ("bytes", [b"", b"\xff" * 63]),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, ["A", "B"]),
    ({"type": "fixed", "name": "F", "size": 3}, [b"abc"]),
    (["null", "string"], [None, "N1"]),
    ({"type": "long", "logicalType": "timestamp-micros"}, [1_357_016_400_000_000]),
]
KEYS: list[tuple[Any, list[Any]]] = [
    ("string", ["", "UA", "Zürich"]),
    ("int", [0, 5, 63, 64, 8191, 8192, 100_000]),
    ("long", [0, -1, 63, 64, 255, 256, 65535, 65536, 1_000_000]),
    ({"type": "long", "logicalType": "timestamp-micros"}, [1_357_016_400_000_000, 1_764_200_000_000_000]),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, [1_764_200_000_000_001]),
]


@pytest.mark.parametrize("key", [(), ("f",)])
def test_an_ordinary_row_is_not_read_twice(key: tuple[str, ...]) -> None:
    def complete(value: bytes, at: int) -> bytes:
        raise AssertionError(f"{value!r} was left to the complete reader")

    for type_, values in KEYS if key else ORDINARY:
        schema = {"type": "record", "name": "R", "fields": [{"name": "f", "type": type_}]}
        parsed = RowSchema.parse(schema)
        read = quick_reader(parsed, key, complete)
        for value in values:
            body = avro_encode(schema, {"f": value})
            assert read(body, 0) == complete_reader(parsed, key)(body, 0), f"{type_}: {value!r}"


def test_a_wide_record_has_the_complete_reader_alone() -> None:
    """Source that grows with the schema would stop a server while it is compiled."""
    fields = [{"name": f"f{number}", "type": "long"} for number in range(65)]
    parsed = RowSchema.parse({"type": "record", "name": "R", "fields": fields})
    complete = complete_reader(parsed, ())
    assert quick_reader(parsed, (), complete) is complete
