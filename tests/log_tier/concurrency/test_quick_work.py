"""Which work an event loop may do itself: what has lately been quick without exception."""

from __future__ import annotations

from log_tier.concurrency.workers import QuickWork

WARM_UP = 8


def test_work_of_which_nothing_is_known_is_slow() -> None:
    work = QuickWork(0.0005)
    for _ in range(WARM_UP):
        assert not work.is_quick
        work.took(0.0001)
    assert work.is_quick


def test_one_slow_time_is_remembered_for_a_while() -> None:
    work = QuickWork(0.0005)
    for _ in range(100):
        work.took(0.0001)
    work.took(0.004)
    for _ in range(64):
        assert not work.is_quick
        work.took(0.0004)
    assert work.is_quick
