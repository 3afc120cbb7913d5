"""How far behind a replica is: from what it heard, when, and what it has applied."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from log_tier.model.identifiers import NOTHING, Offset
from serving_tier.replica.lag import UNHEARD_S, Lag, LagBounds, LastLook, lag_event
from serving_tier.replica.machine import ReplicaState, step


def at(number: int) -> Offset:
    return Offset(number)


def test_level_is_no_lag_for_ever_where_nobody_asks() -> None:
    lag = Lag(latest=at(5), applied=at(5), now=100.0)
    assert lag.seconds(100.0) == 0.0
    assert lag.seconds(10_000.0) == 0.0
    assert lag.stale(103.0) == 3.0, "it may be as old as the last answer"


def test_it_counts_from_when_an_end_was_first_heard_of() -> None:
    lag = Lag(latest=at(5), applied=at(5), now=0.0)
    lag.tell(at(9), at(5), 10.0)
    lag.tell(at(9), at(5), 11.0)
    assert lag.seconds(12.0) == 2.0
    lag.advance(at(8))
    assert lag.seconds(12.0) == 2.0
    lag.advance(at(9))
    assert lag.seconds(12.0) == 0.0


def test_under_a_steady_stream_it_is_the_age_of_the_oldest_that_is_missing() -> None:
    """A replica that is always a little behind never is level, and is not further and further behind."""
    lag = Lag(latest=at(0), applied=at(0), now=0.0)
    for second in range(1, 100):
        lag.tell(at(second * 10), at(second * 10 - 10), float(second))
        assert lag.seconds(second + 0.5) == 0.5
        lag.advance(at(second * 10 - 5))
        assert lag.seconds(second + 0.5) == 0.5
        lag.advance(at(second * 10))


def test_one_that_is_opened_far_behind_counts_from_there() -> None:
    lag = Lag(latest=at(1_000_000), applied=NOTHING, now=50.0)
    assert lag.seconds(53.0) == 3.0


def test_without_answers_it_counts_on() -> None:
    lag = Lag(latest=at(5), applied=at(5), now=0.0)
    lag.watch()
    assert lag.seconds(UNHEARD_S) == 0.0
    assert lag.seconds(UNHEARD_S + 1) == UNHEARD_S + 1
    lag.answer(at(5), at(5), asked_s=10.0, now=10.1)
    assert lag.seconds(11.0) == 0.0
    assert lag.stale(11.0) == 1.0


def test_what_was_missed_while_the_log_was_away_does_not_count_as_new() -> None:
    lag = Lag(latest=at(5), applied=at(5), now=0.0)
    lag.watch()
    lag.answer(at(500), at(5), asked_s=30.0, now=30.0)
    assert lag.seconds(30.0) == 30.0
    assert lag.stale(30.0) == 30.0
    lag.advance(at(500))
    assert lag.seconds(30.0) == 0.0
    assert lag.stale(30.0) == 0.0


def test_a_chunk_that_waited_in_a_buffer_is_no_answer() -> None:
    """A process that was paused finds old chunks first: they say nothing about now."""
    lag = Lag(latest=at(5), applied=at(5), now=0.0)
    lag.watch()
    lag.tell(at(9), at(5), 60.0)
    lag.advance(at(9))
    assert lag.seconds(60.0) == 60.0


def test_an_hour_behind_keeps_few_marks() -> None:
    lag = Lag(latest=at(0), applied=at(0), now=0.0)
    for tick in range(1, 36_001):
        lag.tell(at(tick), at(0), tick / 10)
    assert len(lag._marks) < 400
    lag.advance(at(18_000))
    assert 1800 <= lag.seconds(3600.0) < 1800 * (1 + 1 / 16), "joined marks keep the older time"


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 60), st.floats(0, 3), st.booleans()), max_size=60))
@example([(20, 0, 0.0, False), (28, 0, 2.0, False), (1, 48, 0.0625, False)])
def test_against_a_list_of_everything_heard(steps: list[tuple[int, int, float, bool]]) -> None:
    """Never less than the exact lag, and more by a 32nd of the widest so far at most, which is how far apart marks are
    that were made then; stale is never less than what was asked.
    """
    lag, now, latest, applied = Lag(latest=at(0), applied=at(0), now=0.0), 0.0, 0, 0
    widest = 0.0
    heard: list[tuple[int, float]] = [(0, 0.0)]
    answers: list[tuple[int, float]] = [(0, 0.0)]
    for grow, apply, wait, asked in steps:
        now += wait
        latest += grow
        if asked:
            lag.answer(at(latest), at(applied), asked_s=now, now=now)
            answers.append((latest, now))
        else:
            lag.tell(at(latest), at(applied), now)
        heard.append((latest, now))
        widest = max(widest, lag.seconds(now))
        applied = min(latest, applied + apply)
        lag.advance(at(applied))
        exact = now - min((time for end, time in heard if end > applied), default=now)
        assert exact <= lag.seconds(now) <= exact + widest / 32 + 0.021
        assert (lag.seconds(now) == 0.0) or applied < latest
        level_s = max(time for end, time in answers if end <= applied)
        assert lag.stale(now) >= now - level_s - 1e-9
        lag.check(at(applied))


BOUNDS = LagBounds(ready_max_s=1.0, behind_max_s=5.0)


@pytest.mark.parametrize(
    ("state", "replayed", "lag_s", "then"),
    [
        ("replaying", False, 0.0, "replaying"),
        ("replaying", False, 5.1, "replaying"),
        ("replaying", True, 1.1, "replaying"),
        ("replaying", True, 1.0, "ready"),
        ("ready", True, 5.0, "ready"),
        ("ready", True, 5.1, "behind"),
        ("behind", True, 1.1, "behind"),
        ("behind", True, 1.0, "ready"),
        ("stopped", True, 0.0, "stopped"),
        ("closed", True, 0.0, "closed"),
    ],
)
def test_states(state: ReplicaState, replayed: bool, lag_s: float, then: str) -> None:
    assert step(state, lag_event(replayed=replayed, lag_s=lag_s, bounds=BOUNDS))[0] == then


def test_a_log_that_says_what_moves_is_asked_once_for_all_that_did_not() -> None:
    lag, look = Lag(latest=at(5), applied=at(5), now=0.0), LastLook(0.0)
    lag.watch()
    assert lag.confirm(at(5), asked_s=1.0, look=look)
    look.asked_s = 100.0
    assert (lag.seconds(101.0), lag.stale(101.0)) == (0.0, 1.0)
    lag.tell(at(9), at(5), 101.5)
    assert (lag.seconds(102.0), lag.stale(102.0)) == (0.5, 2.0), "it was level at the last look"
    lag.leave_look()
    look.asked_s = 110.0
    assert (lag.seconds(111.0), lag.stale(111.0)) == (11.0, 11.0), "what is known of the others says nothing of it"
    lag.advance(at(9))
    assert lag.confirm(at(9), asked_s=111.0, look=look)
    assert lag.stale(111.0) == 0.0


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.floats(0, 3), st.booleans()), max_size=60))
def test_looks_never_make_a_state_look_younger_than_it_is(steps: list[tuple[int, int, float, bool]]) -> None:
    lag, look = Lag(latest=at(0), applied=at(0), now=0.0), LastLook(0.0)
    lag.watch()
    now, end, applied, moved, level = 0.0, 0, 0, False, False
    answers: list[tuple[int, float]] = [(0, 0.0)]
    for grow, apply, wait, looked in steps:
        now += wait
        end, moved = end + grow, moved or grow > 0
        if apply:  # a chunk brings what there is, and some of it is applied
            lag.tell(at(end), at(applied), now)
            applied = min(end, applied + apply)
            lag.advance(at(applied))
        if looked:
            answers.append((end, now))
            if level and moved:
                lag.leave_look()
                level = False
            moved = False
            if not level:
                level = lag.confirm(at(end), asked_s=now, look=look)
                if not level:
                    lag.answer(at(end), at(applied), asked_s=now, now=now)
            look.asked_s = now
        assert lag.stale(now) >= now - max(time for known, time in answers if known <= applied) - 1e-9
        lag.check(at(applied))


def test_an_end_that_is_applied_already_is_no_lag() -> None:
    """A chunk may be applied before its end is reported: then nothing is missing, now or later."""
    lag = Lag(latest=at(5), applied=at(5), now=0.0)
    lag.tell(at(9), at(9), 10.0)
    assert (lag.latest, lag.seconds(60.0)) == (9, 0.0)
    lag.tell(at(10), at(9), 70.0)
    assert lag.seconds(71.0) == 1.0
