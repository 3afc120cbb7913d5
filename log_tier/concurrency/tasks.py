"""Background tasks of one owner: each is kept until it ends, its failure is logged, and all are ended together.

`to_the_end` is for work that nobody may leave half done, `going_on` for work that needs nobody who waits, `every_step`
for a close of several steps.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from log_tier.concurrency.background import Failed, only_logged, report_failure
from log_tier.model.errors import ShuttingDown

__all__ = ["TaskSet", "end_tasks", "every_step", "going_on", "to_the_end"]

logger = logging.getLogger(__name__)

T = TypeVar("T")


async def end_tasks(*tasks: asyncio.Task[Any] | None) -> None:
    """Cancel tasks and return when all have ended; None is skipped. Idempotent.

    Raises nothing of theirs: a task that fails is reported by who started it (`run_forever`, `TaskSet`), else by
    asyncio. A caller that is cancelled meanwhile gets its own `CancelledError`.
    """
    running = [task for task in tasks if task is not None]
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running)


async def every_step(*steps: Callable[[], Awaitable[object] | None]) -> None:
    """Call each step and await what it returns, in order; None is nothing to wait for.

    What a step raises keeps no other from its turn, and no more does a caller that is cancelled: the step under way is
    cancelled, the next ones run. The first error is raised at the end, a cancellation before others; of the rest each
    is logged.
    """
    errors: list[Exception] = []
    cancelled: asyncio.CancelledError | None = None
    for step in steps:
        try:
            if (waiting := step()) is not None:
                await waiting
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
        except Exception as error:  # noqa: BLE001 - raised below, or logged
            errors.append(error)
    for other in errors if cancelled is not None else errors[1:]:
        logger.warning("another step of a close failed: %r", other)
    if cancelled is not None:
        raise cancelled
    if errors:
        raise errors[0]


async def to_the_end(work: Awaitable[T], *, undo: Callable[[T], Awaitable[object]] | None = None) -> T:
    """Wait for `work` and return what it returns, or raise what it raises. A caller that is cancelled, however often,
    does not stop it: it gets its `CancelledError` when the work has ended.

    If the caller was cancelled, the work's error is logged, and its result is handed to `undo`.
    """
    running = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        if running.cancelled():
            raise
        rest = asyncio.ensure_future(_left_alone(running, undo))
        while not rest.done():
            try:
                await asyncio.wait([rest])
            except asyncio.CancelledError:
                continue  # cancelled again: the work is still under way
        error = None if rest.cancelled() else rest.exception()
        if error is not None and not isinstance(error, ShuttingDown):
            logger.warning("what a cancelled caller had begun failed: %r", error)
        raise


async def going_on(work: Awaitable[T]) -> T:
    """Wait for `work` and return what it returns, or raise what it raises. A caller that is cancelled leaves at once;
    the work goes on. If it then fails, its error is dropped: the work itself must record every failure that matters.
    """
    running = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        running.add_done_callback(_drop_error)
        raise


def _drop_error(ended: asyncio.Future[Any]) -> None:
    if not ended.cancelled():
        ended.exception()  # asked for, so that asyncio does not report it as never retrieved


async def _left_alone(running: asyncio.Future[T], undo: Callable[[T], Awaitable[object]] | None) -> None:
    await asyncio.wait([running])
    if not running.cancelled():
        result = running.result()
        if undo is not None:
            await undo(result)


class TaskSet:
    """Tasks that come and go. Belongs to one event loop. `close()` ends what is left.

    A task that fails is logged with its traceback at once, and `failed` is called with the error.
    """

    def __init__(self, *, failed: Failed = only_logged) -> None:
        self._tasks: dict[asyncio.Task[Any], None] = {}
        """In the order in which they were started, and so they are ended."""
        self._failed = failed

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
        """Run `work` in a task. O(1)."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and task.exception() is not None:
            report_failure(task, self._failed)

    async def wait(self, *, timeout_s: float | None = None) -> None:
        """Return when the tasks that run now have ended, or after `timeout_s` seconds."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)

    async def close(self, *, patience_s: float = 0.0) -> None:
        """Give what is under way `patience_s` seconds to end by itself, then cancel it and wait for it. Idempotent.

        A caller that is cancelled has no patience left: no task goes on behind it.
        """
        try:
            if patience_s:
                await self.wait(timeout_s=patience_s)
        finally:
            await end_tasks(*self._tasks)
