"""What streams hold is bounded together, who reads goes on, and everything is given back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_tier.model.errors import Overloaded
from log_tier.rpc.stream_budget import FLOOR_BYTES, HeldPage, StreamBudget

SOFT, HARD = 64 * FLOOR_BYTES, 128 * FLOOR_BYTES


@contextmanager
def readers_page(budget: StreamBudget) -> Iterator[HeldPage]:
    """Of a stream whose client has taken much."""
    with budget.stream() as held:
        held.hold(4 * SOFT)
        held.next_page(1)
        held.hold(0)
        yield held


def test_a_page_has_a_quarter_of_what_was_taken() -> None:
    budget = StreamBudget()
    with budget.stream() as held:
        granted = [held.next_page(1 << 23) for _ in range(60)]
    assert granted[:6] == [FLOOR_BYTES] * 5 + [FLOOR_BYTES * 5 // 4]
    assert granted[-1] == 1 << 23


def test_pages_shrink_as_others_hold_them() -> None:
    budget = StreamBudget(SOFT, HARD)
    with ExitStack() as stack:
        granted = [stack.enter_context(readers_page(budget)).next_page(SOFT) for _ in range(60)]
        assert granted[0] == SOFT // 4
        assert granted == sorted(granted, reverse=True)
        assert granted[-1] == FLOOR_BYTES
        assert budget.held_bytes == sum(granted) <= HARD
    assert budget.held_bytes == 0


def test_a_floor_is_refused_only_where_the_floors_are_everything() -> None:
    budget = StreamBudget(SOFT, HARD)
    with ExitStack() as stack:
        for _ in range(128):
            assert stack.enter_context(budget.stream()).next_page(FLOOR_BYTES) == FLOOR_BYTES
        with budget.stream() as one_more:
            with pytest.raises(Overloaded, match="do not read"):
                one_more.next_page(FLOOR_BYTES)
            assert budget.held_bytes == HARD
    with budget.stream() as later:
        assert later.next_page(1) == 1


def test_what_a_page_really_has_is_counted() -> None:
    """Its last entry may be larger than the whole page was to be."""
    budget = StreamBudget(SOFT, HARD)
    with budget.stream() as held:
        held.next_page(FLOOR_BYTES)
        held.hold(10 * FLOOR_BYTES)
        assert budget.held_bytes == 10 * FLOOR_BYTES
        held.next_page(FLOOR_BYTES)
        assert budget.held_bytes == FLOOR_BYTES
    assert budget.held_bytes == 0


def test_what_cannot_be_cut_ends_its_own_stream_and_no_other() -> None:
    budget = StreamBudget(SOFT, HARD)
    value = 5 * FLOOR_BYTES
    with ExitStack() as stack:
        for _ in range(HARD // 2 // value):
            stack.enter_context(budget.stream()).hold_whole(value)
        with budget.stream() as one_more:
            with pytest.raises(Overloaded, match="do not read"):
                one_more.hold_whole(value)
            assert one_more.next_page(FLOOR_BYTES) == FLOOR_BYTES
            with pytest.raises(Overloaded, match="do not read"):
                one_more.got(value)
            one_more.hold_whole(FLOOR_BYTES)
        assert budget.held_bytes == HARD // 2 // value * value


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 2 * SOFT), st.booleans()), max_size=200))
def test_held_bytes_are_the_sum_of_what_is_held(steps: list[tuple[int, int, bool]]) -> None:
    budget = StreamBudget(SOFT, HARD)
    with ExitStack() as stack:
        streams = [stack.enter_context(budget.stream()) for _ in range(10)]
        held = [0] * 10
        for number, wanted, ends in steps:
            if ends:
                streams[number].hold(0)
                held[number] = 0
            else:
                held[number] = streams[number].next_page(wanted)
                assert 1 <= held[number] <= wanted
            assert budget.held_bytes == sum(held) <= SOFT + 10 * FLOOR_BYTES
    assert budget.held_bytes == 0


def test_a_stream_that_fails_gives_back_what_it_holds() -> None:
    budget = StreamBudget(SOFT, HARD)

    def fail() -> None:
        with budget.stream() as held:
            held.next_page(FLOOR_BYTES)
            raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        fail()
    assert budget.held_bytes == 0
