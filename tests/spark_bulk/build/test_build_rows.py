"""What a task makes of the rows that it is given: nothing that no table can hold, one row of each key, and its mark."""

from __future__ import annotations

from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.spark.building import PARTITION, PARTITIONS, Row, mark, rows_batch

from log_tier.model.errors import InvalidKey, InvalidRequest, InvalidValue
from log_tier.model.record import VALUE_BYTES_MAX
from spark_bulk.build.partition_rows import Duplicates, PartitionRows


def partition_rows(duplicates: Duplicates = "error") -> PartitionRows:
    return PartitionRows(PARTITION, PARTITIONS, duplicates=duplicates, key_name="tail", value_name="about")


@given(st.lists(st.tuples(st.binary(min_size=1, max_size=2), st.binary(max_size=3))), st.data())
def test_of_several_rows_of_a_key_the_first_is_kept(rows: list[tuple[bytes, bytes]], data: st.DataObject) -> None:
    """However the rows are cut into batches; the sort has put the one to keep first."""
    rows.sort(key=lambda row: row[0])
    kept = [next(group) for _, group in groupby(rows, key=lambda row: row[0])]
    places = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=5), "cuts"))
    taker = partition_rows("last")
    assert taker.take(mark()) is None
    found: list[Row] = []
    for begin, end in zip([0, *places], [*places, len(rows)], strict=True):
        taken = taker.take(rows_batch(rows[begin:end]))
        if taken is not None:
            assert len(taken.keys) > 0
            found += zip(taken.keys.to_pylist(), taken.values.to_pylist(), strict=True)
    taker.finish()
    assert found == kept
    assert (taker.rows, taker.dropped) == (len(rows), len(rows) - len(kept))


def test_duplicates_are_an_error_unless_a_rule_is_given() -> None:
    taker = partition_rows()
    with pytest.raises(InvalidRequest, match=r"the key column tail has b'b' more than once: keep one row of each key"):
        taker.take(rows_batch([(b"a", b""), (b"b", b"1"), (b"b", b"2")]))
    taker = partition_rows()
    taker.take(rows_batch([(b"a", b"")]))
    with pytest.raises(InvalidRequest, match=r"the key column tail has b'a' more than once"):
        taker.take(rows_batch([(b"a", b"")]))


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        ([(None, b"who"), (b"a", b"")], InvalidKey, "column tail is null in 1 rows or more; .* the value b'who'"),
        ([(None, None), (None, b"x")], InvalidKey, "column tail is null in 2 rows or more; .* the value null"),
        ([(b"", b"")], InvalidKey, "column tail has b'' with 0 bytes; .* fill it in"),
        ([(b"", b""), (b"", b"")], InvalidKey, "column tail has b'' with 0 bytes; .* fill it in"),
        ([(b"a", b""), (b"k" * 512, b"")], InvalidKey, "column tail has b'k{40}'… with 512 bytes; .* hash what is lon"),
        ([(b"a", b""), (b"b", None)], InvalidValue, "column about is null for the key b'b'"),
        ([(b"a", b"v" * (VALUE_BYTES_MAX + 1))], InvalidValue, "about has 4194305 bytes for the key b'a'"),
    ],
    ids=["null key", "null keys", "empty key", "empty keys", "long key", "null value", "long value"],
)
@pytest.mark.parametrize("duplicates", ["error", "last"])
def test_what_no_table_can_hold_is_refused_with_its_column(
    rows: list[Row], error: type[InvalidRequest], message: str, duplicates: Duplicates
) -> None:
    with pytest.raises(error, match=message):
        partition_rows(duplicates).take(rows_batch(rows))


def test_a_null_key_is_distinguished_from_the_mark() -> None:
    taker = partition_rows()
    batch = rows_batch([(None, None), (None, b"x"), (b"a", b"")], places=[PARTITION + PARTITIONS, PARTITION, PARTITION])
    with pytest.raises(InvalidKey, match=r"is null in 1 rows or more; .* the value b'x'"):
        taker.take(batch)


def test_versions_and_expiries_pass() -> None:
    taker = partition_rows()
    taken = taker.take(rows_batch([(b"a", b""), (b"b", b"")], versions=[7, 0], expires_at_ms=[None, 5]))
    assert taken is not None
    assert (taken.versions, taken.expires_at_ms) == ([7, 0], [0, 5])
    taken = taker.take(rows_batch([(b"c", b"")], versions=[0], expires_at_ms=[None]))
    assert taken is not None
    assert (taken.versions, taken.expires_at_ms) == ([0], None)
    with pytest.raises(InvalidValue, match="the row of the key b'e' expires at -5 ms"):
        taker.take(rows_batch([(b"d", b""), (b"e", b"")], expires_at_ms=[1, -5]))


@pytest.mark.parametrize("marks", [0, 2])
def test_a_task_with_another_number_of_partitions_than_one_is_our_bug(marks: int) -> None:
    taker = partition_rows()
    for _ in range(marks):
        taker.take(mark())
    with pytest.raises(AssertionError, match=f"partition 2 was given {marks} marks"):
        taker.finish()


def test_rows_of_another_partition_are_our_bug() -> None:
    with pytest.raises(AssertionError, match=r"rows of partitions .*3.* in partition 2"):
        partition_rows().take(rows_batch([(b"a", b""), (b"b", b"")], places=[PARTITION, 3]))
    with pytest.raises(AssertionError, match="mark 7 in partition 2"):
        partition_rows().take(mark(3))
