"""Rows become records of the right partition, in their order; a row that cannot is refused by its place."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.partitioners import PARTITIONERS

from log_tier.model.errors import DuramenError, InvalidKey, InvalidRequest, InvalidValue
from log_tier.model.identifiers import Partition
from log_tier.model.partitioner import Partitioner, partition_of
from log_tier.model.record import (
    EXPIRY_SHIFT,
    KEY_BYTES_MAX,
    OPERATION_MASK,
    PLAIN_PUT,
    TTL_MS_MAX,
    VALUE_BYTES_MAX,
    Expiry,
    Operation,
)
from spark_bulk.source.writes.drafted_rows import OPERATIONS, check_write_schema, drafts

Record = tuple[str, bytes, bytes, int, int]
"""Operation, key, value, expiry's kind, expiry."""


def drafted(
    rows: pa.RecordBatch, *, partitions: int = 1, partitioner: Partitioner = "slot", json_values: bool = False
) -> dict[Partition, list[Record]]:
    check_write_schema(rows.schema, json_values=json_values)
    found: dict[Partition, list[Record]] = {}
    for each in drafts(
        rows, partitions=partitions, partitioner=partitioner, json_values=json_values, where="task 7", first_row=100
    ):
        assert each.partition not in found
        columns = each.columns
        count = len(columns.keys)
        attributes = columns.attributes or [PLAIN_PUT] * count
        expiries = columns.expiries or [0] * count
        assert each.bytes == sum(map(len, columns.keys)) + sum(map(len, columns.values))
        found[each.partition] = [
            (Operation(attribute & OPERATION_MASK).name.lower(), key, value, attribute >> EXPIRY_SHIFT & 3, expiry)
            for attribute, key, value, expiry in zip(attributes, columns.keys, columns.values, expiries, strict=True)
        ]
    return found


def check_refused(kind: type[DuramenError], said: str, rows: pa.RecordBatch, *, json_values: bool = False) -> None:
    with pytest.raises(kind, match=said) as caught:
        drafted(rows, json_values=json_values)
    assert type(caught.value) is kind


