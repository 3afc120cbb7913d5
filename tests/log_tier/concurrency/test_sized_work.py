"""Work that is spread over turns of the event loop, and over some calls at a time."""

from __future__ import annotations

import asyncio
import threading
from itertools import pairwise

import pytest

from log_tier.concurrency.sized_work import (
    AT_ONCE_ITEMS_MAX,
    CALLS_AT_ONCE_MAX,
    WAKES_AT_ONCE_MAX,
    Turn,
    end_some,
    gather_all,
    gather_some,
    run_sized,
    wake_some,
)

MANY = 5 * CALLS_AT_ONCE_MAX


async def test_large_work_leaves_the_loop() -> None:
    here = threading.get_ident()
    assert await run_sized(AT_ONCE_ITEMS_MAX, threading.get_ident) == here
    assert await run_sized(AT_ONCE_ITEMS_MAX + 1, threading.get_ident) != here


async def test_a_turn_ends_after_so_many_items() -> None:
    turn, others = Turn(), 0

    async def other() -> None:
        nonlocal others
        while True:
            others += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    for _ in range(10):
        if turn.is_full(AT_ONCE_ITEMS_MAX // 2):
            await turn.end()
    task.cancel()
    assert others == 5


async def test_all_calls_are_under_way_and_begin_some_at_a_time() -> None:
    begun: list[int] = []
    may_end = asyncio.Event()

    async def call(item: int) -> int:
        begun.append(item)
        await may_end.wait()
        if item == 3:
            raise ValueError(item)
        return -item

    calls = asyncio.create_task(gather_all(range(MANY), call))
    counts = []
    while len(begun) < MANY:
        counts.append(len(begun))
        await asyncio.sleep(0)
    assert [*begun] == [*range(MANY)]
    assert max(after - before for before, after in pairwise([*counts, MANY])) <= CALLS_AT_ONCE_MAX
    may_end.set()
    with pytest.raises(ValueError, match="3"):
        await calls
    assert await gather_all([1, 2], call) == [-1, -2]


async def test_calls_that_begin_end_with_their_caller() -> None:
    begun: list[asyncio.Task[object]] = []

    async def call(_: int) -> None:
        task = asyncio.current_task()
        assert task is not None
        begun.append(task)
        await asyncio.Event().wait()

    calls = asyncio.create_task(gather_all(range(MANY), call))
    while not begun:  # noqa: ASYNC110
        await asyncio.sleep(0)
    assert len(begun) < MANY
    calls.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calls
    assert all(task.cancelled() for task in begun)


async def test_some_calls_are_under_way_at_a_time() -> None:
    under_way, most = 0, 0
    begun: list[int] = []

    async def call(item: int) -> int:
        nonlocal under_way, most
        begun.append(item)
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return -item

    assert await gather_some(range(MANY), call) == [-item for item in range(MANY)]
    assert (begun, most) == (list(range(MANY)), CALLS_AT_ONCE_MAX)


async def test_calls_that_do_not_wait_are_not_all_made_in_one_turn() -> None:
    turn, turns = 0, []

    async def count() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    async def call(_: int) -> None:
        turns.append(turn)

    counting = asyncio.create_task(count())
    await gather_some(range(MANY), call)
    counting.cancel()
    assert max(turns.count(each) for each in turns) <= CALLS_AT_ONCE_MAX


async def test_no_items_and_one() -> None:
    async def call(item: int) -> asyncio.Task[object] | None:
        assert item == 7
        return asyncio.current_task()

    assert await gather_some([], call) == []
    assert await gather_some([7], call) == [asyncio.current_task()], "a lone call pays for no task"


async def test_an_error_ends_the_other_calls() -> None:
    ended: list[int] = []

    async def call(item: int) -> None:
        if item == 3:
            raise ValueError("three")
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(item)

    with pytest.raises(ValueError, match="three"):
        await gather_some(range(MANY), call)
    assert ended[:3] == [0, 1, 2], "those that had begun"


async def test_a_caller_that_is_cancelled_leaves_no_call_behind() -> None:
    before = asyncio.all_tasks()
    begun = asyncio.Event()

    async def call(_: int) -> None:
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(gather_some(range(MANY), call))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.all_tasks() == before


async def _tasks_that_end_at(turns: list[int]) -> list[asyncio.Task[None]]:
    """Many tasks that wait; each says the turn in which it ended."""
    turn = 0

    async def count() -> None:
        nonlocal turn
        while len(turns) < MANY:
            turn += 1
            await asyncio.sleep(0)

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            turns.append(turn)

    tasks = [asyncio.create_task(wait()) for _ in range(MANY)]
    await asyncio.sleep(0)
    tasks.append(asyncio.create_task(count()))
    return tasks


async def test_some_tasks_end_at_a_time() -> None:
    turns: list[int] = []
    *tasks, counting = await _tasks_that_end_at(turns)
    await end_some(tasks)
    await counting
    assert len(turns) == MANY
    assert max(turns.count(each) for each in turns) <= CALLS_AT_ONCE_MAX


async def test_all_tasks_end_with_a_caller_that_is_cancelled() -> None:
    turns: list[int] = []
    *tasks, counting = await _tasks_that_end_at(turns)
    ending = asyncio.create_task(end_some(tasks))
    await asyncio.sleep(0)
    ending.cancel()
    await asyncio.wait([ending, *tasks])
    await counting
    assert ending.cancelled()
    assert len(turns) == MANY


async def test_some_waiters_are_woken_in_a_turn() -> None:
    woken: list[tuple[int, int]] = []
    turn = 0
    wake_some(range(MANY), lambda waiter: woken.append((turn, waiter)))
    assert len(woken) == WAKES_AT_ONCE_MAX, "the first of them at once"
    while len(woken) < MANY:
        turn += 1
        await asyncio.sleep(0)
    turns = [each for each, _ in woken]
    assert [waiter for _, waiter in woken] == list(range(MANY))
    assert max(turns.count(each) for each in turns) <= WAKES_AT_ONCE_MAX
