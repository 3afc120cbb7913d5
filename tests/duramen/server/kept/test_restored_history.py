"""What a history shows of the time before its server began: its past, the gap in between, and no rate over it."""

from __future__ import annotations

import json
from array import array

from kit.seen_partitions import seen_partition

from duramen.server.console.history import HOUR_S, WEEK_S, ServerHistory
from duramen.server.console.history_answer import HistoryQuery, HistoryView, history_to_json, look_back
from duramen.server.console.history_ring import HistoryRow, ServerSample

DOWN_S = 600


def past(at_s: float, last: int, *, lag: int = 0, state: int = 0) -> HistoryRow:
    return HistoryRow(
        at_s, (("orders", 0),), array("q", (last,)), array("q", (last - lag,)), bytes((state,)), ServerSample()
    )


def minutes(count: int, *, until_s: float = -DOWN_S) -> list[HistoryRow]:
    """A row a minute, with ten records a second."""
    return [past(until_s - 60.0 * ago, 1_000_000 - 600 * ago) for ago in reversed(range(count))]


def seconds(history: ServerHistory, count: int) -> None:
    for second in range(count):
        history.record(
            second + 0.5, [seen_partition(0, 1_000_000 + 10 * second, 1_000_000 + 10 * second)], ServerSample()
        )


def looked_back(history: ServerHistory, since_s: float, now_s: float) -> HistoryView:
    return look_back(history, HistoryQuery(-since_s), now_s, 1_764_104_400_000)


def test_the_past_is_there_again_with_a_gap_and_no_rate_over_it() -> None:
    history = ServerHistory()
    seconds(history, 121)
    assert history.restore(minutes(30)) == 30
    view = looked_back(history, HOUR_S, 120.5)
    assert view.kept_step_s == 60, "the hour is in the week's steps, until there is an hour of seconds again"

    answer = json.loads(history_to_json(view, HistoryQuery(of=(("orders", 0),))))
    lag, rates = answer["all"]["lag_records"], answer["all"]["written_per_s"]
    known = [value is not None for value in lag]
    first = known.index(True)
    assert known[first:] == [True] * 30 + [False] * (DOWN_S // 60 - 1) + [True] * 3
    assert rates[first + 1 : first + 30] == [10.0] * 29
    assert rates[first + 30 + DOWN_S // 60 - 1] is None, "no rate spans the time when the server was down"
    assert answer["of"][0]["written_per_s"][first + 2] == 10.0


def test_after_an_hour_the_hour_is_in_seconds_again() -> None:
    history = ServerHistory()
    history.restore(minutes(30))
    seconds(history, HOUR_S + 2)
    assert looked_back(history, HOUR_S, HOUR_S + 1.5).kept_step_s == 1
    assert looked_back(history, 5 * HOUR_S, HOUR_S + 1.5).kept_step_s == 60


def test_a_restart_that_nothing_is_known_before_shows_seconds() -> None:
    history = ServerHistory()
    seconds(history, 60)
    assert looked_back(history, HOUR_S, 59.5).kept_step_s == 1


def test_two_routers_write_one_past() -> None:
    """Rows of both in one step are one: the later offsets, the worst state."""
    history = ServerHistory()
    seconds(history, 2)
    one = [past(-120.0 + 60 * minute, 100 * minute) for minute in range(2)]
    other = [past(-90.0 + 60 * minute, 100 * minute + 50, state=6) for minute in range(2)]
    assert history.restore(sorted([*one, *other], key=lambda row: row.at_s)) == 2
    (rows,) = history.week.points(-120, -61, 120)
    assert [(row.last[0], row.states[0]) for row in rows] == [(50, 6), (150, 6)]


def test_what_has_no_room_is_left_out() -> None:
    history = ServerHistory()
    seconds(history, 2)
    rows = [past(-WEEK_S - 120.0, 1), past(-60.0, 2), past(0.2, 3), past(30.0, 4)]
    assert history.restore(rows) == 1
    assert history.restore([]) == 0


def test_a_table_that_was_made_anew_is_not_compared() -> None:
    history = ServerHistory()
    seconds(history, 2)
    history.restore([past(-180.0, 500), past(-120.0, 7), past(-60.0, 8)])
    one, two, three = (history.week.points(at_s, at_s, 60)[0][0] for at_s in (-180, -120, -60))
    assert one.names is not two.names, "its offsets fell"
    assert two.names is three.names
