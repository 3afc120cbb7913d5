"""A call's timeout, as the error that its caller gets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from log_tier.model.errors import DeadlineExceeded

__all__ = ["in_time"]


@asynccontextmanager
async def in_time(timeout: float, what: str) -> AsyncIterator[None]:
    """Raise `DeadlineExceeded`, which begins with `what`, where the block takes longer than `timeout` seconds.

    A change of the cluster that is under way then goes on (`router.data.tables` shields it): the next look says what
    came of it.
    """
    try:
        async with asyncio.timeout(timeout) as limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise DeadlineExceeded(f"{what} within {timeout:g} s; ask again with more time") from None
