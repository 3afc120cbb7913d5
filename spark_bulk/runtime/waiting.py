"""Async code for callers that block: a Spark program, or a notebook, whose thread may run an event loop already.

All calls go to the one loop of the process that runs in a thread (`log_tier.concurrency.background_loop`).
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from log_tier.concurrency.background_loop import background_loop
from log_tier.model.errors import ShuttingDown

__all__ = ["wait_for"]

T = TypeVar("T")


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, and return or raise what it does. Interrupted, it is cancelled first."""
    running = background_loop().submit(lambda: work)
    if running is None:
        work.close()
        raise ShuttingDown("the interpreter is ending: nothing new is begun")
    try:
        return running.result()
    except BaseException:
        running.cancel()
        raise
