"""Stored batches as rows: those that a watch would show, with the same content."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log_tier.model.batch import Columns, encode_batch
from log_tier.model.batch_header import stamp_batch
from log_tier.model.errors import InvalidValue
from log_tier.model.identifiers import Offset, Partition
from log_tier.model.record import Expiry, Operation
from spark_bulk.source.log.changes import Changes, change_columns

SCHEMA = pa.schema(
    [
        ("table", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("operation", pa.string()),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)
PUT, DELETE, NOOP, ADD = (int(each) for each in (Operation.PUT, Operation.DELETE, Operation.NOOP, Operation.ADD))
BARRIER = int(Operation.BARRIER)


def stored(base: int, columns: Columns, *, time_ms: int = 1_700_000_000_000, span: int | None = None) -> bytes:
    return stamp_batch(encode_batch(columns, span=span), base_offset=Offset(base), timestamp_ms=time_ms, unsynced=0)


def rows_of(batches: list[bytes], first: int = 0, last: int = 1 << 40, **how: Any) -> list[dict[str, Any]]:
    found = change_columns(
        Changes.of(batches),
        how.pop("schema", SCHEMA),
        table="flights",
        partition=Partition(3),
        first=Offset(first),
        last=Offset(last),
        **how,
    )
    if found is None:
        return []
    found.validate(full=True)
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


def test_a_row_for_each_change() -> None:
    mixed = Columns([b"a", b"b", b"c"], [b"1", b"", b"2"], [PUT | Expiry.TTL << 10, DELETE, ADD], None, [5, 0, 0])
    rows = rows_of([stored(10, mixed), stored(13, Columns([b"d"], [b""]), time_ms=1_700_000_000_500)])
    assert [(row["offset"], row["operation"], row["key"], row["value"]) for row in rows] == [
        (10, "put", b"a", b"1"),
        (11, "delete", b"b", None),
        (12, "add", b"c", b"2"),
        (13, "put", b"d", b""),
    ]
    assert {(row["table"], row["partition"]) for row in rows} == {("flights", 3)}
    assert [row["timestamp"].timestamp() for row in rows] == [1_700_000_000.0] * 3 + [1_700_000_000.5]


def test_what_changes_nothing_is_left_out_unless_all_is_wanted() -> None:
    columns = Columns([b"", b"a", b"", b""], [b"", b"1", b"", b"{}"], [NOOP, PUT, NOOP, BARRIER])
    batches = [stored(0, columns)]
    assert [row["offset"] for row in rows_of(batches)] == [1]
    assert rows_of(batches, void=[1]) == []
    everything = rows_of(batches, void=[1], all_records=True)
    assert [row["operation"] for row in everything] == ["noop", "put", "noop", "barrier"]


def test_offsets_that_compaction_left() -> None:
    columns = Columns([b"a", b"b"], [b"1", b"2"], deltas=[1, 4])
    assert [row["offset"] for row in rows_of([stored(20, columns, span=6)])] == [21, 24]
    shell = stored(26, Columns([], []), span=3)
    assert rows_of([shell]) == []
    assert [row["offset"] for row in rows_of([shell, stored(29, Columns([b"c"], [b"3"]))])] == [29]


def test_columns_in_any_order_and_of_either_type() -> None:
    schema = pa.schema([("value", pa.string()), ("key", pa.string())])
    batch = stored(0, Columns(["é".encode(), b"x"], [b"1", b""], [PUT, DELETE]))
    assert rows_of([batch], schema=schema) == [{"value": "1", "key": "é"}, {"value": None, "key": "x"}]
    with pytest.raises(InvalidValue, match="flights/3: the value under the key b'k' is no UTF-8"):
        rows_of([stored(0, Columns([b"k"], [b"\xff"]))], schema=schema)


record = st.tuples(
    st.sampled_from([PUT, PUT, PUT, DELETE, ADD, NOOP]), st.binary(min_size=1, max_size=3), st.binary(max_size=3)
)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.lists(record, min_size=1, max_size=4), max_size=5),
    st.integers(0, 12),
    st.integers(0, 20),
    st.sets(st.integers(0, 20)),
)
def test_any_range_of_any_batches(
    batches: list[list[tuple[int, bytes, bytes]]], first: int, last: int, void: set[int]
) -> None:
    made, offset, expected = [], 0, []
    for records in batches:
        plain = all(code == PUT for code, _, _ in records)
        codes = None if plain else [code for code, _, _ in records]
        made.append(stored(offset, Columns([key for _, key, _ in records], [value for _, _, value in records], codes)))
        for code, key, value in records:
            if first <= offset <= last and offset not in void and code != NOOP:
                name = Operation(code).name.lower()
                expected.append((offset, name, key, None if code == DELETE else value))
            offset += 1
    rows = rows_of(made, first, last, void=void)
    assert [(row["offset"], row["operation"], row["key"], row["value"]) for row in rows] == expected
