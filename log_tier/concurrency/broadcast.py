"""Waking all waiters for the next change of something."""

from __future__ import annotations

import asyncio
from contextlib import suppress

__all__ = ["Broadcast"]


class Broadcast:
    """A condition without a lock, for one event loop.

    A waiter checks its predicate, then waits, with no `await` in between: so it misses no change.

        while not predicate():
            await changed.wait()
    """

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: list[asyncio.Future[None]] = []

    def notify_all(self) -> None:
        """Wake all current waiters. A waiter that begins after this call waits for the next one."""
        waiters = self._waiters
        if waiters:
            self._waiters = []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    async def wait(self) -> None:
        """Return after the next `notify_all`."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiters = self._waiters
        waiters.append(waiter)
        try:
            await waiter
        except BaseException:
            with suppress(ValueError):  # it was woken, and ended by something else at once
                waiters.remove(waiter)
            raise
