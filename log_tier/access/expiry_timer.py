"""When a proof expires, something happens: by the wall clock, which somebody may set meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from log_tier.concurrency.clocks import Clock

__all__ = ["LOOK_S", "ExpiryTimer"]

LOOK_S: Final = 5.0
"""A clock that is set forward is noticed so late at most. One look costs 1 µs: 10,000 open streams, 2 ms a second."""


class _TimerLoop(Protocol):
    def call_later(self, delay: float, callback: Callable[[], None], /) -> asyncio.TimerHandle: ...


class ExpiryTimer:
    """Calls `expired` once, in the first look at which `clock` has reached the time. Belongs to one event loop.

    A loop's timer alone counts seconds, and not dates: it fires too early where the clock was set back meanwhile, and
    too late where it was set forward. Invariant: until `expired` is called or `cancel`, one look is scheduled.
    """

    def __init__(self, expires_ms: int, expired: Callable[[], None], *, clock: Clock, loop: _TimerLoop) -> None:
        """`expires_ms`: since 1970. `expired` is called in a turn of its own, also for a time that is over."""
        self._expires_ms = expires_ms
        self._expired = expired
        self._clock = clock
        self._loop = loop
        self._timer = loop.call_later(self._left_s(), self._look)

    def _left_s(self) -> float:
        return min(LOOK_S, max(0.0, (self._expires_ms - self._clock.wall_ms()) / 1000))

    def _look(self) -> None:
        if self._clock.wall_ms() < self._expires_ms:
            self._timer = self._loop.call_later(self._left_s(), self._look)
        else:
            self._expired()

    def cancel(self) -> None:
        """Never call it. Idempotent."""
        self._timer.cancel()
