"""The rule of freshness, line by line, and that its short form says the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_tier.model.errors import DuramenError, IndexDamaged, LogDamaged, ShuttingDown, TableNotFound
from log_tier.model.identifiers import ANYTHING, NOTHING, Offset, Partition
from router.data.freshness import Freshness, ReadDecision, decide, is_level_within, may_answer, needed_offset

STOPPED = LogDamaged("byte 77")
BUG = DuramenError("stopped by a bug")
DAMAGED = IndexDamaged("page 3")
DROPPED = TableNotFound("dropped")

ANSWER, WAIT, ASK_END = ReadDecision.ANSWER, ReadDecision.WAIT, ReadDecision.ASK_END
LAST_CHOICE, REFUSE = ReadDecision.LAST_CHOICE, ReadDecision.REFUSE

TABLE: list[tuple[int, int, DuramenError | None, bool, int, float, ReadDecision]] = [
    # applied, needed, failure, strong, lag_max_ms, stale_ms
    (7, 7, None, False, 0, 0.0, ANSWER),
    (8, 7, None, False, 0, 0.0, ANSWER),
    (-1, -1, None, False, 0, 0.0, ANSWER),
    (6, 7, None, False, 0, 0.0, WAIT),
    (-1, 0, None, False, 0, 0.0, WAIT),
    (7, 7, None, False, 0, 9_999.0, ANSWER),
    (7, 7, None, False, 100, 99.9, ANSWER),
    (7, 7, None, False, 100, 100.0, ANSWER),
    (7, 7, None, False, 100, 100.1, ASK_END),
    (6, 7, None, False, 100, 99.0, WAIT),
    (6, 7, None, False, 100, 101.0, ASK_END),
    (7, 7, None, True, 0, 0.0, ASK_END),
    (6, 7, None, True, 0, 0.0, ASK_END),
    (7, 7, STOPPED, False, 0, 0.0, LAST_CHOICE),
    (6, 7, STOPPED, False, 0, 0.0, REFUSE),
    (7, 7, STOPPED, True, 0, 0.0, REFUSE),
    (7, 7, BUG, True, 0, 0.0, ASK_END),
    (7, 7, BUG, False, 0, 0.0, LAST_CHOICE),
    (6, 7, STOPPED, True, 0, 0.0, REFUSE),
    (7, 7, STOPPED, False, 100, 101.0, REFUSE),
    (7, 7, STOPPED, False, 100, 99.0, LAST_CHOICE),
    (7, 7, BUG, False, 100, 101.0, ASK_END),
    (7, 7, DAMAGED, False, 0, 0.0, REFUSE),
    (7, 7, DROPPED, False, 0, 0.0, REFUSE),
    (7, 7, DAMAGED, True, 0, 0.0, REFUSE),
]


@pytest.mark.parametrize(("applied", "needed", "failure", "strong", "lag_max_ms", "stale_ms", "decision"), TABLE)
def test_the_rule(
    applied: int,
    needed: int,
    failure: DuramenError | None,
    strong: bool,
    lag_max_ms: int,
    stale_ms: float,
    decision: ReadDecision,
) -> None:
    found = decide(Offset(applied), Offset(needed), failure, strong=strong, lag_max_ms=lag_max_ms, stale_ms=stale_ms)
    assert found is decision


def test_every_decision_is_in_the_table() -> None:
    assert {row[-1] for row in TABLE} == set(ReadDecision)


@pytest.mark.parametrize(("after", "floor", "needed"), [(-1, -1, -1), (-1, 5, 5), (3, 5, 3), (7, 5, 7), (0, -1, 0)])
def test_what_is_needed(after: int, floor: int, needed: int) -> None:
    """A token below the floor is answered: its owner has seen no more."""
    assert needed_offset(Offset(after), Offset(floor)) == needed


@pytest.mark.parametrize(
    ("after", "floor", "lost", "needed"),
    [(-2, -1, 0, -1), (-2, 5, 0, 5), (-2, 7, 2, 5), (-2, 1, 2, -1), (-1, 7, 2, 7), (3, 7, 2, 3), (7, 7, 2, 7)],
)
def test_what_is_needed_where_the_log_has_lost_its_end(after: int, floor: int, lost: int, needed: int) -> None:
    """A reader of anything waits for what can be read, every other one for what was there."""
    assert needed_offset(Offset(after), Offset(floor), lost) == needed


@pytest.mark.parametrize(("after", "floor", "needed"), [(-1, 5, 5), (3, 5, 5), (7, 5, 7), (3, -1, 3)])
def test_a_bounded_read_needs_the_floor(after: int, floor: int, needed: int) -> None:
    """A replica that was just opened has been level with nothing, whatever its age."""
    assert needed_offset(Offset(after), Offset(floor), bounded=True) == needed


def test_what_a_read_of_a_whole_table_names() -> None:
    seen = {Partition(1): Offset(4)}
    assert Freshness("session", seen).named(3) == seen
    assert Freshness("eventual", seen).named(3) == {0: ANYTHING, 1: 4, 2: ANYTHING}


@pytest.mark.parametrize(
    ("stale_ms", "lag_max_ms", "level"), [(0, 0, True), (9, 0, True), (9, 9, True), (10, 9, False)]
)
def test_level_within(stale_ms: float, lag_max_ms: int, level: bool) -> None:
    assert is_level_within(stale_ms, lag_max_ms) is level


OFFSETS = st.integers(NOTHING, 3).map(Offset)


@given(OFFSETS, OFFSETS, st.sampled_from([None, STOPPED, DAMAGED, DROPPED, ShuttingDown("closing")]))
def test_the_short_form_is_the_rule(applied: Offset, needed: Offset, failure: DuramenError | None) -> None:
    assert may_answer(applied, needed, failure) == (decide(applied, needed, failure) is ANSWER)


@given(OFFSETS, OFFSETS, st.booleans(), st.integers(0, 3), st.integers(0, 4))
def test_nothing_older_than_needed_is_ever_answered(
    applied: Offset, needed: Offset, strong: bool, lag_max_ms: int, stale_ms: int
) -> None:
    decision = decide(applied, needed, None, strong=strong, lag_max_ms=lag_max_ms, stale_ms=stale_ms)
    if decision is ANSWER:
        assert applied >= needed
        assert not strong
        assert lag_max_ms == 0 or stale_ms <= lag_max_ms
