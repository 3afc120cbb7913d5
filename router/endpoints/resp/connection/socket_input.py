"""Whether a connection's socket is read: on, while its queues are below their limits.

Commands that wait take memory. So the socket is not read on while many of them wait, and the client's bytes stay in the
kernel's buffers and in its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sized
from itertools import chain
from typing import Final

from router.endpoints.resp.wire.fallback_parser import RespCommand
from router.endpoints.resp.wire.framing import RequestStream
from router.endpoints.resp.wire.limits import BACKLOG_BYTES_MAX, QUEUED_BYTES_MAX, QUEUED_COMMANDS_MAX

__all__ = ["SocketInput"]

logger = logging.getLogger(__name__)

# uvloop reads up to 32 chunks of 256 KB from one socket before it goes on with others: 30 to 50 ms of parsing. After a
# chunk of this size the others come first.
_CHUNK_OF_A_TURN: Final = 128 * 1024

# More words than these are not looked at one by one: what Python takes for each is a bound that is near enough.
_WORDS_MAX: Final = 64 * 1024
_WORD_BYTES: Final = 48


class SocketInput:
    """The incoming direction of one connection.

    `name`: what the log calls the client.
    """

    __slots__ = ("_intake", "_name", "_transport", "on", "queue", "queued_bytes")

    def __init__(
        self, transport: asyncio.Transport, intake: RequestStream, queue: Sized, name: Callable[[], str]
    ) -> None:
        self._transport = transport
        self._intake = intake
        self.queue = queue
        """The commands that were parsed and have not begun."""
        self._name = name
        self.on = True
        """Is the socket read?"""
        self.queued_bytes = 0
        """What came since the queue was empty."""

    @property
    def waiting_bytes_max(self) -> int:
        """The bytes of commands that wait here, or more: those that came since the queue was empty."""
        return max(self.queued_bytes, self._intake.waiting_bytes + self._intake.held)

    def waiting_bytes(self, queued: Collection[RespCommand]) -> int:
        """The bytes of commands that wait here, of which `queued` were parsed. O(words), at most 1 ms."""
        words = sum(map(len, queued))
        if words > _WORDS_MAX:
            parsed = words * _WORD_BYTES
        else:
            parsed = sum(map(len, chain.from_iterable(queued)))
        return self._intake.waiting_bytes + self._intake.held + parsed

    def has_room(self, *, stalled: bool) -> bool:
        """May more be read? `stalled`: the client does not read its replies. It may send a pipeline of a size."""
        if stalled:
            waiting = self._intake.waiting_bytes
            if waiting > BACKLOG_BYTES_MAX and self.on:
                logger.warning(
                    "%s: %s bytes of commands wait until it reads its replies, more than %s: it is not read until then",
                    *(self._name(), waiting, BACKLOG_BYTES_MAX),
                )
            return waiting <= BACKLOG_BYTES_MAX
        return (
            not self._intake.more and len(self.queue) <= QUEUED_COMMANDS_MAX and self.queued_bytes <= QUEUED_BYTES_MAX
        )

    def took(self, size: int, *, stalled: bool) -> bool:
        """A chunk of `size` bytes has come and was worked off as far as possible: read on, if there is room. True where
        others get their turn before: `turn_on_again` has to follow in the next one.
        """
        if not self.queue and not self._intake.more:
            self.queued_bytes = 0
        elif self.on and not self.has_room(stalled=stalled):
            self.turn(False)
        if size < _CHUNK_OF_A_TURN or not self.on:
            return False
        self.turn(False)
        return True

    def turn(self, on: bool) -> None:
        """Read on, or not. Idempotent."""
        if on is self.on:
            return
        self.on = on
        if on:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def turn_on_again(self, *, stalled: bool) -> None:
        """Read on, where enough of what waited has been worked off."""
        if not self.queue and not self._intake.more:
            self.queued_bytes = 0
        if not self.on and self.has_room(stalled=stalled) and len(self.queue) <= QUEUED_COMMANDS_MAX // 2:
            self.turn(True)
