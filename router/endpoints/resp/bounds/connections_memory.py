"""The bytes that all connections of an endpoint hold together, looked at some times a second, and bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from log_tier.concurrency.tasks import TaskSet
from log_tier.rpc.messages.process_memory import ProcessMemory

__all__ = ["BoundedConnection", "ConnectionsMemory"]

_PAUSE_S: Final = 0.25
"""Between two looks. A network of 10 Gbit/s brings 310 MB meanwhile."""
_SHARE: Final = 50
"""A look takes at most one part in so many of a processor: with many connections the pauses are longer."""
_LOOKED_AT_ONCE: Final = 200
"""Connections that are looked at in a turn of the event loop; some 0.5 µs each."""
_COUNTED_AT_ONCE: Final = 4
"""Connections whose commands are counted one by one in a turn; some 0.5 ms each."""


class BoundedConnection(Protocol):
    """A connection whose bytes count."""

    @property
    def held_bytes_max(self) -> int:
        """What it holds, or more; 0.5 µs."""
        ...

    def held_bytes(self) -> int:
        """What it holds: commands that wait, replies that are not read. O(words that wait), some 0.5 ms."""
        ...

    def evict(self, reason: str) -> None:
        """End it; what it holds is free at once."""
        ...


class ConnectionsMemory:
    """Watches the connections of one endpoint. Belongs to one event loop."""

    def __init__(
        self,
        bytes_max: int,
        connections: Callable[[], Iterable[BoundedConnection]],
        now_s: Callable[[], float],
    ) -> None:
        """`connections`: those that there are."""
        self.bytes_max = bytes_max
        self.evicted = 0
        """Connections that were ended."""
        self._connections = connections
        self._now_s = now_s
        self._process = ProcessMemory()  # open from the beginning: a look that fails would be the last one
        self._tasks = TaskSet()
        self._watching = False

    def joined(self) -> None:
        """There is one more connection."""
        if not self._watching:
            self._watching = True
            self._tasks.start(self._watch(), name="memory of connections")

    async def close(self) -> None:
        """Look no more. Idempotent."""
        await self._tasks.close()

    async def _watch(self) -> None:
        """Look again and again, until there are no connections."""
        pause_s = _PAUSE_S
        while True:
            await asyncio.sleep(pause_s)
            connections = list(self._connections())
            if not connections:
                self._watching = False
                return
            began_s = self._now_s()
            # What connections hold is part of what is this process's own: mostly that is below the bound itself.
            own_bytes = self._process.private_bytes()
            if own_bytes > self.bytes_max and await self._at_most(connections) > self.bytes_max:
                await self._evict(connections)
            pause_s = max(_PAUSE_S, _SHARE * (self._now_s() - began_s))

    async def _at_most(self, connections: Sequence[BoundedConnection]) -> int:
        total = 0
        for number, each in enumerate(connections, 1):
            total += each.held_bytes_max
            if not number % _LOOKED_AT_ONCE:
                await asyncio.sleep(0)
        return total

    async def _evict(self, connections: Sequence[BoundedConnection]) -> None:
        """Count what each holds, and end those that hold most until all others together are below the bound."""
        sizes: list[tuple[int, BoundedConnection]] = []
        for number, each in enumerate(connections, 1):
            sizes.append((each.held_bytes(), each))
            if not number % _COUNTED_AT_ONCE:
                await asyncio.sleep(0)
        total = sum(size for size, _ in sizes)
        for size, each in sorted(sizes, key=lambda entry: entry[0], reverse=True):
            if total <= self.bytes_max:
                return
            each.evict(
                f"all connections hold {total} bytes of commands and replies, more than {self.bytes_max}, and this one "
                f"has {size} of them: send less at once, and read the replies"
            )
            self.evicted += 1
            total -= size
