from __future__ import annotations

import asyncio
import threading

import pytest
from kit.deadlines import patience_s

from log_tier.concurrency.threads import Stop, Stopped, in_thread

DEADLINE_S = 30


async def test_it_returns_and_raises_what_the_work_does() -> None:
    assert await in_thread(lambda stop: 7) == 7
    with pytest.raises(KeyError, match="x"):
        await in_thread(lambda stop: {"y": 7}["x"])


async def test_cancelled_it_returns_when_the_thread_has_ended() -> None:
    begun, ended = threading.Event(), []

    def work(stop: Stop) -> None:
        begun.set()
        try:
            while True:
                stop.check()
        except Stopped:
            ended.append("woken")
            raise

    task = asyncio.ensure_future(in_thread(work))
    await asyncio.to_thread(begun.wait, DEADLINE_S)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["woken"]


async def test_cancelled_again_it_goes_on_waiting() -> None:
    begun, may_end, ended = threading.Event(), threading.Event(), []

    def work(_: Stop) -> None:
        begun.set()
        assert may_end.wait(patience_s(DEADLINE_S))
        ended.append(True)

    task = asyncio.ensure_future(in_thread(work))
    await asyncio.to_thread(begun.wait, DEADLINE_S)
    for _ in range(3):
        task.cancel()
        await asyncio.wait([task], timeout=0.01)
        assert not task.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [True]


async def test_what_fails_after_its_caller_was_cancelled_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody else hears of it."""
    begun = threading.Event()

    def work(stop: Stop) -> None:
        begun.set()
        try:
            while True:
                stop.check()
        except Stopped:
            raise OSError("the file could not be removed") from None

    task = asyncio.ensure_future(in_thread(work))
    await asyncio.to_thread(begun.wait, patience_s(20))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert "what a cancelled caller had begun failed: OSError('the file could not be removed')" in caplog.text


async def test_work_that_stops_as_it_was_asked_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    begun = threading.Event()

    def work(stop: Stop) -> None:
        begun.set()
        while True:
            stop.check()

    task = asyncio.ensure_future(in_thread(work))
    await asyncio.to_thread(begun.wait, patience_s(20))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not caplog.records
