"""The two clocks of a process, behind one seam.

A component that measures durations or compares with timestamps takes a `Clock`, so that a test or a simulation hands it
another one. Deadlines of coroutines are on the event loop's own clock (`loop.time()`), which is a seam already.
"""

from __future__ import annotations

import time
from typing import Final, Protocol

__all__ = ["SYSTEM_CLOCK", "Clock", "SystemClock"]


class Clock(Protocol):
    """The seam to the machine's clocks: the monotonic one for durations, the wall clock for dates."""

    def monotonic_s(self) -> float:
        """Seconds since an arbitrary time. Never falls; means nothing in another process."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC. An operator or NTP may set it forward or back."""
        ...


class SystemClock:
    """The machine's clocks."""

    @staticmethod
    def monotonic_s() -> float:
        """Seconds that only grow, from an arbitrary start. Some 50 ns."""
        return time.monotonic()

    @staticmethod
    def wall_ms() -> int:
        """Milliseconds since 1970. Some 50 ns."""
        return time.time_ns() // 1_000_000


SYSTEM_CLOCK: Final[Clock] = SystemClock()
