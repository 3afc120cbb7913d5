"""A wall clock at which days pass when a test says so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from kit.set_clock import SetClock

__all__ = ["PassingDays"]


class PassingDays:
    """A time that stands still until it is moved. By default it begins with the machine's, in whole seconds."""

    def __init__(self, now: datetime | None = None) -> None:
        self.now = (now or datetime.now(UTC)).replace(microsecond=0)
        self.clock = SetClock(wall=lambda: int(self.now.timestamp() * 1000))

    def pass_days(self, days: float) -> None:
        """Move the clock; a negative number sets it back."""
        self.now += timedelta(days=days)
