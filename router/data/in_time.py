"""A call's timeout, as the error that its caller gets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from log_tier.model.errors import DeadlineExceeded

__all__ = ["end_waiting", "in_time", "time_left"]


@asynccontextmanager
async def in_time(timeout: float, what: str) -> AsyncIterator[None]:
    """Raise `DeadlineExceeded`, which begins with `what`, where the block takes longer than `timeout` seconds.

    A change of the cluster that is under way then goes on (`router.data.catalog_tables` shields it): the next
    look says what came of it.
    """
    try:
        async with asyncio.timeout(timeout) as limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise DeadlineExceeded(f"{what} within {timeout:g} s; ask again with more time") from None


def time_left(timeout: float) -> Callable[[], float]:
    """How much of `timeout` is left, in seconds, whenever it is called."""
    time = asyncio.get_running_loop().time
    ends_s = time() + timeout
    return lambda: max(0.0, ends_s - time())


def end_waiting(appending: asyncio.Future[Any]) -> None:
    """End an append whose time is over: its waiter gets `TimeoutError`. A timer calls this, which costs a third of
    `asyncio.timeout`.
    """
    if not appending.done():
        appending.set_exception(TimeoutError())
