"""The clocks of the processes of a simulation."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

__all__ = ["SimulatedClock", "SlowTurnClock"]

_BEGIN_MS: Final = 1_700_000_000_000
_SLOW_TURN_S: Final = 0.005
_SLOW_CHANCE: Final = 0.01


class SimulatedClock:
    """A `Clock` in virtual time. Its wall clock can be set, as an operator or NTP sets one; the other ones go on."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._set_us = 0

    def step(self, seconds: float) -> None:
        """Set the wall clock forward, or back."""
        self._set_us += int(seconds * 1_000_000)

    def monotonic_s(self) -> float:
        return self._now_s()

    def wall_ms(self) -> int:
        return self.wall_us() // 1000

    def wall_us(self) -> int:
        return int(self._now_s() * 1_000_000) + _BEGIN_MS * 1000 + self._set_us

    def busy_s(self) -> float:
        return 0.0  # virtual time hardly passes while anybody works


class SlowTurnClock(SimulatedClock):
    """The same for what measures its own work: now and then a turn of the loop takes longer than it may."""

    def __init__(self, now_s: Callable[[], float], chance: random.Random) -> None:
        super().__init__(now_s)
        self._chance = chance
        self._passed_s = 0.0

    def monotonic_s(self) -> float:
        self._passed_s += _SLOW_TURN_S if self._chance.random() < _SLOW_CHANCE else 0.0
        return self._now_s() + self._passed_s
