"""Tasks that run for as long as their owner does. One that ends by itself ends its owner, loudly.

A loop that follows the map, or asks the log every second, has no caller that would see its error: asyncio keeps it
until the task is collected, and the owner goes on without the loop. `run_forever` logs the error with its traceback at
once, and hands it to the owner.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from log_tier.model.errors import DuramenError, ShuttingDown

__all__ = ["Failed", "failing", "only_logged", "report_error", "report_failure", "run_forever"]

logger = logging.getLogger(__name__)

Failed = Callable[[DuramenError], None]
"""Called once, on the event loop, with why a background task ended."""


def only_logged(error: DuramenError) -> None:
    """The `Failed` of an owner that can go on without the task: its log says so."""


def failing(ended: asyncio.Future[DuramenError]) -> Failed:
    """A `Failed` that sets a future to the first error."""
    return lambda error: None if ended.done() else ended.set_result(error)


def run_forever(work: Coroutine[Any, Any, None], *, name: str, failed: Failed = only_logged) -> asyncio.Task[None]:
    """Start a task that ends by cancellation alone. Whatever else ends it is logged, and `failed` is called with it.

    `ShuttingDown` is no failure: what the task works with was closed before it.
    """
    task = asyncio.get_running_loop().create_task(work, name=name)
    task.add_done_callback(lambda task: _ended(task, failed))
    return task


def _ended(task: asyncio.Task[None], failed: Failed) -> None:
    if not task.cancelled():
        report_failure(task, failed)


def report_failure(task: asyncio.Task[Any], failed: Failed) -> None:
    """Log with its traceback why a task ended, and call `failed` with it. `ShuttingDown` is no failure."""
    report_error(task.get_name(), task.exception(), failed)


def report_error(name: str, error: BaseException | None, failed: Failed) -> None:
    """`report_failure`, for an error that did not end a task."""
    if isinstance(error, ShuttingDown):
        return
    logger.error("%s ended", name, exc_info=error)
    reason = (
        "it came to its end" if error is None else error.message if isinstance(error, DuramenError) else repr(error)
    )
    failed(DuramenError(f"{name} ended ({reason}): restart this process; its log has the traceback"))
