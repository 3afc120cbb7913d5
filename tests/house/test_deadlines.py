"""A wait that fails says what it waited for, with the values at that time."""

from __future__ import annotations

from functools import partial

import pytest
from kit.deadlines import until, until_true, wait_until


async def test_until_names_the_condition_and_its_values() -> None:
    seen = [1]
    with pytest.raises(
        AssertionError, match=r"until\(lambda: seen == \[2\].*test_deadlines\.py:\d+\), where seen=\[1\]"
    ):
        await until(lambda: seen == [2], seconds=0.0)


async def test_until_true_names_the_function() -> None:
    async def is_there() -> bool:
        return False

    with pytest.raises(AssertionError, match=r"async def is_there.*test_deadlines\.py"):
        await until_true(is_there, seconds=0.0)


def test_wait_until_says_what_and_the_values() -> None:
    count = 3
    with pytest.raises(AssertionError, match=r"still not: four are there: .*count == 4.* where count=3"):
        wait_until(lambda: count == 4, "four are there", seconds=0.0)


def test_a_partial_is_named_with_its_arguments() -> None:
    def reached(count: int, least: int) -> bool:
        return count >= least

    with pytest.raises(AssertionError, match=r"def reached.*, with \(1, 2\)"):
        wait_until(partial(reached, 1, 2), seconds=0.0)


def test_a_value_that_is_not_bound_yet_is_no_failure_of_its_own() -> None:
    never = False
    with pytest.raises(AssertionError, match=r"still not.*where never=False$"):
        wait_until(lambda: never and later, seconds=0.0)
    later = True
