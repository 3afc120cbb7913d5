"""Schemas and typed columns: text is UTF-8, JSON is one object a value, and what is not is named by its key."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log_tier.model.errors import InvalidKey, InvalidRequest, InvalidValue
from spark_bulk.source.model.columns import (
    LOG_COLUMNS,
    TABLE_COLUMNS,
    check_schema,
    json_columns,
    log_ddl,
    table_ddl,
    typed,
)


def parse(values: list[bytes], schema: pa.Schema) -> list[list[Any]]:
    keys = pa.array([b"k%d" % number for number in range(len(values))], pa.binary())
    found = json_columns(pa.array(values, pa.binary()), schema, keys=keys, where="flights/3")
    assert [column.type for column in found] == [field.type for field in schema]
    return [column.to_pylist() for column in found]


N = pa.schema([("n", pa.int32())])


# --- schemas


def test_schemas_as_ddl() -> None:
    assert table_ddl("bytes", "utf8", "") == (
        "key BINARY, value STRING, version BIGINT, partition INT, expires_at TIMESTAMP"
    )
    assert table_ddl("utf8", "json", "n INT") == (
        "key STRING, n INT, version BIGINT, partition INT, expires_at TIMESTAMP"
    )
    assert log_ddl("utf8", "bytes") == (
        "table STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, operation STRING, key STRING, value BINARY"
    )
    with pytest.raises(InvalidRequest, match="JSON values need a schema"):
        table_ddl("bytes", "json", "")


def test_a_schema_names_what_there_is() -> None:
    check_schema(pa.schema([("version", pa.int64()), ("key", pa.string())]), TABLE_COLUMNS, fields=False)
    with pytest.raises(InvalidRequest, match="there is no column `offset`: there are key, value, version"):
        check_schema(pa.schema([("offset", pa.int64())]), TABLE_COLUMNS, fields=False)
    with pytest.raises(InvalidRequest, match="the column `key` is BINARY or STRING, the schema says int32"):
        check_schema(pa.schema([("key", pa.int32())]), LOG_COLUMNS, fields=False)


def test_json_fields_are_of_types_that_json_has() -> None:
    nested = pa.struct([("a", pa.list_(pa.float64())), ("b", pa.bool_())])
    check_schema(pa.schema([("key", pa.binary()), ("n", pa.int8()), ("x", nested)]), TABLE_COLUMNS, fields=True)
    with pytest.raises(InvalidRequest, match="the JSON field `when` is of type date32"):
        check_schema(pa.schema([("when", pa.date32())]), TABLE_COLUMNS, fields=True)
    with pytest.raises(InvalidRequest, match="the column `version` is BIGINT"):
        check_schema(pa.schema([("version", pa.string())]), TABLE_COLUMNS, fields=True)


# --- text


def test_text_is_utf8_or_refused() -> None:
    keys = pa.array([b"a", b"b", b"c"])
    assert typed(
        pa.array([b"x", None, "é".encode()]), pa.string(), what="value", keys=keys, where="t/0"
    ).to_pylist() == [
        "x",
        None,
        "é",
    ]
    with pytest.raises(InvalidValue, match=r"t/0: the value under the key b'b' is no UTF-8 .* at byte 1"):
        typed(pa.array([None, b"x\xff", b"y"]), pa.string(), what="value", keys=keys, where="t/0")
    with pytest.raises(InvalidKey, match="the key under the key"):
        typed(pa.array([b"\xff"]), pa.string(), what="key", keys=pa.array([b"\xff"]), where="t/0")


# --- JSON


def test_fields_of_objects() -> None:
    schema = pa.schema(
        [
            ("n", pa.int32()),
            ("s", pa.string()),
            ("x", pa.float64()),
            ("b", pa.bool_()),
            ("l", pa.list_(pa.int64())),
            ("o", pa.struct([("p", pa.string())])),
        ]
    )
    values = [
        b'{"n": 1, "s": "a", "x": 1.5, "b": true, "l": [1, 2], "o": {"p": "q"}, "other": [null]}',
        b"{}",
        b'{"n": null,\n "x": 2}',
    ]
    assert parse(values, schema) == [
        [1, None, None],
        ["a", None, None],
        [1.5, None, 2.0],
        [True, None, None],
        [[1, 2], None, None],
        [{"p": "q"}, None, None],
    ]


def test_no_values_and_no_fields() -> None:
    assert parse([], N) == [[]]
    assert parse([b"{}"], pa.schema([])) == []


def test_blanks_around_an_object_are_no_trouble() -> None:
    assert parse([b' {"n": 1}', b'{"n": 2}\n', b'{"n": 3}'], N) == [[1, 2, 3]]


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"  ",
        b"1",
        b"[1]",
        b"null",
        b'{"n": 1',
        b'{"n": 1}{"n": 2}',
        b'{"n": 1}\n{"n": 2}',
        b"{'n': 1}",
        b'{"n": "a',
        b"\xff{}",
    ],
)
@pytest.mark.parametrize("neighbours", [0, 5])
def test_what_is_no_object_is_refused_by_its_key(value: bytes, neighbours: int) -> None:
    values = [b'{"n": 1}'] * neighbours + [value] + [b'{"n": 1}'] * neighbours
    with pytest.raises(InvalidValue, match=f"flights/3: the value under the key b'k{neighbours}' is no JSON"):
        parse(values, N)


def test_two_wrong_values_do_not_make_one_right_number() -> None:
    """Two documents in one value and none in the next are as many as values: still none of them may pass."""
    with pytest.raises(InvalidValue, match="b'k0'"):
        parse([b'{"n": 1}{"n": 2}', b""], N)
    with pytest.raises(InvalidValue, match="b'k0'"):
        parse([b'{"n": 1}{"n": 2}', b" "], N)
    with pytest.raises(InvalidValue, match="b'k0'"):
        parse([b'{"n": 1}{"n": {}', b"}"], N)


@pytest.mark.parametrize(
    ("value", "shown"), [(b'{"n": "x"}', "'x'"), (b'{"n": 1.5}', "1.5"), (b'{"n": 5000000000}', "5000000000")]
)
def test_a_field_of_another_type_is_refused(value: bytes, shown: str) -> None:
    with pytest.raises(InvalidValue, match=f"the field `n` under the key b'k1' is {shown}, the schema says int32"):
        parse([b"{}", value], N)


documents = st.fixed_dictionaries(
    {},
    optional={
        "n": st.integers(-(2**31), 2**31 - 1) | st.none(),
        "s": st.text(max_size=6),
        "{": st.text(max_size=2),
    },
)


@settings(max_examples=150, deadline=None)
@given(st.lists(documents, max_size=8), st.sampled_from([None, 1]))
def test_the_fast_way_says_what_json_says(found: list[dict[str, Any]], indent: int | None) -> None:
    schema = pa.schema([("n", pa.int32()), ("s", pa.string())])
    values = [json.dumps(each, indent=indent).encode() for each in found]
    assert parse(values, schema) == [[each.get(name) for each in found] for name in ("n", "s")]
