"""Exponential backoff with full jitter, bounded by a deadline: the one retry policy of this repository.

    backoff = Backoff(_PAUSE_FIRST_S, _PAUSE_MAX_S, deadline_s=deadline)
    while True:
        try:
            return await ask()
        except Unavailable:
            if not await backoff.pause():
                raise

The n-th pause is drawn evenly from 0 to `first_s` * 2^n, at most `max_s`. Callers that lost the same server at the same
time so come back spread out over the whole pause, and not in step (Marc Brooker, *Exponential Backoff And Jitter*, AWS
Architecture Blog, 2015: full jitter needs the fewest calls).

The caller may hand in its source of randomness. Time is the event loop's, which a simulation replaces as a whole.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable

__all__ = ["Backoff"]


class Backoff:
    """The pauses of one caller between its tries.

    Invariant: 0 <= the next pause <= `max_s`.
    """

    __slots__ = ("_chance", "_deadline_s", "_first_s", "_heard", "_limit_s", "_tried_s", "max_s")

    def __init__(
        self,
        first_s: float,
        max_s: float,
        *,
        deadline_s: float = math.inf,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`deadline_s`: on the event loop's clock; no try begins at it or later. `chance`: draws evenly from [0, 1)."""
        assert 0 <= first_s <= max_s, f"pauses from {first_s} s to {max_s} s"
        self.max_s = max_s
        """The caller may change it between two pauses, to try an absent server sooner than a broken one."""
        self._first_s = self._limit_s = first_s
        self._deadline_s = deadline_s
        self._chance = chance
        self._tried_s = -math.inf
        """When the last pause ended, and a try began."""
        self._heard = False

    def reset(self) -> None:
        """Begin with short pauses again: a try has succeeded."""
        self._limit_s = self._first_s

    def heard(self) -> None:
        """Of a try that is a stream something came: it has succeeded if it goes on for longer than the longest pause,
        which the next `pause` judges. A server that ends each stream behind its first message would else be asked for
        ever, as often as the shortest pause lets.
        """
        self._heard = True

    def next_s(self) -> float:
        """Draw the next pause, in seconds."""
        limit_s = min(self._limit_s, self.max_s)
        self._limit_s = limit_s * 2
        return limit_s * self._chance()

    async def pause(self) -> bool:
        """Sleep until the next try. False, without a sleep, where that try would come too late.

        Raises `CancelledError` where the task was cancelled, also if an error of a cleanup took the place of that: who
        ended the task waits for its end.
        """
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError
        loop = asyncio.get_running_loop()
        if self._heard and loop.time() - self._tried_s >= self.max_s:
            self.reset()
        self._heard = False
        pause_s = self.next_s()
        if loop.time() + pause_s >= self._deadline_s:
            return False
        await asyncio.sleep(pause_s)
        self._tried_s = loop.time()
        return True
