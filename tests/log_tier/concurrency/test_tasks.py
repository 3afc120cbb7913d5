"""Sets of background tasks: kept, reported, ended together."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable

import pytest
from kit.deadlines import patience_s

from log_tier.concurrency.tasks import TaskSet, end_tasks, every_step, going_on, to_the_end
from log_tier.model.errors import DuramenError, ShuttingDown


async def forever(ended: list[str], name: str) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0)  # its clean-up takes a turn too
        ended.append(name)


async def test_closing_waits_for_the_clean_up_of_all() -> None:
    tasks, ended = TaskSet(), list[str]()
    for name in "abc":
        tasks.start(forever(ended, name))
    await asyncio.sleep(0)
    assert len(tasks) == 3
    await tasks.close()
    assert (sorted(ended), len(tasks)) == (["a", "b", "c"], 0)
    await tasks.close()


async def test_a_task_that_ends_is_let_go() -> None:
    tasks = TaskSet()
    task = tasks.start(asyncio.sleep(0, "the result"), name="quick")
    assert (await task, task.get_name()) == ("the result", "quick")
    await asyncio.sleep(0)
    assert len(tasks) == 0


async def test_closing_with_patience_lets_them_end() -> None:
    tasks, done = TaskSet(), asyncio.Event()

    async def work() -> str:
        await done.wait()
        return "ended by itself"

    task = tasks.start(work())
    asyncio.get_running_loop().call_soon(done.set)
    await tasks.close(patience_s=10)
    assert task.result() == "ended by itself"


async def test_a_failure_is_logged_at_once_and_handed_on(caplog: pytest.LogCaptureFixture) -> None:
    heard: asyncio.Future[DuramenError] = asyncio.get_running_loop().create_future()
    tasks = TaskSet(failed=heard.set_result)

    async def work() -> None:
        raise RuntimeError("a bug")

    tasks.start(work(), name="the work")
    error = await asyncio.wait_for(heard, patience_s(10))
    assert "the work ended (RuntimeError('a bug'))" in error.message
    assert "Traceback" in caplog.text


@pytest.mark.parametrize("error", [None, ShuttingDown("closed before it")], ids=["its end", "shutting down"])
async def test_an_end_is_no_failure(error: DuramenError | None, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[DuramenError] = []
    tasks = TaskSet(failed=heard.append)

    async def work() -> None:
        if error is not None:
            raise error

    await asyncio.wait([tasks.start(work())])
    await tasks.close()
    assert (heard, caplog.text) == ([], "")


async def test_a_closer_that_is_cancelled_is_cancelled() -> None:
    """`suppress(CancelledError)` around `await task` would swallow it."""
    stubborn = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await stubborn.wait()

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    closer = asyncio.create_task(end_tasks(None, task))
    await asyncio.sleep(0)
    closer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closer
    assert not task.done()
    stubborn.set()
    await asyncio.wait([task])


async def cancelled_often(task: asyncio.Future[int]) -> None:
    for _ in range(3):
        task.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
    assert not task.done(), "the work is under way"


async def test_work_that_nobody_may_leave_ends_before_its_cancelled_caller() -> None:
    go_on, undone = asyncio.Event(), list[int]()

    async def work() -> int:
        await go_on.wait()
        return 7

    async def undo(result: int) -> None:
        await asyncio.sleep(0)
        undone.append(result)

    assert await to_the_end(asyncio.sleep(0, 7), undo=undo) == 7
    with pytest.raises(RuntimeError, match="a bug"):
        await to_the_end(failing_after(asyncio.sleep(0)), undo=undo)
    caller = asyncio.ensure_future(to_the_end(work(), undo=undo))
    await asyncio.sleep(0)
    await cancelled_often(caller)
    assert undone == []
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert undone == [7]


async def failing_after(wait: Awaitable[object]) -> int:
    await wait
    raise RuntimeError("a bug")


async def test_what_fails_behind_a_cancelled_caller_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    unheard: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: unheard.append(context))
    go_on = asyncio.Event()
    caller = asyncio.ensure_future(to_the_end(failing_after(go_on.wait())))
    await asyncio.sleep(0)
    await cancelled_often(caller)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    del caller
    gc.collect()
    await asyncio.sleep(0)
    assert unheard == []
    assert "what a cancelled caller had begun failed: RuntimeError('a bug')" in caplog.text


async def test_work_goes_on_behind_a_caller_that_has_left() -> None:
    unheard: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: unheard.append(context))
    assert await going_on(asyncio.sleep(0, 7)) == 7
    with pytest.raises(RuntimeError, match="a bug"):
        await going_on(failing_after(asyncio.sleep(0)))
    go_on = asyncio.Event()
    work = asyncio.ensure_future(failing_after(go_on.wait()))
    caller = asyncio.ensure_future(going_on(work))
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert not work.done()
    go_on.set()
    await asyncio.wait([work])
    del work, caller
    gc.collect()
    assert unheard == []


async def test_a_closer_that_is_cancelled_ends_the_patience_and_leaves_no_task() -> None:
    tasks, ended = TaskSet(), asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.set()

    tasks.start(work())
    closer = asyncio.create_task(tasks.close(patience_s=3600))
    await asyncio.sleep(0)
    closer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closer
    assert ended.is_set()
    assert len(tasks) == 0


async def test_every_step_is_done_though_one_fails() -> None:
    done = list[str]()

    async def fails() -> None:
        done.append("fails")
        raise DuramenError("the first one")

    def fails_at_once() -> None:
        done.append("fails at once")
        raise DuramenError("the second one")

    with pytest.raises(DuramenError, match="the first one"):
        await every_step(fails, fails_at_once, lambda: done.append("the last"))
    assert done == ["fails", "fails at once", "the last"]


async def test_every_step_is_done_though_the_caller_is_cancelled() -> None:
    ended = list[str]()

    async def last() -> None:
        await asyncio.sleep(0)
        ended.append("last")

    def fails() -> None:
        raise DuramenError("after the cancellation")

    closing = asyncio.create_task(every_step(lambda: forever(ended, "first"), fails, last))
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert ended == ["first", "last"]