def batch(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


row = st.tuples(
    st.sampled_from(["put", "put", "delete", "add", "append"]),
    st.binary(min_size=1, max_size=4),
    st.integers(0, 99).map(lambda number: b"%d" % number),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(row, max_size=30), st.integers(1, 8), st.sampled_from(PARTITIONERS))
def test_records_lie_where_the_router_puts_them_in_the_order_of_their_rows(
    rows: list[tuple[str, bytes, bytes]], partitions: int, partitioner: Partitioner
) -> None:
    given_rows = batch(
        operation=pa.array([operation for operation, _, _ in rows], pa.string()),
        key=pa.array([key for _, key, _ in rows], pa.binary()),
        value=pa.array([None if operation == "delete" else value for operation, _, value in rows], pa.binary()),
    )
    expected: dict[Partition, list[Record]] = {}
    for operation, key, value in rows:
        place = partition_of(key, partitions, partitioner)
        expected.setdefault(place, []).append((operation, key, b"" if operation == "delete" else value, 0, 0))
    assert drafted(given_rows, partitions=partitions, partitioner=partitioner) == expected


def test_plain_puts_are_plain() -> None:
    rows = batch(key=["a", "é"], value=["1", ""])
    (made,) = drafts(rows, partitions=1, partitioner="slot", json_values=False, where="", first_row=0)
    assert (made.columns.attributes, made.columns.expiries) == (None, None)
    assert made.columns.keys == [b"a", "é".encode()]


def test_deletes_alone_need_no_values() -> None:
    assert drafted(batch(key=[b"a"], operation=["delete"])) == {0: [("delete", b"a", b"", 0, 0)]}
    assert drafted(batch(key=[b"a"], value=pa.nulls(1), operation=["delete"])) == {0: [("delete", b"a", b"", 0, 0)]}


def test_every_operation_that_a_client_has() -> None:
    assert list(OPERATIONS) == ["put", "delete", "add", "multiply", "min", "max", "append"]
    rows = batch(key=[b"k"] * 7, value=[b"1"] * 7, operation=list(OPERATIONS))
    assert [record[0] for record in drafted(rows)[Partition(0)]] == list(OPERATIONS)


def test_expiries() -> None:
    expiry = datetime(2030, 1, 1, 0, 0, 0, 1500, tzinfo=UTC)
    at = int(expiry.timestamp() * 1000)
    rows = batch(
        key=[b"a", b"b", b"c"],
        value=[b"1", b"2", None],
        operation=["put", "put", "delete"],
        expires_at=pa.array([expiry, None, expiry], pa.timestamp("us", "Europe/Berlin")),
    )
    assert drafted(rows)[Partition(0)] == [
        ("put", b"a", b"1", Expiry.AT, at),
        ("put", b"b", b"2", 0, 0),
        ("delete", b"c", b"", 0, 0),
    ]
    rows = batch(key=[b"a", b"b"], value=[b"1", b"2"], ttl_ms=pa.array([None, 60_000], pa.int32()))
    assert drafted(rows)[Partition(0)] == [("put", b"a", b"1", 0, 0), ("put", b"b", b"2", Expiry.TTL, 60_000)]


def test_json_values() -> None:
    rows = batch(
        key=["a", "b", "c"],
        n=[1, None, 3],
        o=[{"x": [1.5]}, {"x": None}, None],
        s=['é"', None, None],
        operation=["put", "put", "delete"],
    )
    found = drafted(rows, json_values=True)[Partition(0)]
    assert found[0][2] == '{"n":1,"o":{"x":[1.5]},"s":"é\\""}'.encode()
    assert json.loads(found[1][2]) == {"o": {"x": None}}
    assert found[2] == ("delete", b"c", b"", 0, 0)


# --- refusals


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"key": ["a", None]}, "task 7, row 101: `key` is null"),
        ({"key": ["a", ""]}, "task 7, row 101: `key` is empty"),
        ({"key": ["a", "x" * 512]}, "task 7, row 101: `key` has 512 bytes .*keys have 1 to 511"),
        ({"key": ["a", "é" * 256]}, "row 101: `key` has 512 bytes"),
    ],
)
def test_keys(columns: dict[str, Any], said: str) -> None:
    check_refused(InvalidKey, said, batch(value=["1", "2"], **columns))
    assert drafted(batch(key=["x" * KEY_BYTES_MAX], value=["1"]))


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"value": ["1", None]}, "task 7, row 101: `value` is null .key 'b'.*add a column `operation` with 'delete'"),
        ({"value": [b"", b"x" * (VALUE_BYTES_MAX + 1)]}, "row 101: `value` has 4194305 bytes"),
        ({"value": ["1", "2"], "operation": ["put", "remove"]}, "row 101: `operation` is 'remove'; it is one of put"),
        ({"value": ["1", "2"], "operation": ["put", None]}, "row 101: `operation` is None"),
        ({"value": ["1", "2"], "operation": ["put", "noop"]}, "row 101: `operation` is 'noop'"),
        ({"value": ["1", None], "operation": ["put", "add"]}, "row 101: `value` is null"),
        ({"value": ["x", "y"], "operation": ["put", "add"]}, "row 101: `value` is b'y' .*which is no number"),
        ({"value": ["1", "2"], "ttl_ms": [1, 0]}, "row 101: `ttl_ms` is 0 ms"),
        ({"value": ["1", "2"], "ttl_ms": [1, TTL_MS_MAX + 1]}, f"row 101: `ttl_ms` is {TTL_MS_MAX + 1} ms"),
    ],
)
def test_values(columns: dict[str, Any], said: str) -> None:
    check_refused(InvalidValue, said, batch(key=["a", "b"], **columns))


def test_a_value_of_json_that_is_no_number() -> None:
    check_refused(
        InvalidValue, "row 101: no JSON can be made", batch(key=["a", "b"], x=[1.0, float("nan")]), json_values=True
    )


@pytest.mark.parametrize(
    ("kind", "columns", "said", "json_values"),
    [
        (InvalidKey, {"k": ["a"], "value": ["1"]}, "there is no column `key` among k, value", False),
        (InvalidKey, {"key": [1], "value": ["1"]}, "`key` is of type int64: cast it", False),
        (InvalidValue, {"key": ["a"]}, "there is no column `value` among key", False),
        (InvalidValue, {"key": ["a"], "value": [1]}, "`value` is of type int64: cast it", False),
        (
            InvalidRequest,
            {"key": ["a"], "value": ["1"], "version": [1]},
            "nothing is known of a column `version`",
            False,
        ),
        (InvalidRequest, {"key": ["a"], "value": ["1"], "operation": [1]}, "`operation` is of type int64", False),
        (InvalidRequest, {"key": ["a"], "value": ["1"], "ttl_ms": ["1"]}, "`ttl_ms` is of type string", False),
        (
            InvalidRequest,
            {"key": ["a"], "value": ["1"], "expires_at": [datetime(2030, 1, 1)]},
            "has a time zone",
            False,
        ),
        (InvalidRequest, {"key": ["a"], "value": ["1"]}, "there is no column `value`", True),
        (InvalidRequest, {"key": ["a"], "x": [b"1"]}, "`x` is of type binary, which JSON has not", True),
    ],
)
def test_shapes_that_cannot_be_written(
    kind: type[DuramenError], columns: dict[str, Any], said: str, json_values: bool
) -> None:
    check_refused(kind, said, batch(**columns), json_values=json_values)


def test_two_expiries_are_one_too_many() -> None:
    both = {"ttl_ms": [1], "expires_at": pa.array([None], pa.timestamp("us", "UTC"))}
    check_refused(InvalidRequest, "and not by both", batch(key=["a"], value=["1"], **both))
