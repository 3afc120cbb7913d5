"""The one retry policy: bounds of every pause, the deadline, and what resets it."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.virtual_loop import run_virtually

from log_tier.concurrency.backoff import Backoff

FIRST = st.floats(0.0, 10.0)
CHANCES = st.lists(st.floats(0.0, 1.0, exclude_max=True), min_size=1, max_size=80)


@given(first_s=FIRST, more_s=FIRST, chances=CHANCES)
def test_every_pause_is_drawn_below_a_limit_that_doubles(first_s: float, more_s: float, chances: list[float]) -> None:
    max_s = first_s + more_s
    left = iter(chances)
    backoff = Backoff(first_s, max_s, chance=lambda: next(left))
    for attempt, chance in enumerate(chances):
        limit_s = min(first_s * 2.0**attempt, max_s)
        assert backoff.next_s() == pytest.approx(limit_s * chance)


def test_the_whole_pause_is_jitter() -> None:
    """Two callers that fail together do not come back together: the pauses fill all of what they may."""
    chance = random.Random(1).random
    pauses = sorted(Backoff(1.0, 1.0, chance=chance).next_s() for _ in range(1000))
    assert pauses[0] < 0.02
    assert pauses[-1] > 0.98
    assert 0.45 < pauses[500] < 0.55


def test_one_seed_gives_one_course() -> None:
    first, second = (Backoff(0.1, 5.0, chance=random.Random(7).random) for _ in range(2))
    assert [first.next_s() for _ in range(20)] == [second.next_s() for _ in range(20)]


def test_a_success_brings_the_short_pauses_back() -> None:
    backoff = Backoff(0.5, 8.0, chance=lambda: 0.5)
    assert [backoff.next_s() for _ in range(6)] == [0.25, 0.5, 1.0, 2.0, 4.0, 4.0]
    backoff.reset()
    assert backoff.next_s() == 0.25


def test_a_stream_has_succeeded_when_it_goes_on_for_longer_than_the_longest_pause() -> None:
    async def tried() -> list[float]:
        backoff = Backoff(0.5, 4.0, chance=lambda: 1.0)
        loop, pauses = asyncio.get_running_loop(), []
        for goes_on_s in (0.0, 0.0, 3.9, 0.0, 4.0, 9.0, 0.1):
            backoff.heard()
            await asyncio.sleep(goes_on_s)
            began_s = loop.time()
            await backoff.pause()
            pauses.append(loop.time() - began_s)
        return pauses

    assert run_virtually(tried()) == pytest.approx([0.5, 1.0, 2.0, 4.0, 0.5, 0.5, 1.0])


def test_a_stream_of_which_nothing_came_has_not_succeeded() -> None:
    async def tried() -> list[float]:
        backoff = Backoff(0.5, 4.0, chance=lambda: 1.0)
        loop, pauses = asyncio.get_running_loop(), []
        for _ in range(3):
            await asyncio.sleep(9.0)
            began_s = loop.time()
            await backoff.pause()
            pauses.append(loop.time() - began_s)
        return pauses

    assert run_virtually(tried()) == pytest.approx([0.5, 1.0, 2.0])


def test_the_largest_pause_may_change_in_between() -> None:
    backoff = Backoff(0.5, 32.0, chance=lambda: 1.0)
    assert [backoff.next_s() for _ in range(4)] == [0.5, 1.0, 2.0, 4.0]
    backoff.max_s = 2.0
    assert [backoff.next_s() for _ in range(2)] == [2.0, 2.0]
    backoff.max_s = 32.0
    assert [backoff.next_s() for _ in range(2)] == [4.0, 8.0]


@given(deadline_s=st.floats(0.0, 100.0), seed=st.integers(0, 1000))
def test_no_try_begins_at_the_deadline_or_later(deadline_s: float, seed: int) -> None:
    async def tries() -> list[float]:
        backoff = Backoff(0.05, 2.0, deadline_s=deadline_s, chance=random.Random(seed).random)
        loop = asyncio.get_running_loop()
        begun = [loop.time()]
        while await backoff.pause():
            begun.append(loop.time())
        assert loop.time() == begun[-1], "the last pause was slept although no try follows it"
        return begun

    begun = run_virtually(tries())
    assert all(begin_s < deadline_s for begin_s in begun[1:])
    assert begun == sorted(begun)
    assert begun[-1] >= deadline_s - 2.0, "gave up although another try would have been in time"


def test_without_a_deadline_it_goes_on() -> None:
    async def slept_s() -> float:
        backoff = Backoff(1.0, 60.0, chance=lambda: 1.0)
        for _ in range(1000):
            assert await backoff.pause()
        return asyncio.get_running_loop().time()

    assert run_virtually(slept_s()) == pytest.approx(1 + 2 + 4 + 8 + 16 + 32 + 60 * 994)


def test_a_task_that_was_cancelled_tries_no_more() -> None:
    """The cleanup of what was cancelled may fail, and its error stands in the place of the cancellation: a loop that
    took it for a failed try would go on for ever, and who ends the task would wait for it.
    """
    tries = 0

    async def attempt() -> None:
        nonlocal tries
        tries += 1
        try:
            await asyncio.sleep(60)
        finally:
            raise OSError("what was half done cannot be removed")

    async def loop() -> None:
        backoff = Backoff(1.0, 1.0)
        while True:
            try:
                await attempt()
            except OSError:
                await backoff.pause()

    async def ended() -> bool:
        task = asyncio.create_task(loop())
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task], timeout=3600)
        is_cancelled = task.done() and task.cancelled()
        task.cancel()
        return is_cancelled

    assert run_virtually(ended())
    assert tries == 1


def test_a_timeout_that_was_caught_is_no_cancellation() -> None:
    async def tried_again() -> bool:
        try:
            async with asyncio.timeout_at(asyncio.get_running_loop().time() + 1):
                await asyncio.sleep(60)
        except TimeoutError:
            return await Backoff(1.0, 1.0).pause()
        return False

    assert run_virtually(tried_again())
