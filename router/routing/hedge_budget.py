"""When a reply counts as late, and how many requests may be sent twice. Pure.

A read that takes longer than nearly all others is probably stuck behind something that the next node does not have: a
scan, a checkpoint, a scheduler. Asking a second node then cuts the slowest replies off at a small, bounded price (Dean
and Barroso, "The Tail at Scale", 2013). The budget keeps a cluster that is slow as a whole from being asked twice for
everything just when it has no time for it.
"""

from __future__ import annotations

from typing import Final

__all__ = ["Budget", "Lateness"]

# Below this nothing is late: an event loop that works on one large request holds up others for that long.
_FLOOR_S: Final = 0.01

# What counts as late before anything was measured.
_UNMEASURED_S: Final = 0.05

# One request in a hundred is late, and one in twenty may be sent twice: so some of the budget is left when a node
# stops answering.
_SAMPLES: Final = 512
_PERCENTILE: Final = 0.99

# The percentile is looked for again after so many replies: sorting the samples costs 30 µs.
_RENEW_EVERY: Final = 64


class Lateness:
    """Recent reply times. `late_s` is the 99th percentile of the last 512, and not less than 10 ms."""

    __slots__ = ("_count", "_samples", "late_s")

    def __init__(self) -> None:
        self.late_s = _UNMEASURED_S
        self._samples: list[float] = []
        self._count = 0

    def took(self, seconds: float) -> None:
        """A reply came. O(1), now and then O(512 log 512)."""
        if len(self._samples) < _SAMPLES:
            self._samples.append(seconds)
        else:
            self._samples[self._count % _SAMPLES] = seconds
        self._count += 1
        if self._count % _RENEW_EVERY == 0:
            ordered = sorted(self._samples)
            self.late_s = max(_FLOOR_S, ordered[int(len(ordered) * _PERCENTILE)])


class Budget:
    """The budget of second questions: each request adds a share of one, each second question takes one."""

    __slots__ = ("_left", "_most", "_share")

    def __init__(self, *, share: float = 0.05, most: float = 10.0) -> None:
        self._share = share
        self._most = most
        self._left = most

    def earn(self) -> None:
        """A request was made."""
        if self._left < self._most:
            self._left = min(self._most, self._left + self._share)

    def spend(self) -> bool:
        """May a request be sent twice? If so, the budget has one less."""
        if self._left < 1:
            return False
        self._left -= 1
        return True
