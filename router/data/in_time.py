"""A call's timeout, as the error that its caller gets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from log_tier.model.errors import DeadlineExceeded

__all__ = ["in_time", "time_left"]


@asynccontextmanager
async def in_time(timeout: float, what: str) -> AsyncIterator[None]:
    """Raise `DeadlineExceeded`, which begins with `what`, where the block takes longer than `timeout` seconds.

    A change of the cluster that is under way then goes on (`router.data.catalog_tables` shields it): the next look says
    what came of it.
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
