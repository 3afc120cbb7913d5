"""Histograms: how many measured values were how large. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import Final, NamedTuple

__all__ = ["BYTES", "LONG_SECONDS", "SECONDS", "Histogram", "HistogramCounts", "quantile_between"]

SECONDS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Bounds for what a caller waits for: from a read in memory to a call that has run out of time."""
LONG_SECONDS: Final = (0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
"""Bounds for work that copies whole indexes."""
BYTES: Final = (256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0, 16777216.0, 67108864.0)
"""Bounds for sizes of writes: the largest is what may wait for the disk."""


class HistogramCounts(NamedTuple):
    """What a histogram held when it was read."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    """For each bound, how many values were at most that large; the last one counts all values."""
    total: float
    """The sum of all values."""


class Histogram:
    """Counts values by size. One thread observes at a time; any thread may read.

    Where a call more would be felt, a hot path does what `observe` does in its own lines.
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        """`bounds`: rising. A value belongs to the first bound that is not smaller, or behind the last one."""
        self.bounds = tuple(bounds)
        assert all(low < high for low, high in zip(self.bounds, self.bounds[1:], strict=False)), f"{bounds} do not rise"
        self.counts = [0] * (len(self.bounds) + 1)
        """How many values are in each bucket; the last has those above all bounds."""
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count a value. Some 0.3 µs."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def read(self) -> HistogramCounts:
        """What was counted so far. O(bounds)."""
        return HistogramCounts(self.bounds, tuple(accumulate(self.counts)), self.total)


def quantile_between(earlier: HistogramCounts, later: HistogramCounts, share: float) -> float | None:
    """What `share` (0.99) of the values that were counted between two readings did not exceed; None: there were none.

    Values of one bucket count as spread evenly over it. Beyond the last bound: that bound. O(bounds).
    """
    counts = [new - old for new, old in zip(later.counts, earlier.counts, strict=True)]
    wanted = share * counts[-1]
    if not counts[-1]:
        return None
    below, low = 0, 0.0
    for bound, count in zip(later.bounds, counts[:-1], strict=True):
        if count >= wanted:
            return low + (bound - low) * (wanted - below) / (count - below)
        below, low = count, bound
    return low
