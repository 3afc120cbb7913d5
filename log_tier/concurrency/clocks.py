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

    def wall_us(self) -> int:
        """Wall-clock time in microseconds since 1970."""
        ...

    def busy_s(self) -> float:
        """Seconds of a processor that this thread has had."""
        ...


class SystemClock:
    """The machine's clocks. Some 50 ns each, but for `busy_s`."""

    monotonic_s = staticmethod(time.monotonic)
    """Seconds that only grow, from an arbitrary start."""
    busy_s = staticmethod(time.thread_time)
    """Seconds of a processor. Some 300 ns: a system call."""

    @staticmethod
    def wall_ms() -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    @staticmethod
    def wall_us() -> int:
        """Microseconds since 1970."""
        return time.time_ns() // 1_000


SYSTEM_CLOCK: Final[Clock] = SystemClock()
