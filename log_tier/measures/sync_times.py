"""How long commits have taken lately, from readings of a histogram that only grows. Pure."""

from __future__ import annotations

from collections import deque
from typing import Final

from log_tier.measures.histogram import HistogramCounts, quantile_between

__all__ = ["SyncTimes"]

WINDOW_S: Final = 10.0
"""A second of a quiet server has a commit or two, of which no share of a hundredth can be taken."""

_KEPT_EACH_S: Final = 0.5
"""Anybody may ask as often as they like: more readings say no more."""

_SHARE: Final = 0.99


class SyncTimes:
    """The readings of the last ten seconds: at most one for each half second, and one before them."""

    def __init__(self) -> None:
        """Without readings."""
        self._readings: deque[tuple[float, HistogramCounts]] = deque()

    def p99(self, at_s: float, counts: HistogramCounts | None) -> float | None:
        """What 99 of 100 commits of the last ten seconds did not exceed, or since the reading before, if that is older.

        `counts`: what the histogram has at `at_s`; None: the log is in another process. None: there was no commit, or
        this is the first reading.
        """
        if counts is None:
            return None
        readings = self._readings
        while len(readings) > 1 and at_s - readings[1][0] >= WINDOW_S:
            readings.popleft()
        earlier = readings[0][1] if readings else counts
        if not readings or at_s - readings[-1][0] >= _KEPT_EACH_S:
            readings.append((at_s, counts))
        return quantile_between(earlier, counts, _SHARE)
