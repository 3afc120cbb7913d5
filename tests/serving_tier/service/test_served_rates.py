"""Rates of what replicas serve, from counters that the test moves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from log_tier.model.identifiers import Partition, PartitionId, TableId
from serving_tier.service.served_rates import ServedRates

NAME = PartitionId(TableId("flights".ljust(22, "x")), Partition(0))


def replica(applied: int = -1) -> Any:
    return SimpleNamespace(index=SimpleNamespace(applied=applied), progress=SimpleNamespace(served=0))


def test_reads_and_records_count_alike_and_the_rate_comes_near_to_what_is_served() -> None:
    rates, one = ServedRates(), replica()
    rates.measure({NAME: one}, 1000.0)
    assert rates.of(NAME) == 0
    seen = []
    for second in range(5, 605, 5):
        one.index.applied += 2500
        one.progress.served += 2500
        rates.measure({NAME: one}, 1000.0 + second)
        seen.append(rates.of(NAME))
    assert seen == sorted(seen)
    assert seen[0] == 80
    assert seen[11] == pytest.approx(630, rel=0.05)
    assert seen[-1] == 1000
    assert rates.reads_of(NAME) == 500, "the other half are records"


def test_a_burst_makes_nobody_hot_and_is_forgotten() -> None:
    rates, one = ServedRates(), replica()
    rates.measure({NAME: one}, 0.0)
    one.progress.served += 50_000
    rates.measure({NAME: one}, 5.0)
    assert rates.of(NAME) == 800
    for second in range(10, 900, 5):
        rates.measure({NAME: one}, float(second))
    assert rates.of(NAME) == 0


def test_what_an_index_came_with_was_not_served_here() -> None:
    rates, one = ServedRates(), replica(applied=10_000_000)
    rates.measure({NAME: one}, 0.0)
    rates.measure({NAME: one}, 5.0)
    assert rates.of(NAME) == 0
    other = replica(applied=20_000_000)  # opened again
    rates.measure({NAME: other}, 10.0)
    assert rates.of(NAME) == 0
    other.index.applied = 5  # another version of the table, which begins anew
    rates.measure({NAME: other}, 15.0)
    assert rates.of(NAME) == 0
    rates.measure({}, 20.0)
    assert rates.of(NAME) == 0
