"""A proof expires by the wall clock, whatever is done to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.deadlines import within
from kit.set_clock import SetClock

from log_tier.access.expiry_timer import LOOK_S, ExpiryTimer, FirstExpiry
from log_tier.concurrency.clocks import SYSTEM_CLOCK


class TimedMachine:
    """A loop's timers and a wall clock which is set now and then."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.set_by_s = 0.0
        self.due: list[tuple[float, asyncio.TimerHandle]] = []
        self.loop = asyncio.new_event_loop()
        self.clock = SetClock(wall=lambda: round((self.now_s + self.set_by_s) * 1000))

    def call_later(self, delay: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(self.now_s + delay, callback, (), self.loop)
        self.due.append((self.now_s + delay, handle))
        return handle

    def pass_s(self, seconds: float) -> None:
        until_s = self.now_s + seconds
        while due := [each for each in self.due if each[0] <= until_s]:
            first = min(due, key=lambda each: each[0])
            self.due.remove(first)
            self.now_s = first[0]
            if not first[1].cancelled():
                first[1]._run()
        self.now_s = until_s


@pytest.fixture
def machine() -> Iterator[TimedMachine]:
    made = TimedMachine()
    yield made
    made.loop.close()


def timer_of(machine: TimedMachine, expires_s: float) -> tuple[ExpiryTimer, list[float]]:
    called: list[float] = []
    timer = ExpiryTimer(
        round(expires_s * 1000), lambda: called.append(machine.now_s), clock=machine.clock, loop=machine
    )
    return timer, called


def test_it_is_called_once_when_its_time_comes(machine: TimedMachine) -> None:
    _, called = timer_of(machine, 60)
    machine.pass_s(59.9)
    assert called == []
    machine.pass_s(500)
    assert called == [60.0]


def test_a_clock_that_is_set_back_is_waited_for(machine: TimedMachine) -> None:
    _, called = timer_of(machine, 60)
    machine.pass_s(30)
    machine.set_by_s = -3600
    machine.pass_s(3629)
    assert called == []
    machine.pass_s(2)
    assert called == [pytest.approx(3660)]


def test_a_clock_that_is_set_forward_is_noticed(machine: TimedMachine) -> None:
    _, called = timer_of(machine, 3600)
    machine.pass_s(30)
    machine.set_by_s = 3600
    machine.pass_s(LOOK_S)
    assert len(called) == 1


def test_what_is_over_is_called_in_a_turn_of_its_own(machine: TimedMachine) -> None:
    machine.pass_s(10)
    _, called = timer_of(machine, 3)
    assert called == []
    machine.pass_s(0)
    assert called == [10.0]


def test_nothing_is_called_after_it_was_cancelled(machine: TimedMachine) -> None:
    timer, called = timer_of(machine, 60)
    machine.pass_s(30)
    timer.cancel()
    timer.cancel()
    machine.pass_s(100)
    assert called == []


async def test_the_first_of_many_is_called_and_the_others_when_they_are_given_again() -> None:
    begun = SYSTEM_CLOCK.wall_ms()
    wanted, called, done = [begun + 80, begun + 20, begun + 50, 0], list[int](), asyncio.Event()

    def expired() -> None:
        called.append(SYSTEM_CLOCK.wall_ms())
        left = [each for each in wanted if each > called[-1]]
        for each in left:
            first.await_ms(each)
        if not left:
            done.set()

    first = FirstExpiry(expired, clock=SYSTEM_CLOCK)
    for each in wanted:
        first.await_ms(each)
    async with within(30):
        await done.wait()
    assert called[0] >= begun + 20
    assert called[-1] >= begun + 80
    calls = len(called)
    assert calls <= 3
    first.await_ms(begun)
    first.cancel()
    first.cancel()
    done.clear()
    FirstExpiry(done.set, clock=SYSTEM_CLOCK).await_ms(begun)
    async with within(30):
        await done.wait()
    assert len(called) == calls, "nothing after it was cancelled"


@given(
    expires_s=st.floats(0, 100),
    steps=st.lists(st.tuples(st.floats(0, 20), st.floats(-50, 50)), max_size=8),
)
def test_it_is_never_early_and_late_by_one_look_at_most(expires_s: float, steps: list[tuple[float, float]]) -> None:
    machine = TimedMachine()
    try:
        _, called = timer_of(machine, expires_s)
        expires_ms = round(expires_s * 1000)
        over_since_s = 0.0 if machine.clock.wall_ms() >= expires_ms else None
        for pause_s, step_s in steps:
            for _ in range(round(pause_s / 0.25)):
                if machine.clock.wall_ms() < expires_ms:
                    over_since_s = None
                elif over_since_s is None:
                    over_since_s = machine.now_s
                machine.pass_s(0.25)
                if called:
                    assert round((called[0] + machine.set_by_s) * 1000) >= expires_ms
                    return
                assert over_since_s is None or machine.now_s - over_since_s <= LOOK_S + 0.5
            machine.set_by_s += step_s
    finally:
        machine.loop.close()
