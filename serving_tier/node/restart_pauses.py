"""The pauses of a node before it brings up again a replica that stopped, and how often the replica stopped."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from log_tier.concurrency.backoff import Backoff
from log_tier.concurrency.clocks import SYSTEM_CLOCK
from log_tier.model.identifiers import PartitionId

__all__ = ["RestartPauses"]

# A replica that goes on for so long before it stops again is brought up without a pause.
_STEADY_S: Final = 60.0


def _at_least_half() -> float:
    """The part of each pause that is drawn at random. Half of it stays, for an operator who reads the log."""
    return random.uniform(0.5, 1.0)


class RestartPauses:
    """The pauses grow where a replica stops again and again, so that each stop can be read in the process' log."""

    def __init__(self, *, first_s: float, max_s: float, clock: Callable[[], float] = SYSTEM_CLOCK.monotonic_s) -> None:
        """`clock`: monotonic seconds."""
        self._clock = clock
        self._first_s, self._max_s = first_s, max_s
        self._stops: dict[PartitionId, tuple[float, float, Backoff]] = {}
        """When a replica stopped last, on `clock`, the pause after it, and the pauses that follow."""
        self._causes: dict[PartitionId, tuple[str, int]] = {}
        """Why a replica stopped last, and how often in a row."""

    def times(self, name: PartitionId, cause: str) -> int:
        """How often in a row a replica has stopped by the same cause, with the stop that happens now."""
        last, count = self._causes.get(name, ("", 0))
        count = count + 1 if cause == last and not self._was_steady(name) else 1
        self._causes[name] = cause, count
        return count

    def _was_steady(self, name: PartitionId) -> bool:
        stop = self._stops.get(name)
        if stop is None:
            return True
        last, pause, _ = stop
        return self._clock() - last > _STEADY_S + pause

    def after_stop(self, name: PartitionId) -> float:
        """The pause after a stop that happens now, in seconds; drawn at random, so that replicas do not come up
        together."""
        if self._was_steady(name):
            backoff, pause = Backoff(self._first_s, self._max_s, chance=_at_least_half), 0.0
        else:
            backoff = self._stops[name][2]
            pause = backoff.next_s()
        self._stops[name] = self._clock(), pause, backoff
        return pause

    def forget(self, name: PartitionId) -> None:
        """Forget a replica that this node does not host any more."""
        self._stops.pop(name, None)
        self._causes.pop(name, None)
