"""The waiters of a replica: reads that carry a token newer than the replica, by the offset that they wait for.

The offsets that are waited for are kept sorted, so that an advance touches the waiters it wakes and no others: O(woken)
and O(log n), and a move of up to 80 KB of pointers. All calls belong to one event loop.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable
from copy import copy
from typing import Final

from log_tier.concurrency.sized_work import wake_some
from log_tier.model.errors import DuramenError, Overloaded
from log_tier.model.identifiers import NOTHING, Offset

__all__ = ["WAITERS_MAX", "OffsetWaiters"]

# Each waiter is a request that a client's connection holds open: more than this on one partition means that the replica
# is far behind, and an error for the callers is better than holding them.
WAITERS_MAX: Final = 10_000


class OffsetWaiters:
    """The callers that wait until an offset is applied.

    Invariant: after `advance(offset)` nobody waits for `offset` or less. After `fail(error)` nobody waits at all.
    """

    def __init__(self, *, late: Callable[[Offset], DuramenError]) -> None:
        """`late`: the error for a caller who has waited for an offset for too long."""
        self._late = late
        self._waiting: dict[Offset, list[asyncio.Future[None]]] = {}
        self._offsets: list[Offset] = []
        """The keys of `_waiting`, rising."""
        self._count = 0
        self._failure: DuramenError | None = None

    def __len__(self) -> int:
        return self._count

    async def wait(self, offset: Offset, timeout: float | None = None) -> None:
        """Return when `offset` has been applied. Raises `Overloaded`, the error given to `fail`, or, after `timeout`
        seconds, the error that `late` makes.
        """
        if self._failure is not None:
            raise copy(self._failure)
        if self._count >= WAITERS_MAX:
            raise Overloaded(
                f"{WAITERS_MAX} reads already wait for this replica to catch up; read another one, or later",
                limit=WAITERS_MAX,
            )
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        group = self._waiting.get(offset)
        if group is None:
            group = self._waiting[offset] = []
            insort(self._offsets, offset)
        group.append(future)
        self._count += 1
        timer = None if timeout is None else loop.call_later(timeout, self._end_waiting, offset, future)
        try:
            await future
        finally:
            if timer is not None:
                timer.cancel()
            # An advance has already taken a woken waiter out; one that was cancelled takes itself out.
            if future in group and self._waiting.get(offset) is group:
                group.remove(future)
                self._count -= 1
                if not group:
                    del self._waiting[offset], self._offsets[bisect_left(self._offsets, offset)]

    def _end_waiting(self, offset: Offset, future: asyncio.Future[None]) -> None:
        if not future.done():
            future.set_exception(self._late(offset))

    def advance(self, applied: Offset) -> None:
        """Wake all waiters for `applied` or less, some of many in each turn of the loop."""
        woken = self._taken(bisect_right(self._offsets, applied))
        if woken:
            wake_some(woken, _wake)

    def _taken(self, count: int) -> list[asyncio.Future[None]]:
        """Take the waiters of the lowest `count` offsets out."""
        if not count:
            return []
        offsets, self._offsets[:count] = self._offsets[:count], []
        woken = [future for offset in offsets for future in self._waiting.pop(offset)]
        self._count -= len(woken)
        return woken

    def fail(self, error: DuramenError) -> None:
        """Wake all waiters with `error`, now and from now on: the replica will not advance any more."""
        self._failure = error
        for future in self._taken(len(self._offsets)):
            if not future.done():
                future.set_exception(copy(error))  # each waiter gets a traceback of its own

    def check(self, applied: Offset = NOTHING) -> None:
        """Assert the invariants after `advance(applied)`; for tests."""
        count = sum(map(len, self._waiting.values()))
        assert count == self._count, f"{count} wait, {self._count} are counted"
        assert all(self._waiting.values()), "an offset that nobody waits for is kept"
        assert self._offsets == sorted(self._waiting), f"{self._offsets} are kept for {sorted(self._waiting)}"
        if self._waiting:
            assert self._failure is None, f"{count} wait after {self._failure!r}"
            lowest = self._offsets[0]
            assert lowest > applied, f"a waiter needs {lowest}, and {applied} is applied"


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
