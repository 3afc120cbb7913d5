"""Large work in threads: one piece at a time, in turns of the users, and small work does not wait behind large."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.deadlines import patience_s, within

from log_tier.access.current import CALLER
from log_tier.access.gate import NOBODY
from log_tier.access.user_turns import SMALL_BYTES_MAX, ThreadTurns, UserTurns

LARGE = SMALL_BYTES_MAX + 1


class Calls:
    """Calls that take a turn and keep it until they are let go."""

    def __init__(self) -> None:
        self.turns = UserTurns()
        self.had: list[str] = []
        self.running = 0
        self._go = asyncio.Event()

    async def call(self, user: str) -> None:
        async with self.turns.turn(user):
            self.running += 1
            assert self.running == 1, "two have the turn"
            self.had.append(user)
            try:
                await self._go.wait()
            finally:
                self.running -= 1

    async def started(self, users: str) -> list[asyncio.Task[None]]:
        tasks = [asyncio.create_task(self.call(user)) for user in users]
        await asyncio.sleep(0)
        return tasks

    async def finish(self, tasks: list[asyncio.Task[None]]) -> str:
        self._go.set()
        async with within(30):
            await asyncio.gather(*tasks, return_exceptions=True)
        return "".join(self.had)


async def test_a_call_of_another_user_waits_for_one_of_many() -> None:
    calls = Calls()
    assert await calls.finish(await calls.started("aaaaaab")) == "aabaaaa"


async def test_users_take_turns() -> None:
    calls = Calls()
    assert await calls.finish(await calls.started("xaaabbc")) == "xabcaba"


@given(st.text("abc", min_size=1, max_size=12), st.lists(st.integers(0, 11), max_size=6), st.booleans())
def test_who_is_cancelled_takes_no_turn_with_it(users: str, cancelled: list[int], waits: bool) -> None:
    async def run() -> None:
        calls = Calls()
        tasks = await calls.started(users)
        gone = {number for number in cancelled if number < len(tasks)}
        for number in cancelled:
            if number in gone:
                tasks[number].cancel()
            if waits:  # else the one that is called next may be cancelled in the same turn of the loop
                await asyncio.sleep(0)
        had = await calls.finish(tasks)
        assert {number for number, task in enumerate(tasks) if task.cancelled()} == gone
        assert len(had) >= len(tasks) - len(gone), "somebody had no turn"
        async with within(30), calls.turns.turn("a"):
            pass  # nobody has it any more

    asyncio.run(run())


async def test_who_is_called_and_cancelled_at_once_calls_the_next() -> None:
    turns, had = UserTurns(), list[str]()

    async def take(user: str) -> None:
        async with turns.turn(user):
            had.append(user)

    async with turns.turn("a"):
        called, behind = [asyncio.create_task(take(user)) for user in "bc"]
        await asyncio.sleep(0)
    called.cancel()
    async with within(30):
        await behind
    assert called.cancelled()
    assert had == ["c"]


async def test_small_work_does_not_wait_behind_large() -> None:
    turns, let_go = ThreadTurns(), threading.Event()
    large = [asyncio.create_task(turns.run(LARGE, let_go.wait)) for _ in range(20)]
    await asyncio.sleep(0)
    async with within(30):
        assert await turns.run(SMALL_BYTES_MAX, lambda: 7) == 7
    assert not any(task.done() for task in large)
    let_go.set()
    await asyncio.gather(*large)


async def test_a_turn_is_its_callers() -> None:
    turns, let_go, order = ThreadTurns(), threading.Event(), list[str]()

    async def call(user: str) -> None:
        CALLER.set(replace(NOBODY, name=user))
        await turns.run(LARGE, let_go.wait)
        order.append(user)

    tasks = [asyncio.create_task(call(user)) for user in "aaab"]
    await asyncio.sleep(0)
    let_go.set()
    await asyncio.gather(*tasks)
    assert order == ["a", "a", "b", "a"]


async def test_what_an_iterator_makes_is_made_piece_by_piece() -> None:
    def made() -> Iterator[int]:
        yield 1
        yield 2
        raise ValueError("no more")

    turns, got = ThreadTurns(), list[int]()

    async def use() -> None:
        async for each in turns.each(LARGE, made()):
            got.append(each)
            async with within(30):
                assert await turns.run(LARGE, lambda: 7) == 7, "no turn is held while a piece is used"

    with pytest.raises(ValueError, match="no more"):
        await use()
    assert got == [1, 2]


@pytest.mark.parametrize("fails", [False, True])
async def test_who_goes_away_keeps_the_turn_until_its_thread_has_ended(fails: bool) -> None:
    """A client that asks and breaks off, again and again, fills no threads with work that nobody waits for."""
    turns, begun, go = ThreadTurns(), threading.Event(), threading.Event()
    running: list[str] = []

    def work() -> None:
        running.append("first")
        begun.set()
        assert go.wait(patience_s(30))
        running.append("ended")
        if fails:
            raise ValueError("of work that nobody waits for")

    first = asyncio.create_task(turns.run(LARGE, work))
    async with within(30):
        await asyncio.to_thread(begun.wait)
    first.cancel()
    second = asyncio.create_task(turns.run(LARGE, lambda: running.append("second")))
    for _ in range(10):
        await asyncio.sleep(0)
    assert running == ["first"]
    go.set()
    async with within(30):
        await second
        with pytest.raises(asyncio.CancelledError):
            await first
    assert running == ["first", "ended", "second"]
