"""When a proof expires, something happens: by the wall clock, which somebody may set meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from log_tier.concurrency.clocks import Clock

__all__ = ["LOOK_S", "ExpiryTimer", "FirstExpiry"]

LOOK_S: Final = 5.0
"""A clock that is set forward is noticed so late at most. One look costs 1 µs."""


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


class FirstExpiry:
    """Calls `expired` when the first of many proofs expires. Belongs to one event loop; one timer for all of them.

    Invariant: a time that was given and is not over has a timer, or an earlier one has; `expired` gives again what it
    still waits for.
    """

    def __init__(self, expired: Callable[[], None], *, clock: Clock) -> None:
        self._expired = expired
        self._clock = clock
        self._expires_ms = 0
        """What the timer waits for; 0: there is none."""
        self._timer: ExpiryTimer | None = None

    def await_ms(self, expires_ms: int) -> None:
        """Call `expired` at this time, in ms since 1970, or before; 0: never. 0.1 µs where it is not the first one."""
        if not expires_ms or 0 < self._expires_ms <= expires_ms:
            return
        self.cancel()
        self._expires_ms = expires_ms
        self._timer = ExpiryTimer(expires_ms, self._reached, clock=self._clock, loop=asyncio.get_running_loop())

    def _reached(self) -> None:
        self._expires_ms, self._timer = 0, None
        self._expired()

    def cancel(self) -> None:
        """Wait for nothing. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._expires_ms, self._timer = 0, None
