"""The numbers that the benchmark's report is made of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.statistics import Spread, differences, quantile, ratios

_MEASURED = st.floats(min_value=1e-6, max_value=1e12)


def test_quantile_is_the_nearest_rank() -> None:
    hundred = list(range(1, 101))
    assert quantile(hundred, 0.5) == 50
    assert quantile(hundred, 0.99) == 99
    assert quantile(hundred, 0.999) == 100
    assert quantile(hundred, 1) == 100
    # 0.07 * 100 is 7.000000000000001 in binary; the rank is 7 all the same.
    assert quantile(hundred, 0.07) == 7
    assert quantile([3.0], 0.001) == 3.0


@given(st.lists(_MEASURED, min_size=1), st.floats(min_value=0.001, max_value=1))
def test_quantile_is_the_smallest_value_with_that_share_at_or_below(values: list[float], q: float) -> None:
    values.sort()
    found = quantile(values, q)
    assert sum(value <= found for value in values) >= q * len(values) - 1e-6
    assert sum(value < found for value in values) < q * len(values)


@pytest.mark.parametrize(("values", "q"), [([], 0.5), ([1.0], 0), ([1.0], 1.01), ([1.0], -0.5)])
def test_quantile_refuses_what_has_no_answer(values: list[float], q: float) -> None:
    with pytest.raises(ValueError, match=r"no values|a quantile lies"):
        quantile(values, q)


def test_spread_of_odd_and_even_counts() -> None:
    assert Spread.of([5, 1, 9]) == Spread(median=5, low=1, high=9)
    assert Spread.of([4, 1, 9, 2]) == Spread(median=3, low=1, high=9)
    assert Spread.of([7]) == Spread(median=7, low=7, high=7)
    with pytest.raises(ValueError, match="no values"):
        Spread.of([])


@given(st.lists(_MEASURED, min_size=1))
def test_spread_is_ordered(values: list[float]) -> None:
    spread = Spread.of(values)
    assert spread.low <= spread.median <= spread.high


def test_ratios_are_made_inside_a_round() -> None:
    # A machine twice as slow in the second round: the ratio is the same; the ratio of the medians would differ.
    assert ratios([100, 50, 120], [10, 5, 10]) == [10, 10, 12]


def test_a_round_in_which_one_side_failed_has_no_ratio() -> None:
    assert ratios([100, None, 120], [10, 5, None]) == [10]
    assert ratios([None], [None]) == []


def test_ratios_refuse_unpaired_and_impossible_measurements() -> None:
    with pytest.raises(ValueError, match="2 rounds cannot be paired with 1"):
        ratios([1, 2], [1])
    with pytest.raises(ValueError, match="above zero"):
        ratios([1.0], [0.0])


def test_differences_are_made_inside_a_round() -> None:
    assert differences([10, None, 3], [4, 5, 7]) == [6, -4]
    with pytest.raises(ValueError, match="2 rounds cannot be paired with 1"):
        differences([1, 2], [1])
