"""How many requests take so many seconds, for load generators that want a number and not a time.

Runs of growing length, each long enough to trust the next guess a little further, until one is long enough to be
trusted with the whole. They are the warm-up at the same time: nothing of them is reported.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

__all__ = ["calibrated"]

FIRST_REQUESTS: Final = 1000
"""A fraction of a second against the slowest server here, and enough to open every connection."""

TRUSTED_SECONDS: Final = 0.5
"""A run of this length says how fast the following one will be, give or take what a shared machine does."""

_GROWTH_MAX: Final = 20
"""From one guess to the next: the first runs measure how long connecting takes as much as anything else."""

_ROUNDS_MAX: Final = 20
"""20 to that power is beyond any count: who gets here has a server whose speed means nothing."""


async def calibrated(rate: Callable[[int], Awaitable[float]], *, seconds: float) -> int:
    """The number of requests, at least 1, that takes about `seconds`.

    `rate(requests)` makes so many and returns how many a second that was. It is called with up to `TRUSTED_SECONDS`
    worth of requests, or `seconds` where that is less, and some more. Raises `ValueError` where a rate is not above
    zero, or never settles.
    """
    trusted = min(TRUSTED_SECONDS, seconds)
    requests = FIRST_REQUESTS
    for _ in range(_ROUNDS_MAX):
        found = await rate(requests)
        if found <= 0:
            raise ValueError(f"{requests} requests went at {found} a second: nothing to reckon with")
        if requests / found >= trusted:
            return max(1, round(found * seconds))
        # A fifth more than needed, or a server that gets a little faster would never be trusted.
        requests = min(requests * _GROWTH_MAX, round(found * trusted * 1.2) + 1)
    raise ValueError(f"after {_ROUNDS_MAX} runs the last, of {requests} requests, was still shorter than {trusted} s")
