"""The turns of all connections of an endpoint: together they are no longer than a turn of the event loop may be.

A loop hands on what all sockets have received in one turn. What one connection does of it is bounded by `Client`; three
hundred connections with ten commands each would still be 30 ms. So when `TURN_S` of a turn is over, what comes is kept,
and its connections wait in one line, from which each following turn takes as many as its time goes.

The line gives the same time to each user who waits in it (`fair_line.py`): a thousand connections of one user get what
one connection of another gets. While a connection of a user waits, so does what comes for that user's others.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, Protocol

from router.endpoints.resp.connection.fair_line import FairLine
from router.endpoints.resp.wire.limits import OUTPUT_PAUSE_BYTES

__all__ = ["TURN", "TURN_S", "TURN_SHARE_OF_BYTES", "TURN_SHARE_OF_RUNS", "Loop", "SharedTurns"]

TURN: Final = 1024
"""Commands of a connection that are worked off before others get their turn at the event loop; some 5 ms."""

TURN_SHARE_OF_BYTES: Final = OUTPUT_PAUSE_BYTES // (TURN // 2)
"""Bytes of replies that count as one command: to send a MiB of them takes some 1 ms, half of such a turn."""

TURN_SHARE_OF_RUNS: Final = 4
"""Commands of a run that count as one: each costs a quarter of others."""

TURN_S: Final = 0.004
"""Others get their turn after this time, whatever was done in it: commands differ a thousandfold in what they cost."""

_LOOKED_S: Final = TURN_S / 4
"""A new turn is looked for so often: to be called in it costs the loop a round through the system."""

_NEXT_S: Final = 0.0002
"""Chunks that come so soon after each other may be of one turn, and there may be many of them."""

_LONG_BYTES: Final = 1024
"""And one of so many bytes may take a while."""


class Loop(Protocol):
    """What is used of an event loop."""

    def call_soon(self, callback: Callable[[], None], /) -> object: ...
    def call_later(self, delay: float, callback: Callable[..., None], /, *arguments: object) -> object: ...


class SharedTurns:
    """Who is next. Belongs to one event loop.

    Invariant: while somebody waits, `_run` is scheduled.
    """

    def __init__(self, loop: Loop, now_s: Callable[[], float]) -> None:
        self._loop = loop
        self._now_s = now_s
        self._asked_s = self._looked_s = 0.0
        self._measures = False
        """Is `_ends_s` that of the loop's turn under way?"""
        self._ends_s = 0.0
        self._waiting = FairLine()

    def is_over(self, size: int, user: Hashable) -> bool:
        """Is the time over for what comes from sockets of this user in this turn? Asked before each chunk, of so many
        bytes. 0.2 µs.

        A client that sends a command and waits for its reply is never looked at closely.
        """
        if user in self._waiting:
            return True
        now_s = self._now_s()
        if self._measures:
            return now_s > self._ends_s
        before_s, self._asked_s = self._asked_s, now_s
        if now_s - self._looked_s > _LOOKED_S and (now_s - before_s < _NEXT_S or size > _LONG_BYTES):
            self._looked_s, self._ends_s = now_s, now_s + TURN_S
            self._measures = True
            self._loop.call_soon(self._next)
        return False

    def _next(self) -> None:
        self._measures = False

    def wait(self, work: Callable[[], None], user: Hashable, after_s: float = 0.0) -> None:
        """Call `work` in a later turn, after what waits already for its user. `after_s`: it joins in so many seconds.
        `user`: whose share of time it takes; a connection that is nobody's stands for itself.
        """
        if after_s:
            self._loop.call_later(after_s, self.wait, work, user)
            return
        if not self._waiting:
            self._loop.call_soon(self._run)
        self._waiting.add(user, work)

    def _run(self) -> None:
        """Call the work that waited before this turn, as far as its time goes; at least one."""
        waiting, now_s = self._waiting, self._now_s()
        ends_s = now_s + TURN_S
        try:
            for _ in range(len(waiting)):
                began_s = now_s
                try:
                    waiting.first()()
                finally:  # also after a bug of ours in one connection's work: the others go on
                    now_s = self._now_s()
                    waiting.done(now_s - began_s)
                if now_s > ends_s:
                    break
        finally:
            if waiting:
                self._loop.call_soon(self._run)
