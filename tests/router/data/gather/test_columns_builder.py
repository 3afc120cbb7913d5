"""The columns of a batch in the making: whatever is added, in whatever order, each column fits the keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from log_tier.model.batch import Columns
from log_tier.model.record import PLAIN_PUT, Condition, Operation
from router.data.gather.columns_builder import ColumnsBuilder, joined, one_record

_Step = str | int | tuple[Operation, int, int]

_RECORDS: Final = st.lists(
    st.one_of(
        st.just("put"),
        st.integers(0, 3),
        st.tuples(st.sampled_from(Operation), st.integers(0, 2), st.integers(0, 2)),
    ),
    max_size=12,
)
"""A plain put; so many of them at once; a record with an operation, a version or none, and a time to live or none."""


@given(_RECORDS)
def test_the_columns_are_those_of_the_records_one_by_one(
    steps: Sequence[_Step],
) -> None:
    builder = ColumnsBuilder()
    expected: list[tuple[bytes, bytes, int, int, int]] = []
    for number, step in enumerate(steps):
        key, value = b"key%d" % number, b"value%d" % number
        start = len(expected)
        if isinstance(step, str):
            builder.put(key, value)
            expected.append((key, value, PLAIN_PUT, 0, 0))
        elif isinstance(step, int):
            assert builder.put_all([key] * step, [value] * step) == start
            expected += [(key, value, PLAIN_PUT, 0, 0)] * step
        else:
            operation, version, ttl_ms = step
            condition = Condition.VERSION if version else Condition.NONE
            record = one_record(operation, key, value, condition=condition, version=version, ttl_ms=ttl_ms)
            assert builder.add(record) == start
            attribute = PLAIN_PUT if record.attributes is None else record.attributes[0]
            expected.append((key, value, attribute, version, ttl_ms))
    columns = builder.columns()
    assert list(columns.keys) == [each[0] for each in expected]
    assert list(columns.values) == [each[1] for each in expected]
    for column, place, default in (
        (columns.attributes, 2, PLAIN_PUT),
        (columns.versions, 3, 0),
        (columns.expiries, 4, 0),
    ):
        wanted = [each[place] for each in expected]
        assert (column is None and set(wanted) <= {default}) or column == wanted


def test_records_that_are_joined_bring_their_columns() -> None:
    plain, conditional = one_record(Operation.PUT, b"a", b"1"), Columns([b"b"], [b"2"], [7], [5], None)
    assert joined([plain, plain]) == Columns([b"a", b"a"], [b"1", b"1"], None, None, None)
    assert joined([plain, conditional]) == Columns([b"a", b"b"], [b"1", b"2"], [PLAIN_PUT, 7], [0, 5], None)
