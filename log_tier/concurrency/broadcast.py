"""Waking all waiters for the next change of something."""

from __future__ import annotations

import asyncio

__all__ = ["Broadcast"]


class Broadcast:
    """A condition without a lock, for one event loop.

    A waiter checks its predicate, then waits, with no `await` in between: so it misses no change.

        while not predicate():
            await changed.wait()
    """

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def notify_all(self) -> None:
        """Wake all current waiters. A waiter that begins after this call waits for the next one."""
        event, self._event = self._event, asyncio.Event()
        event.set()

    async def wait(self) -> None:
        """Return after the next `notify_all`."""
        await self._event.wait()
