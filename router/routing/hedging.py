"""Two answers to one question: the first one that comes counts.

The usual case, in which the first question is answered in time, must cost next to nothing: a timer, and no task. So the
first question is awaited directly; if the second one overtakes it, the waiting task is cancelled and the cancellation
taken back, in the way of `asyncio.timeout`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from log_tier.model.errors import DuramenError

__all__ = ["overtaken"]

T = TypeVar("T")


async def overtaken(first: Awaitable[T], late_s: float, second: Callable[[], Coroutine[Any, Any, T] | None]) -> T:
    """The result of `first`; or, where it takes longer than `late_s` seconds, of whichever of both succeeds first.

    `second` is called then; it returns None if no other replica can be asked now, and is called again later. A failure
    counts only if the other one fails as well, and then the first one's is raised. The one that comes too late is
    cancelled.
    """
    loop = asyncio.get_running_loop()
    waiting = asyncio.current_task()
    assert waiting is not None, "only a task can wait"
    cancelling = waiting.cancelling()
    other: asyncio.Task[T] | None = None
    timer: asyncio.TimerHandle
    over = won = False

    def late() -> None:
        nonlocal other, timer
        question = second()
        if question is None:
            timer = loop.call_later(late_s, late)
            return
        other = loop.create_task(question)
        other.add_done_callback(ended)

    def ended(task: asyncio.Task[T]) -> None:
        nonlocal won
        if not task.cancelled() and task.exception() is None and not over:
            won = True
            waiting.cancel()

    timer = loop.call_later(late_s, late)
    try:
        return await first
    except asyncio.CancelledError:
        over = True
        if won and waiting.uncancel() <= cancelling:
            assert other is not None
            return other.result()
        raise
    except DuramenError:
        over = True
        timer.cancel()
        if other is not None:
            await asyncio.wait([other])
            if not other.cancelled() and other.exception() is None:
                return other.result()
        raise
    finally:
        over = True
        timer.cancel()
        if other is not None and not other.done():
            other.cancel()
