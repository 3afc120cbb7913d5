"""How long a node waits before it brings a replica up again that stopped."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from log_tier.concurrency.clocks import SYSTEM_CLOCK
from log_tier.model.identifiers import PartitionId

__all__ = ["RestartPauses"]

# A replica that goes on for so long before it stops again is brought up without a pause.
_STEADY_S: Final = 60.0


class RestartPauses:
    """The pauses grow where a replica stops again and again, so that each stop can be read in the process' log."""

    def __init__(self, *, first_s: float, max_s: float, clock: Callable[[], float] = SYSTEM_CLOCK.monotonic_s) -> None:
        """`clock`: monotonic seconds."""
        self._clock = clock
        self._first_s, self._max_s = first_s, max_s
        self._stops: dict[PartitionId, tuple[float, float]] = {}
        """When a replica stopped last, on `clock`, and the pause after it."""

    def after_stop(self, name: PartitionId) -> float:
        """The pause after a stop that happens now, in seconds; shortened at random, so that replicas do not come up
        together."""
        now = self._clock()
        last, pause = self._stops.get(name, (-_STEADY_S, 0.0))
        pause = 0.0 if now - last > _STEADY_S + pause else min(max(pause * 2, self._first_s), self._max_s)
        self._stops[name] = now, pause
        return pause * random.uniform(0.5, 1.0)

    def forget(self, name: PartitionId) -> None:
        """This node does not host it any more."""
        self._stops.pop(name, None)
