"""Calls that may be made again: questions, which change nothing, asked until a server answers or the time is over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from log_tier.concurrency.backoff import Backoff
from log_tier.model.errors import DeadlineExceeded, Unavailable

__all__ = ["ask_until"]

T = TypeVar("T")

_PAUSE_FIRST_S: Final = 0.02
_PAUSE_MAX_S: Final = 0.5


async def ask_until(deadline: float, ask: Callable[[float], Awaitable[T]]) -> T:
    """`await ask(remaining seconds)`, again after an error with which a retry can help.

    `deadline` is on the event loop's clock. When the next try would come too late, or the last one ran out of time,
    raises the last error that had another reason than the time.
    """
    loop = asyncio.get_running_loop()
    backoff = Backoff(_PAUSE_FIRST_S, _PAUSE_MAX_S, deadline_s=deadline)
    reason: Unavailable | None = None
    while True:
        try:
            return await ask(max(0.0, deadline - loop.time()))
        except DeadlineExceeded as error:
            if reason is not None:
                raise reason from error
            raise
        except Unavailable as error:
            if error.fields.get("ended"):
                raise  # the version in which a read began: only a new read can help
            reason = error
            if not await backoff.pause():
                raise
