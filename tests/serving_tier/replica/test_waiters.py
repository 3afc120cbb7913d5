"""Waiters: woken in time, never early, never forgotten."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log_tier.concurrency.sized_work import CALLS_AT_ONCE_MAX
from log_tier.model.errors import DuramenError, LogDamaged, Overloaded, ReplicaBehind
from log_tier.model.identifiers import Offset
from serving_tier.replica import waiters as module
from serving_tier.replica.waiters import OffsetWaiters


async def turn() -> None:
    """Let everything that is ready run."""
    for _ in range(3):
        await asyncio.sleep(0)


def behind(asked: Offset) -> DuramenError:
    return ReplicaBehind(f"asked for {asked}", asked=asked)


@settings(deadline=None)
@given(
    waits=st.lists(st.integers(0, 20), max_size=30),
    advances=st.lists(st.integers(-1, 20), max_size=10).map(sorted),
    gone=st.sets(st.integers(0, 29)),
)
def test_exactly_those_whose_offset_has_come_are_woken(waits: list[int], advances: list[int], gone: set[int]) -> None:
    async def scenario() -> None:
        waiters = OffsetWaiters(late=behind)
        tasks = [asyncio.ensure_future(waiters.wait(Offset(offset))) for offset in waits]
        await turn()
        for place in gone & set(range(len(tasks))):
            tasks[place].cancel()
        await turn()
        for applied in advances:
            waiters.advance(Offset(applied))
            await turn()
            for place, (offset, task) in enumerate(zip(waits, tasks, strict=True)):
                assert task.done() == (offset <= applied or place in gone)
            assert len(waiters) == sum(not task.done() for task in tasks)
            waiters.check(Offset(applied))
        waiters.fail(LogDamaged("the end"))
        waiters.check()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            assert result is None or isinstance(result, LogDamaged | asyncio.CancelledError)
        assert len(waiters) == 0

    asyncio.run(scenario())


async def test_a_failure_reaches_those_who_wait_and_those_who_come() -> None:
    waiters = OffsetWaiters(late=behind)
    early = [asyncio.ensure_future(waiters.wait(Offset(n))) for n in (1, 1, 2)]
    await turn()
    error = LogDamaged("damaged at 7", position=7)
    waiters.fail(error)
    caught = [(await asyncio.gather(task, return_exceptions=True))[0] for task in early]
    with pytest.raises(LogDamaged, match="damaged at 7") as late:
        await waiters.wait(Offset(0))
    caught.append(late.value)
    assert all(isinstance(one, LogDamaged) and one.fields == {"position": 7} for one in caught)
    # An error of its own for each: a shared one would grow by a traceback with every raise.
    assert len({id(one) for one in [*caught, error]}) == 5
    assert error.__traceback__ is None


async def test_too_many_are_refused_and_leave_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAITERS_MAX", 3)
    waiters = OffsetWaiters(late=behind)
    tasks = [asyncio.ensure_future(waiters.wait(Offset(5))) for _ in range(3)]
    await turn()
    with pytest.raises(Overloaded, match="3 reads already wait") as caught:
        await waiters.wait(Offset(5))
    assert caught.value.fields == {"limit": 3}
    tasks[0].cancel()
    await turn()
    tasks[0] = asyncio.ensure_future(waiters.wait(Offset(4)))
    await turn()
    waiters.advance(Offset(5))
    await asyncio.gather(*tasks)
    assert len(waiters) == 0


async def test_woken_and_cancelled_in_one_round() -> None:
    waiters = OffsetWaiters(late=behind)
    task = asyncio.ensure_future(waiters.wait(Offset(1)))
    await turn()
    waiters.advance(Offset(1))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert len(waiters) == 0


async def test_who_waits_for_too_long_gets_the_error_and_leaves_no_trace() -> None:
    waiters = OffsetWaiters(late=behind)
    others = asyncio.ensure_future(waiters.wait(Offset(3), 1e6))
    with pytest.raises(ReplicaBehind, match="asked for 3"):
        await waiters.wait(Offset(3), 0.0)
    assert len(waiters) == 1
    waiters.advance(Offset(3))
    await others
    assert len(waiters) == 0
    waiters.check(Offset(3))


async def test_many_that_wait_for_one_offset_are_woken_some_at_a_time() -> None:
    """In the meantime the replica fails: what was applied was applied."""
    waiters, many = OffsetWaiters(late=behind), 3 * CALLS_AT_ONCE_MAX + 1
    waiting = [asyncio.ensure_future(waiters.wait(Offset(5))) for _ in range(many)]
    await turn()
    waiters.advance(Offset(5))
    waiters.check(Offset(5))
    waiters.fail(LogDamaged("later"))
    counts = [0]
    while counts[-1] < many:
        await asyncio.sleep(0)
        counts.append(sum(each.done() for each in waiting))
    assert max(after - before for before, after in pairwise(counts)) <= CALLS_AT_ONCE_MAX
    assert [each.exception() for each in waiting] == [None] * many
