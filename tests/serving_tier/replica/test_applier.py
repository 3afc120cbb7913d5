"""The applier's thread: order, errors, cancellation, the end."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable

import pytest
from kit.deadlines import patience_s, until

from log_tier.concurrency.sized_work import CALLS_AT_ONCE_MAX
from log_tier.model.errors import DiskFull, ShuttingDown
from serving_tier.replica.applier import Applier


@pytest.fixture
async def applier() -> AsyncIterator[Applier]:
    made = Applier()
    made.start()
    yield made
    await made.stop()


async def test_work_is_done_in_order_in_one_other_thread(applier: Applier) -> None:
    seen: list[tuple[int, int]] = []

    def work(number: int) -> int:
        seen.append((number, threading.get_ident()))
        return number * 2

    async def ask(number: int) -> int:
        return await applier.run(lambda: work(number))

    assert await asyncio.gather(*map(ask, range(100))) == [number * 2 for number in range(100)]
    assert [number for number, _ in seen] == list(range(100))
    assert len({thread for _, thread in seen}) == 1
    assert seen[0][1] != threading.get_ident()


async def test_callers_whose_work_was_done_together_are_woken_some_at_a_time(applier: Applier) -> None:
    may_go, turns, woken = threading.Event(), [0], Counter[int]()
    loop = asyncio.get_running_loop()

    def tick() -> None:
        turns[0] += 1
        if not others.done():
            loop.call_soon(tick)

    async def ask(work: Callable[[], object]) -> None:
        await applier.run(work)
        woken[turns[0]] += 1

    first = asyncio.ensure_future(ask(may_go.wait))
    others = asyncio.gather(*(ask(lambda: None) for _ in range(1000)))
    await asyncio.sleep(0)
    may_go.set()
    tick()
    await first
    await others
    assert max(woken.values()) <= 2 * CALLS_AT_ONCE_MAX


async def test_an_error_goes_to_its_caller_alone(applier: Applier) -> None:
    def full() -> None:
        raise DiskFull("no room")

    results = await asyncio.gather(
        applier.run(lambda: 1), applier.run(full), applier.run(lambda: 3), return_exceptions=True
    )
    assert (results[0], results[2]) == (1, 3)
    assert isinstance(results[1], DiskFull)


async def test_what_is_run_aside_comes_after_what_was_accepted_and_together(applier: Applier) -> None:
    accepted = threading.Event()
    together = threading.Barrier(3, timeout=20.0)

    def close() -> bool:
        together.wait()  # breaks where the three do not run at the same time
        return accepted.is_set()

    before = asyncio.ensure_future(applier.run(accepted.set))
    assert await asyncio.gather(*(applier.run_aside(close) for _ in range(3))) == [True] * 3
    await before


async def test_what_is_run_aside_is_done_though_its_caller_is_cancelled_and_before_the_end() -> None:
    applier = Applier()
    applier.start()
    entered, go_on, done = threading.Event(), threading.Event(), threading.Event()

    def close() -> None:
        entered.set()
        go_on.wait(patience_s(20.0))
        done.set()

    caller = asyncio.ensure_future(applier.run_aside(close))
    assert await asyncio.to_thread(entered.wait, 20.0)
    caller.cancel()
    go_on.set()
    await applier.stop()
    assert caller.cancelled()
    assert done.is_set()
    with pytest.raises(ShuttingDown):
        await applier.run_aside(close)


@pytest.mark.parametrize("error", [None, DiskFull("no space")], ids=["clean", "failed"])
async def test_what_fails_aside_when_its_caller_has_gone_is_logged(
    applier: Applier, caplog: pytest.LogCaptureFixture, error: Exception | None
) -> None:
    begun, gone, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        assert gone.wait(patience_s(20)), "the caller never went away"
        ended.set()
        if error is not None:
            raise error

    waiting = asyncio.ensure_future(applier.run_aside(work))
    await until(begun.is_set)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    gone.set()
    await until(ended.is_set)
    await applier.stop()
    if error is not None:  # the thread raises behind `ended`, and the loop hears of it a turn later
        await until(lambda: bool(caplog.records))
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == (
        [] if error is None else ["an index could not be closed cleanly"]
    )


async def test_what_fails_aside_is_logged_where_its_caller_went_before_it_began(
    applier: Applier, caplog: pytest.LogCaptureFixture
) -> None:
    def work() -> None:
        raise DiskFull("no space")

    waiting = asyncio.ensure_future(applier.run_aside(work))
    await asyncio.sleep(0)  # queued, and the loop has not heard more
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await until(lambda: bool(caplog.records))
    assert "could not be closed cleanly: DiskFull" in caplog.records[0].getMessage()


async def test_a_cancelled_caller_does_not_undo_its_work(applier: Applier) -> None:
    may_go = threading.Event()
    done: list[str] = []
    first = asyncio.ensure_future(applier.run(may_go.wait))
    second = asyncio.ensure_future(applier.run(lambda: done.append("second")))
    await asyncio.sleep(0)
    second.cancel()
    may_go.set()
    assert await first
    await applier.run(lambda: done.append("third"))
    assert second.cancelled()
    assert done == ["second", "third"]


def applier_threads() -> set[threading.Thread]:
    """Those of this process; servers that other tests share may have some."""
    return {thread for thread in threading.enumerate() if thread.name == "duramen-applier"}


async def test_stopping_finishes_what_was_accepted_and_takes_no_more() -> None:
    before = applier_threads()
    applier = Applier()
    applier.start()
    may_go = threading.Event()
    accepted = [asyncio.ensure_future(applier.run(may_go.wait)) for _ in range(3)]
    await asyncio.sleep(0)
    stopping = asyncio.ensure_future(applier.stop())
    await asyncio.sleep(0)
    with pytest.raises(ShuttingDown, match="read from another one"):
        await applier.run(lambda: None)
    may_go.set()
    assert await asyncio.gather(*accepted) == [True] * 3
    await stopping
    await applier.stop()
    assert applier_threads() <= before


async def test_stopping_one_that_never_started() -> None:
    before = applier_threads()
    applier = Applier()
    await applier.stop()
    assert applier_threads() <= before


async def after_small_jobs(applier: Applier) -> None:
    """So many of them that they are known to be quick."""
    for _ in range(8):
        await applier.run(lambda: None, is_small=True)


async def loop_does(applier: Applier) -> bool:
    """Does the loop do the next small job itself?"""
    return await applier.run(threading.get_ident, is_small=True) == threading.get_ident()


@pytest.fixture
async def stopwatch_s() -> list[float]:
    """The times at which jobs begin and end, the next one last; then no time passes."""
    return []


@pytest.fixture
async def timed_applier(stopwatch_s: list[float]) -> AsyncIterator[Applier]:
    made = Applier(stopwatch_s=lambda: stopwatch_s.pop() if stopwatch_s else 0.0)
    made.start()
    yield made
    await made.stop()


async def test_the_loop_does_a_small_job_that_comes_alone(timed_applier: Applier) -> None:
    applier = timed_applier
    assert not await loop_does(applier), "nothing is known yet"
    await after_small_jobs(applier)
    before = applier.jobs_at_once
    for done in range(1, 4):
        await asyncio.sleep(0)
        assert await loop_does(applier)
        assert applier.jobs_at_once == before + done
    assert await applier.run(threading.get_ident) != threading.get_ident(), "not a small one"


async def test_of_small_jobs_that_come_together_the_loop_does_one(timed_applier: Applier) -> None:
    applier = timed_applier
    await after_small_jobs(applier)
    await asyncio.sleep(0)
    threads = await asyncio.gather(*(applier.run(threading.get_ident, is_small=True) for _ in range(5)))
    assert threads.count(threading.get_ident()) == 1
    assert len(set(threads)) == 2


async def test_a_small_job_overtakes_none(timed_applier: Applier) -> None:
    applier = timed_applier
    await after_small_jobs(applier)
    await asyncio.sleep(0)
    may_go, done = threading.Event(), list[str]()

    def first() -> None:
        may_go.wait(patience_s(20.0))
        done.append("first")

    earlier = asyncio.ensure_future(applier.run(first))
    later = asyncio.ensure_future(applier.run(lambda: done.append("small"), is_small=True))
    await asyncio.sleep(0)
    assert done == []
    may_go.set()
    await asyncio.gather(earlier, later)
    assert done == ["first", "small"]


async def test_after_a_slow_small_job_the_thread_does_the_next_ones(
    timed_applier: Applier, stopwatch_s: list[float]
) -> None:
    applier = timed_applier
    await after_small_jobs(applier)
    await asyncio.sleep(0)
    stopwatch_s += [0.002, 0.0]
    assert await loop_does(applier)
    for _ in range(64):
        await asyncio.sleep(0)
        assert not await loop_does(applier)
    await asyncio.sleep(0)
    assert await loop_does(applier)


async def test_a_small_job_that_fails_on_the_loop_raises_to_its_caller_and_none_is_done_after_the_end(
    timed_applier: Applier,
) -> None:
    applier = timed_applier
    await after_small_jobs(applier)
    await asyncio.sleep(0)

    def full() -> None:
        raise DiskFull("no room")

    with pytest.raises(DiskFull):
        await applier.run(full, is_small=True)
    assert applier.jobs_at_once == 1
    await asyncio.sleep(0)
    await applier.stop()
    with pytest.raises(ShuttingDown):
        await applier.run(lambda: None, is_small=True)
