"""The checksum over exported rows: what it does not depend on, and what it does."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_bulk.export.row_checksum import RowCount, RowTally, hashed_batch, hashed_rows

TIME = pa.timestamp("us", "UTC")
TEXT = st.text(max_size=5)
ROWS = st.lists(st.tuples(TEXT, TEXT, st.integers(0, 2**55), st.none() | st.integers(1, 2**40)), max_size=12)

Row = tuple[Any, Any, int, int | None]


def content(rows: list[Row], kind: pa.DataType) -> pa.RecordBatch:
    def column(texts: list[Any]) -> list[Any]:
        return [each.encode() for each in texts] if kind == pa.binary() else texts

    return pa.RecordBatch.from_arrays(
        [
            pa.array(column([each[0] for each in rows]), kind),
            pa.array(column([each[1] for each in rows]), kind),
            pa.array([each[2] for each in rows], pa.int64()),
            pa.array([None if each[3] is None else each[3] * 1000 for each in rows], pa.int64()).cast(TIME),
        ],
        names=["key", "value", "version", "expires_at"],
    )


def counted(*batches: pa.RecordBatch) -> RowCount:
    tally = RowTally()
    assert list(tally.passing(batches)) == list(batches)
    return tally.count


@given(ROWS, st.randoms(), st.integers(0, 12))
def test_order_splits_and_form_change_nothing(rows: list[Row], random: Any, cut: int) -> None:
    whole = counted(content(rows, pa.binary()))
    random.shuffle(rows)
    assert counted(content(rows[:cut], pa.string()), content(rows[cut:], pa.binary())) == whole
    assert whole.rows == len(rows)


@given(ROWS, ROWS)
def test_other_rows_have_another_checksum(one: list[Row], other: list[Row]) -> None:
    same = sorted(map(repr, one)) == sorted(map(repr, other))
    assert (counted(content(one, pa.binary())) == counted(content(other, pa.binary()))) is same


def test_a_row_that_comes_twice_is_not_one_that_is_missing() -> None:
    row: Row = ("a", "1", 4, None)
    assert len({counted(content([row] * times, pa.binary())).checksum for times in range(4)}) == 4


def test_the_bytes_that_are_hashed_are_frozen() -> None:
    """As docs/FORMATS.md has them: what a manifest says must be found again by every later version."""
    rows = hashed_batch(content([("k", "v", 7, None), ("k2", "", 8, 1_700_000_000_123)], pa.string()))
    assert rows.keys == [b"k", b"k2"]
    assert [f"{each:016x}" for each in rows.hashes.tolist()] == ["423ec43f420efb72", "39daf6deace150a3"]
    changes = pa.RecordBatch.from_arrays(
        [
            pa.array([7, 8], pa.int64()),
            pa.array([1_700_000_000_123_000] * 2, pa.int64()).cast(TIME),
            pa.array(["put", "delete"]),
            pa.array([b"k", b"k"]),
            pa.array([b"", None], pa.binary()),
        ],
        names=["offset", "timestamp", "operation", "key", "value"],
    )
    found = [f"{each:016x}" for each in hashed_batch(changes).hashes.tolist()]
    assert found == ["db63acb17ff4a5d9", "f30344e499dd1284"]


@pytest.mark.parametrize(
    "other",
    [(8, 5, b"k", b"v", b"put"), (7, 6, b"k", b"v", b"put"), (7, 5, b"kv", b"", b"put"), (7, 5, b"k", b"v", b"add"),
     (7, 5, b"k", None, b"put"), (7, 5, b"k", b"", b"put"), (7, 5, b"", b"kv", b"put"), (7, 5, b"tk", b"v", b"pu")],
)  # fmt: skip
def test_every_field_counts(other: tuple[int, int, bytes, bytes | None, bytes]) -> None:
    def hashed(number: int, time_ms: int, key: bytes, value: bytes | None, operation: bytes) -> int:
        return int(hashed_rows([number], [time_ms], [key], [value], [operation]).hashes[0])

    assert hashed(*other) != hashed(7, 5, b"k", b"v", b"put")
