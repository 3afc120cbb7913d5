"""Large work in threads, some at a time, in turns of the users who want it.

Threads share one interpreter: more of them at once are no faster, and each makes the event loop wait for its own turn.
So one call's work is done at a time, and the next one is of the user who has waited longest since its last turn. A
thousand calls of one user are for another user's call one piece of work that it waits for.

What is small does not wait behind what is large: it has turns of its own. All work of one event loop shares the same
turns: pages of scans that are read, large reads, texts, and the messages that are made of them.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Final, TypeVar, cast
from weakref import WeakKeyDictionary

from log_tier.access.current import CALLER
from log_tier.concurrency.sized_work import AT_ONCE_ITEMS_MAX, thread_to_its_end

__all__ = [
    "ITEM_BYTES",
    "SMALL_BYTES_MAX",
    "ThreadTurns",
    "UserTurns",
    "each_in_turn",
    "run_in_turn",
    "turns_of_loop",
]

T = TypeVar("T")

SMALL_BYTES_MAX: Final = 64 << 10
"""Work on so many bytes of text takes a few milliseconds."""

ITEM_BYTES: Final = 32
"""An entry, a key or a part costs as much as so many bytes of text: 2 to 10 µs."""


class UserTurns:
    """Turns of one after the other. Belongs to one event loop.

    Invariants: while somebody waits, somebody has the turn; no user in `_waiting` has an empty line.
    """

    def __init__(self) -> None:
        self._is_taken = False
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        """Those who wait, by user, in the order of the users' turns."""

    @asynccontextmanager
    async def turn(self, user: str) -> AsyncIterator[None]:
        """Wait for a turn of this user, and have it."""
        if self._is_taken:
            await self._wait(user)
        self._is_taken = True
        try:
            yield
        finally:
            self._end()

    async def _wait(self, user: str) -> None:
        called: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(user, deque()).append(called)
        try:
            await called
        except asyncio.CancelledError:
            if called.done() and not called.cancelled():
                self._end()  # its turn came in the same turn of the loop
            raise

    def _end(self) -> None:
        """The turn is the next one's who still waits, or nobody's."""
        self._is_taken = False
        while self._waiting:
            user, line = self._waiting.popitem(last=False)
            called = line.popleft()
            if line:
                self._waiting[user] = line
            if not called.done():
                self._is_taken = True
                called.set_result(None)
                return


class ThreadTurns:
    """Work in threads for the callers of one server, small and large work in turns of their own."""

    def __init__(self) -> None:
        self._small: Final = UserTurns()
        self._large: Final = UserTurns()

    async def run(self, size: int, work: Callable[[], T]) -> T:
        """What `work` on so many bytes returns or raises. Its turn is one of the calling user, and ends when the thread
        has: who goes away meanwhile does not let the next call begin next to it.
        """
        turns = self._small if size <= SMALL_BYTES_MAX else self._large
        caller = CALLER.get()
        async with turns.turn("" if caller is None else caller.name):
            return await thread_to_its_end(work)

    async def each(self, size: int, made: Iterator[T]) -> AsyncIterator[T]:
        """What an iterator makes of so many bytes. Each takes a turn, and has none while it is used."""
        end = object()
        while (found := await self.run(size, lambda: next(made, end))) is not end:
            yield cast("T", found)


_TURNS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, ThreadTurns]] = WeakKeyDictionary()


def turns_of_loop() -> ThreadTurns:
    """The turns of all large work that callers of the running event loop want."""
    loop = asyncio.get_running_loop()
    found = _TURNS.get(loop)
    if found is None:
        found = _TURNS[loop] = ThreadTurns()
    return found


async def run_in_turn(items: int, work: Callable[[], T]) -> T:
    """`run_sized`, in a turn of the calling user where there are many items."""
    return work() if items <= AT_ONCE_ITEMS_MAX else await turns_of_loop().run(items * ITEM_BYTES, work)


async def each_in_turn(items: int, made: Iterator[T]) -> AsyncIterator[T]:
    """`each_sized`, each in a turn of the calling user where there are many items."""
    if items <= AT_ONCE_ITEMS_MAX:
        for each in made:
            yield each
        return
    async for each in turns_of_loop().each(items * ITEM_BYTES, made):
        yield each
