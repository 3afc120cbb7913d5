"""The turns of all users of a server: together they are no longer than a turn of the event loop may be.

A loop hands on what all sockets have received in one turn. What one connection does of it is bounded by `Client`; three
hundred connections with ten commands each would still be 30 ms. So when `TURN_S` of a turn is over, what comes is kept,
and its connections wait in one line, from which each following turn takes as many as its time goes.

The line gives the same time to each user who waits in it (`fair_line.py`): a thousand connections of one user get what
one connection of another gets. While a connection of a user waits, so does what comes for that user's others, and by
gRPC.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Final, Protocol

from log_tier.model.errors import Overloaded
from router.endpoints.turns.fair_line import FairLine, TurnWork

__all__ = ["CALLS_MAX", "CALL_S", "SHORT_TURN_S", "TURN_S", "Loop", "SharedTurns"]

TURN_S: Final = 0.004
"""Others get their turn after this time, whatever was done in it: commands differ a thousandfold in what they cost."""

SHORT_TURN_S: Final = TURN_S / 4
"""The same while somebody calls who has nothing in the line: a call of gRPC goes through some twenty turns."""

_CALLED_S: Final = 0.1
"""Turns are short for so long after such a call: who calls ten times a second finds them so."""

CALL_S: Final = 0.0002
"""What a call of gRPC costs the loop after its turn has come, spread over many of the loop's turns."""

CALLS_MAX: Final = 4096
"""Calls of gRPC in the line, of all users. Each holds its message."""

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
        self.is_short = False
        """Are turns short now?"""
        self.turn_s = TURN_S
        """How long the work of a turn may take now."""
        self._called_s = 0.0
        """When somebody called who had nothing in the line."""
        self.calls_waiting = 0
        """Calls of gRPC in the line."""

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
            self._looked_s, self._ends_s = now_s, now_s + self.turn_s
            self._measures = True
            self._loop.call_soon(self._next)
        return False

    def _next(self) -> None:
        self._measures = False

    def must_wait(self, user: Hashable) -> bool:
        """Does a call of gRPC of this user wait for its turn? 0.1 µs while nobody waits."""
        if not self._waiting:
            return False
        if user in self._waiting:
            return True
        self.passes(user)
        return False

    def passes(self, user: Hashable) -> None:
        """Work of a user begins that goes through several turns of the loop: they are short where others are in the
        line, and this user is not. 0.1 µs while nobody waits.
        """
        if self._waiting and user not in self._waiting:
            self._called_s = self._now_s()
            self._shorten(True)

    def _shorten(self, is_short: bool) -> None:
        self.is_short, self.turn_s = is_short, SHORT_TURN_S if is_short else TURN_S

    async def take_turn(self, user: Hashable) -> None:
        """Wait for the turn of a call of gRPC, behind what waits already for its user. Raises `Overloaded` where too
        many do.
        """
        if self.calls_waiting >= CALLS_MAX:
            raise Overloaded(f"{CALLS_MAX} calls wait for their turn at this server: try again", limit=CALLS_MAX)
        come: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def begin() -> float:
            if come.done():  # its client has gone
                return 0.0
            come.set_result(None)
            return CALL_S

        self.calls_waiting += 1
        try:
            self.wait(begin, user)
            await come
        finally:
            self.calls_waiting -= 1

    def wait(self, work: TurnWork, user: Hashable, after_s: float = 0.0) -> None:
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
        if self.is_short and now_s - self._called_s > _CALLED_S:
            self._shorten(False)
        ends_s = now_s + self.turn_s
        try:
            for _ in range(len(waiting)):
                began_s, later_s = now_s, 0.0
                try:
                    later_s = waiting.first()() or 0.0
                finally:  # also after a bug of ours in one connection's work: the others go on
                    now_s = self._now_s()
                    waiting.done(now_s - began_s + later_s)
                ends_s -= later_s
                if now_s > ends_s:
                    break
        finally:
            if waiting:
                self._loop.call_soon(self._run)
            else:
                self._shorten(False)
