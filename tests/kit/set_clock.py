"""A clock that a test sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from log_tier.concurrency.clocks import SYSTEM_CLOCK

__all__ = ["HandClock", "SetClock"]


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


class HandClock:
    """A `Clock` whose both times a test moves on: `clock.seconds += 1`."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic_s(self) -> float:
        return self.seconds

    def wall_ms(self) -> int:
        return round(self.seconds * 1000)

    def wall_us(self) -> int:
        return round(self.seconds * 1_000_000)

    def busy_s(self) -> float:
        return SYSTEM_CLOCK.busy_s()
