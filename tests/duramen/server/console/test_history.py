"""The hour and the week that a server remembers: gaps, worst and last of a step, and memory with many partitions."""

from __future__ import annotations

import itertools
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.seen_partitions import seen_partition, seen_partitions

from duramen.server.console.history import GRAINS, HOUR_S, LOOKS_PER_S, WEEK_S, ServerHistory, grain_of
from duramen.server.console.history_ring import ROW_BYTES, STATES, HistoryRing, HistoryRow, ServerSample

HELD_MAX = 48_000_000


def remembered(history: ServerHistory, at_s: float, last: int, *, state: str = "ready", **facts: float) -> None:
    history.record(at_s, [seen_partition(0, last, last, state=state)], ServerSample(**facts))  # type: ignore[arg-type]


def newest(history: ServerHistory) -> HistoryRow:
    (rows,) = history.hour.points(HOUR_S * 2.0, HOUR_S * 2.0, HOUR_S * 4)
    return rows[-1]


def test_what_was_not_observed_is_a_gap() -> None:
    history = ServerHistory()
    for at_s in (0.5, 1.5, 4.5):
        remembered(history, at_s, int(at_s))
    found = history.hour.points(0, 5, 1)
    assert [[row.last[0] for row in rows] for rows in found] == [[0], [1], [], [], [4], []]


def test_one_row_for_each_step() -> None:
    history = ServerHistory()
    remembered(history, 3.1, 7, state="stopped", sync_p99_s=0.5, queue_age_s=2.0, disk_free_bytes=10, ready=False)
    remembered(history, 3.9, 9, sync_p99_s=0.1, disk_free_bytes=8, ready=True)
    assert len(history.hour) == 1
    row = newest(history)
    assert (row.last[0], STATES[row.states[0]]) == (9, "stopped"), "the last offset, the worst state"
    assert row.server == ServerSample(0.5, 2.0, 8, False)


def test_an_hour_and_a_week_are_kept() -> None:
    history = ServerHistory()
    for minute in range(8 * 24 * 60):
        remembered(history, minute * 60.0, minute)
    assert len(history.hour) == 61
    assert len(history.week) == WEEK_S // 60 + 1
    for second in range(2 * HOUR_S):
        remembered(history, 8 * 24 * 3600.0 + second, second)
    assert len(history.hour) == HOUR_S + 1


@pytest.mark.parametrize("grain", GRAINS, ids=lambda grain: str(grain.partitions_max))
def test_memory_is_bounded_whatever_the_number_of_partitions(grain: tuple[int, int, int]) -> None:
    partitions_max, fine_s, coarse_s = grain
    rows = HOUR_S // fine_s + 1 + WEEK_S // coarse_s + 1
    assert rows * partitions_max * ROW_BYTES <= HELD_MAX
    assert partitions_max / fine_s <= LOOKS_PER_S, "looks while nobody asks"
    assert coarse_s % fine_s == 0


def test_a_thousand_partitions() -> None:
    """An hour at five seconds, a week at five minutes: 47 kB for each partition, measured in rows that are there."""
    history, partitions = ServerHistory(), seen_partitions(1_000)
    for step in range(WEEK_S // 300):
        history.record(step * 300.0, partitions, ServerSample())
    for step in range(HOUR_S // 5):
        history.record(WEEK_S + step * 5.0, partitions, ServerSample())
    assert (len(history.hour), len(history.week)) == (HOUR_S // 5, WEEK_S // 300)
    assert 45_000_000 < history.held_bytes <= HELD_MAX
    names = {id(row.names) for rows in history.week.points(0, WEEK_S * 2, 300) for row in rows}
    assert len(names) == 1, "names are kept once"


def test_more_partitions_coarsen_what_is_there() -> None:
    history = ServerHistory()
    for second in range(HOUR_S):
        history.record(second, seen_partitions(2), ServerSample())
    history.record(HOUR_S, seen_partitions(201), ServerSample())
    assert history.grain == grain_of(201)
    assert len(history.hour) == HOUR_S // 5 + 1
    assert [len(rows) for rows in history.hour.points(0, HOUR_S - 1, 5)] == [1] * (HOUR_S // 5)
    history.record(HOUR_S + 1, seen_partitions(200), ServerSample())
    assert history.grain == GRAINS[0]
    assert len(history.hour) == HOUR_S // 5 + 2, "what is gone does not come back"


def test_beyond_all_grains_the_first_partitions_are_kept() -> None:
    history = ServerHistory()
    history.record(0.0, seen_partitions(60_010), ServerSample())
    assert history.partitions == 60_000


def test_rows_are_compared_only_where_no_offset_fell() -> None:
    history = ServerHistory()
    names = []
    for at_s, last in enumerate((5, 6, 6, 2, 3)):  # a table was dropped and made again
        remembered(history, float(at_s), last)
        names.append(newest(history).names)
    assert [one is other for one, other in itertools.pairwise(names)] == [True, True, False, True]
    history.record(9.0, seen_partitions(2), ServerSample())
    assert newest(history).names[0] is names[-1][0], "a name is held once, whatever comes and goes"


def test_since_when_a_partition_is_in_its_state() -> None:
    history = ServerHistory()
    assert history.state_since("orders", 0) is None
    for at_s, state in enumerate(("ready", "ready", "stopped", "stopped", "ready")):
        remembered(history, float(at_s), 1, state=state)
        assert history.state_since("orders", 0) == (None, None, 2.0, 2.0, 4.0)[at_s], at_s
    history.record(9.0, seen_partitions(2), ServerSample())
    assert [history.state_since("orders", each) for each in (0, 1, 2)] == [4.0, 9.0, None]


def test_a_state_that_is_not_known_is_kept_as_such() -> None:
    history = ServerHistory()
    remembered(history, 0.0, 1, state="hibernating")
    assert STATES[newest(history).states[0]] == "unknown"


@given(
    st.lists(st.floats(min_value=0, max_value=200), max_size=60),
    st.integers(1, 9),
    st.integers(1, 60),
    st.sampled_from((1, 2, 5)),
)
def test_a_ring_is_a_bounded_list(pauses: list[float], step_s: int, span_s: int, factor: int) -> None:
    ring, model, at_s = HistoryRing(step_s=step_s, span_s=span_s), dict[int, HistoryRow](), 0.0
    for pause in pauses:
        at_s += pause
        row = HistoryRow(at_s, (), array_of(), array_of(), b"", ServerSample())
        ring.record(row)
        model[int(at_s // step_s)] = row
        model = {step: kept for step, kept in model.items() if at_s - kept.at_s <= span_s}
    assert len(ring) <= span_s // step_s + 2
    found = ring.points(0, at_s, step_s * factor)
    assert len(found) == int(at_s // (step_s * factor)) + 1
    assert [row.at_s for rows in found for row in rows] == [row.at_s for row in model.values()]
    for place, rows in enumerate(found):
        assert all(int(row.at_s // (step_s * factor)) == place for row in rows)


def array_of() -> array[int]:
    return array("q")
