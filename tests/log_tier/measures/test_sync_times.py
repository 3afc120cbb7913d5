"""The times of commits lately, from a histogram that only grows."""

from __future__ import annotations

import pytest

from log_tier.measures.histogram import Histogram, quantile_between
from log_tier.measures.sync_times import SyncTimes


def test_a_share_of_what_was_counted_between_two_readings() -> None:
    histogram = Histogram((1.0, 2.0, 4.0))
    histogram.observe(0.5)
    before = histogram.read()
    assert quantile_between(before, before, 0.99) is None
    for _ in range(100):
        histogram.observe(3.0)
    assert quantile_between(before, histogram.read(), 0.5) == pytest.approx(3.0)
    assert quantile_between(before, histogram.read(), 0.99) == pytest.approx(3.98)
    for _ in range(900):
        histogram.observe(99.0)
    assert quantile_between(before, histogram.read(), 0.99) == 4.0, "no more is known than the last bound"
    assert quantile_between(before, histogram.read(), 0.05) == pytest.approx(3.0)


def test_the_last_ten_seconds_count() -> None:
    times, histogram = SyncTimes(), Histogram((1.0, 2.0, 4.0))
    histogram.observe(3.0)
    assert times.p99(0.0, histogram.read()) is None, "what was before the first reading is not lately"
    histogram.observe(0.5)
    assert times.p99(1.0, histogram.read()) == pytest.approx(0.99)
    for second in range(2, 12):
        assert (times.p99(float(second), histogram.read()) is None) == (second > 10), second
    histogram.observe(1.5)
    assert times.p99(60.0, histogram.read()) == pytest.approx(1.99), "since the reading before, however long ago"


def test_who_asks_without_end_costs_no_memory() -> None:
    times, histogram = SyncTimes(), Histogram((1.0, 2.0, 4.0))
    for turn in range(10_000):
        histogram.observe(1.5)
        found = times.p99(turn / 1000, histogram.read())
        assert turn == 0 or found == pytest.approx(1.99, abs=0.01)
    assert len(times._readings) <= 21


def test_without_a_log_nothing_is_known() -> None:
    assert SyncTimes().p99(0.0, None) is None
