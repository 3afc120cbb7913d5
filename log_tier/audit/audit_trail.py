"""The seam between what happens in a server and its audit: `AuditTrail.note(event)`."""

from __future__ import annotations

import asyncio
from typing import Final

from log_tier.audit.audit_event import AuditEvent
from log_tier.audit.audit_queue import AuditQueue
from log_tier.audit.audit_row import AuditRow
from log_tier.audit.audit_settings import AuditSettings
from log_tier.concurrency.clocks import SYSTEM_CLOCK, Clock

__all__ = ["AuditTrail"]

_GATHER_S: Final = 0.2


class AuditTrail:
    """Takes the events of one server, from one event loop. What it holds is written by an `AuditWriter`."""

    def __init__(self, settings: AuditSettings | None = None, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self.settings = AuditSettings() if settings is None else settings
        self.clock = clock
        self.queue = AuditQueue(clock, window_s=self.settings.window_s)
        self._noted = asyncio.Event()

    def note(self, event: AuditEvent) -> None:
        """Take an event. Some 3 µs; waits for nothing, raises nothing. To be called only while there are users."""
        self.queue.add(event)
        self._noted.set()

    async def next_rows(self, limit: int) -> list[AuditRow]:
        """The first rows, at most `limit`, when there are some that are ready. They stay until `queue.wrote`.

        Under load it returns some times in a second, with what came meanwhile: each write costs a sync.
        """
        while not (rows := self.queue.ready(limit)):
            self._noted.clear()
            wait_s = self.queue.wait_s()
            if wait_s is None:
                await self._noted.wait()
            else:
                await asyncio.sleep(wait_s + _GATHER_S)
        return rows
