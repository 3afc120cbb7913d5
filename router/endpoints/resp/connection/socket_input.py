"""Whether a connection's socket is read: on, while there is room for what comes.

Commands that wait take memory. So the socket is not read on while many of them wait, and the client's bytes stay in the
kernel's buffers and in its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sized

from router.endpoints.resp.connection.intake import Intake
from router.endpoints.resp.wire.limits import BACKLOG_BYTES_MAX, QUEUED_BYTES_MAX, QUEUED_COMMANDS_MAX

__all__ = ["SocketInput"]


class SocketInput:
    """The incoming direction of one connection. `queue`: its commands that were parsed and have not begun."""

    __slots__ = ("_intake", "_queue", "_transport", "on", "queued_bytes")

    def __init__(self, transport: asyncio.Transport, intake: Intake, queue: Sized) -> None:
        self._transport = transport
        self._intake = intake
        self._queue = queue
        self.on = True
        """Is the socket read?"""
        self.queued_bytes = 0
        """What came since the queue was empty."""

    def has_room(self, *, stalled: bool) -> bool:
        """May more be read? `stalled`: the client does not read its replies. It may send a pipeline of a size."""
        if stalled:
            return self._intake.waiting_bytes <= BACKLOG_BYTES_MAX
        return (
            not self._intake.more and len(self._queue) <= QUEUED_COMMANDS_MAX and self.queued_bytes <= QUEUED_BYTES_MAX
        )

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
        if not self._queue and not self._intake.more:
            self.queued_bytes = 0
        if not self.on and self.has_room(stalled=stalled) and len(self._queue) <= QUEUED_COMMANDS_MAX // 2:
            self.turn(True)
