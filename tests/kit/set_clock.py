"""A clock that a test sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from log_tier.concurrency.clocks import SYSTEM_CLOCK

__all__ = ["SetClock"]


@dataclass(frozen=True)
class SetClock:
    """A `Clock` of the functions that a test gives; the machine's for the others."""

    wall: Callable[[], int] = SYSTEM_CLOCK.wall_ms
    monotonic: Callable[[], float] = SYSTEM_CLOCK.monotonic_s

    def monotonic_s(self) -> float:
        return self.monotonic()

    def wall_ms(self) -> int:
        return self.wall()

    def wall_us(self) -> int:
        return self.wall() * 1000

    def busy_s(self) -> float:
        return SYSTEM_CLOCK.busy_s()
