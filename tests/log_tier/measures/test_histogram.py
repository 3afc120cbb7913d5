"""Histograms, against a count by hand."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from log_tier.measures.histogram import BYTES, LONG_SECONDS, SECONDS, Histogram


@given(st.lists(st.floats(0, 20, allow_nan=False)))
def test_each_bound_counts_what_is_at_most_as_large(values: list[float]) -> None:
    histogram = Histogram(SECONDS)
    for value in values:
        histogram.observe(value)
    bounds, counts, total = histogram.read()
    assert counts == tuple(sum(value <= bound for value in values) for bound in (*bounds, math.inf))
    assert math.isclose(total, math.fsum(values), abs_tol=1e-9)


def test_a_value_on_a_bound_belongs_to_it() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.0, 1.0, 1.5, 2.0, 2.1):
        histogram.observe(value)
    assert histogram.counts == [2, 2, 1]
    assert histogram.read().counts == (2, 4, 5)


def test_what_was_read_does_not_change() -> None:
    histogram = Histogram(BYTES)
    before = histogram.read()
    histogram.observe(1)
    assert before.counts[-1] == 0
    assert histogram.read().counts[-1] == 1
    assert histogram.read().bounds == BYTES
    assert Histogram(LONG_SECONDS).read().total == 0
