"""The last slow calls: a ring with a bound on how many it takes in a second. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice
from math import inf
from typing import Final

from log_tier.slow_calls.slow_call import SlowCall

__all__ = ["CALLS_KEPT_MAX", "NOTED_MAX_PER_S", "SlowRing"]

CALLS_KEPT_MAX: Final = 128
"""As many as Redis keeps. Each takes some 600 bytes."""

NOTED_MAX_PER_S: Final = 128
"""To look at a call takes some 30 µs, and a disk that stalls makes thousands slow at once."""


class SlowRing:
    """Belongs to one event loop.

    Invariants: at most `CALLS_KEPT_MAX` calls, newest last, with rising numbers; `total` counts every slow call, and
    `left_out` those of them that were never in the ring.
    """

    def __init__(self, *, kept_max: int = CALLS_KEPT_MAX) -> None:
        self._calls: deque[SlowCall] = deque(maxlen=kept_max)
        self.kept_max = kept_max
        self.total = 0
        self.left_out = 0
        self._noted = 0
        """Calls of the present second."""
        self._second_s = -inf
        """When that began."""

    def __len__(self) -> int:
        return len(self._calls)

    def admits(self, now_s: float) -> bool:
        """A call was slow: is there room for it in this second? If so, `add` has to follow. O(1)."""
        if now_s - self._second_s >= 1.0:
            self._second_s, self._noted = now_s, 0
        number = self._noted
        self._noted += 1
        self.total += 1
        if number < NOTED_MAX_PER_S:
            return True
        self.left_out += 1
        return False

    @property
    def next_number(self) -> int:
        """The number of the call that is added next."""
        return self.total - self.left_out - 1

    def add(self, call: SlowCall) -> None:
        """Keep a call that was admitted; the oldest one makes room."""
        assert call.number == self.next_number, f"call {call.number} is added as number {self.next_number}"
        self._calls.append(call)

    def newest(self, count: int | None = None) -> Sequence[SlowCall]:
        """The newest calls first, all of them or at most so many."""
        return list(islice(reversed(self._calls), count))

    def clear(self) -> None:
        """Forget the calls. The counts go on."""
        self._calls.clear()
