"""What documents say together: rates, trends, restarts, and how much of them is kept."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.client.status_documents import disk, document, log, partition

from duramen.server.sight.status_history import DISK_WINDOW_S, WINDOW_S, LogRates, StatusHistory


def test_one_document_has_no_rates() -> None:
    history = StatusHistory()
    assert (history.partitions(), history.log_rates(), history.disk_full_in_s()) == ([], None, None)
    history.add(document(partition(0, last=9, applied=9), log=log(1, 2, 3), disk=disk(5)), 50.0)
    (found,) = history.partitions()
    assert (found.written_per_s, found.applied_per_s, found.lag_per_s) == (None, None, None)
    assert (history.log_rates(), history.disk_full_in_s()) == (None, None)


def test_rates_of_two() -> None:
    history = StatusHistory()
    history.add(document(partition(0, last=100, applied=60), log=log(10, 1000, 4)), 50.0)
    history.add(document(partition(0, last=300, applied=280), log=log(30, 5000, 8), uptime_s=102.0), 52.0)
    (found,) = history.partitions()
    assert (found.written_per_s, found.applied_per_s, found.lag_per_s) == (100.0, 110.0, -10.0)
    assert found.level_in_s == 2.0
    assert history.log_rates() == LogRates(10.0, 2000.0, 2.0)


@pytest.mark.parametrize(("last", "applied", "level"), [(20, 20, 0.0), (40, 10, None), (30, 10, None)])
def test_when_it_is_level(last: int, applied: int, level: float | None) -> None:
    history = StatusHistory()
    history.add(document(partition(0, last=20, applied=0)), 1.0)
    history.add(document(partition(0, last=last, applied=applied), uptime_s=101), 2.0)
    (found,) = history.partitions()
    assert found.level_in_s == level, found


@pytest.mark.parametrize("changed", [{"pid": 8}, {"name": "n2"}, {"uptime_s": 3.0}])
def test_another_process_begins_anew(changed: dict[str, Any]) -> None:
    history = StatusHistory()
    history.add(document(partition(0, last=5, applied=5), log=log(9, 9, 9), disk=disk(900)), 0.0)
    later = {"uptime_s": 161.0} | changed
    history.add(document(partition(0, last=50, applied=50), log=log(1, 1, 1), disk=disk(100), **later), 61.0)
    assert (history.log_rates(), history.disk_full_in_s()) == (None, None)
    assert history.partitions()[0].written_per_s is None


def test_a_table_that_was_dropped_and_made_again_has_no_negative_rate() -> None:
    history = StatusHistory()
    history.add(document(partition(0, last=500, applied=500)), 0.0)
    history.add(document(partition(0, last=3, applied=3), partition(1, last=2, applied=2), uptime_s=101), 1.0)
    assert [each.written_per_s for each in history.partitions()] == [None, None]


def test_when_the_disk_is_full() -> None:
    history = StatusHistory()
    history.add(document(disk=disk(10_000)), 0.0)
    history.add(document(disk=disk(9_000), uptime_s=130.0), 30.0)
    assert history.disk_full_in_s() is None, "half a minute shows no trend"
    history.add(document(disk=disk(8_000), uptime_s=200.0), 100.0)
    assert history.disk_full_in_s() == 400.0
    history.add(document(disk=disk(10_001), uptime_s=201.0), 101.0)
    assert history.disk_full_in_s() is None


def test_what_needs_somebody_stands_first() -> None:
    history = StatusHistory()
    history.add(
        document(
            partition(0, last=9, applied=9),
            partition(1, last=9, applied=5),
            partition(2, last=9, applied=9, state="stopped"),
            partition(3, last=9, applied=9, ready=1, wanted=3),
            partition(4, last=9, applied=1),
        ),
        0.0,
    )
    assert [each.name for each in history.partitions()] == ["orders/2", "orders/3", "orders/4", "orders/1", "orders/0"]


@given(
    st.lists(
        st.tuples(st.floats(0.01, 30.0), st.integers(0, 3), st.integers(0, 10**6), st.integers(0, 10**12)), max_size=60
    )
)
def test_it_is_bounded_and_finite(steps: list[tuple[float, int, int, int]]) -> None:
    history, at, uptime = StatusHistory(), 0.0, 0.0
    for spent, kind, offset, free in steps:
        at, uptime = at + spent, 0.0 if kind == 0 else uptime + spent
        history.add(
            document(partition(0, last=offset, applied=offset // 2), log=log(offset, free, 1), disk=disk(free),
                     uptime_s=uptime),
            at,
        )  # fmt: skip
        assert len(history._samples) <= WINDOW_S / 0.9 + 2
        assert len(history._disk) <= DISK_WINDOW_S / 5 + 2
        (found,) = history.partitions()
        assert found.written_per_s is None or found.written_per_s >= 0
        full = history.disk_full_in_s()
        assert full is None or 0 <= full < float("inf")
