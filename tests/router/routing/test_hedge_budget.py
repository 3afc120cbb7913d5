"""When a reply is late, and how often it may be asked for twice."""

from __future__ import annotations

import pytest

from router.routing.hedge_budget import Budget, Lateness


def test_nothing_is_known_at_first() -> None:
    assert Lateness().late_s == 0.05


def test_late_is_what_is_later_than_nearly_all() -> None:
    lateness = Lateness()
    for number in range(512):
        lateness.took(0.2 if number % 20 == 0 else 0.05)
    assert lateness.late_s == 0.2, "a twentieth is not nearly none"
    for number in range(512):
        lateness.took(0.2 if number % 200 == 0 else 0.03)
    assert lateness.late_s == 0.03


def test_below_the_floor_nothing_is_late() -> None:
    lateness = Lateness()
    for _ in range(64):
        lateness.took(0.0005)
    assert lateness.late_s == 0.01


def test_it_follows_a_cluster_that_became_slow_and_fast_again() -> None:
    lateness = Lateness()
    for _ in range(512):
        lateness.took(0.001)
    for _ in range(64):
        lateness.took(0.5)
    assert lateness.late_s == 0.5, "more than a hundredth of the last ones is slow: that is how it is"
    for _ in range(512):
        lateness.took(0.001)
    assert lateness.late_s == 0.01


@pytest.mark.parametrize("requests", [0, 100, 1000])
def test_a_share_of_the_requests_and_no_more(requests: int) -> None:
    budget = Budget(share=0.05, most=10)
    while budget.spend():
        pass
    spent = 0
    for _ in range(requests):
        budget.earn()
        spent += budget.spend()
    assert abs(spent - requests * 0.05) <= 1


def test_what_is_not_spent_is_kept_up_to_a_bound() -> None:
    budget = Budget(share=0.05, most=10)
    for _ in range(10_000):
        budget.earn()
    assert sum(budget.spend() for _ in range(100)) == 10
