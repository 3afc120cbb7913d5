"""Work that grows with what a client sends: on the event loop while it is small, in a thread where it is large.

A turn of an event loop has at most 10 ms, whatever a client sends. A trip to a thread and back costs some 60 µs. What
must stay on the loop is spread over its turns: `Turn` counts the work of a loop of one coroutine, `gather_some` has
some of many calls under way, `gather_all` begins some of many calls at a time, `end_some` ends some of many tasks at a
time, and `wake_some` wakes some of many waiters. Where the order of calls matters, `OrderedThread` keeps it.
`thread_to_its_end` lets nobody off before its thread has ended.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, Generic, TypeVar, cast

from log_tier.concurrency.tasks import end_tasks

__all__ = [
    "AT_ONCE_ITEMS_MAX",
    "CALLS_AT_ONCE_MAX",
    "WAKES_AT_ONCE_MAX",
    "OrderedThread",
    "Turn",
    "each_sized",
    "end_some",
    "gather_all",
    "gather_some",
    "run_sized",
    "thread_to_its_end",
    "wake_some",
]

I = TypeVar("I")  # noqa: E741
K = TypeVar("K")
T = TypeVar("T")

AT_ONCE_ITEMS_MAX: Final = 1000
"""Keys, records, entries or parts that one turn of the loop works on: 2 to 10 µs each."""

CALLS_AT_ONCE_MAX: Final = 16
"""Calls of one request that are under way together: all may begin, wake or run out of time in one turn, 100 to 300 µs
each."""

WAKES_AT_ONCE_MAX: Final = 8
"""Waiters that one turn wakes. Each goes on for some turns, of 100 µs each, in which those wake that come after it."""


async def run_sized(items: int, work: Callable[[], T]) -> T:
    """What `work` returns or raises; a thread does it where it has more than `AT_ONCE_ITEMS_MAX` items."""
    return work() if items <= AT_ONCE_ITEMS_MAX else await asyncio.to_thread(work)


async def each_sized(items: int, made: Iterator[T]) -> AsyncIterator[T]:
    """What an iterator makes; a thread makes each where all together have more than `AT_ONCE_ITEMS_MAX` items."""
    if items <= AT_ONCE_ITEMS_MAX:
        for each in made:
            yield each
        return
    end = object()
    while (found := await asyncio.to_thread(next, made, end)) is not end:
        yield cast("T", found)


async def thread_to_its_end(work: Callable[[], T]) -> T:
    """What `work` returns or raises in a thread. Who is cancelled meanwhile waits until the thread has ended: what the
    caller holds for it, such as a lock or a turn, bounds what is under way.
    """
    working = asyncio.create_task(asyncio.to_thread(work))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        if not working.cancelled():
            working.exception()  # nobody asks for it any more
        raise


class OrderedThread(Generic[K]):
    """A thread for the large ones of calls that are used in order, by key. Safe from any event loop.

    While a call is in the thread, all later ones for one of its keys go through it too, however small (`is_free`): so
    none is used before an earlier one.
    """

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._lock = threading.Lock()
        self.pending: Counter[K] = Counter()
        """How many calls for each key are in the thread. Empty: there is none, and every key is free."""

    def is_free(self, keys: Iterable[K]) -> bool:
        """Is no call for one of these keys in the thread?"""
        with self._lock:
            return not any(key in self.pending for key in keys)

    def run(self, keys: Iterable[K], work: Callable[[], T], use: Callable[[asyncio.Future[T]], None]) -> None:
        """Have the thread do `work`, and the running loop `use` the result, also when nobody waits for it any more.

        Raises `RuntimeError` when the thread was closed.
        """
        loop = asyncio.get_running_loop()
        distinct = set(keys)  # a request may name one of them ten thousand times
        with self._lock:
            working = loop.run_in_executor(self._thread, work)
            self.pending.update(distinct)
        working.add_done_callback(partial(self._use, distinct, use))

    def _use(self, keys: Iterable[K], use: Callable[[asyncio.Future[T]], None], working: asyncio.Future[T]) -> None:
        try:
            use(working)
        finally:
            pending = self.pending
            with self._lock:
                for key in keys:
                    pending[key] -= 1
                    if not pending[key]:
                        del pending[key]

    def close(self) -> None:
        """End the thread; what it was given is done first. Blocks."""
        self._thread.shutdown(wait=True)


class Turn:
    """The work of one coroutine in the current turn of the loop: `if turn.is_full(3): await turn.end()`."""

    __slots__ = ("_items",)

    def __init__(self) -> None:
        self._items = 0

    def is_full(self, items: int = 1) -> bool:
        """Count `items` more; has this turn done what it may?"""
        self._items += items
        return self._items >= AT_ONCE_ITEMS_MAX

    async def end(self) -> None:
        """Go on in the loop's next turn."""
        self._items = 0
        await asyncio.sleep(0)


async def gather_some(items: Sequence[I], call: Callable[[I], Awaitable[T]]) -> list[T]:
    """`asyncio.gather` of `call` on each item, of which `CALLS_AT_ONCE_MAX` are under way at a time, begun in order.

    Raises the error of the first call that fails, and ends the others. A call that waits for long keeps later ones
    from beginning: give each call what is left of one deadline, and not a timeout of its own.
    """
    if len(items) == 1:
        return [await call(items[0])]  # a lone call pays for no task
    results: list[T | None] = [None] * len(items)
    left = iter(enumerate(items))

    async def some() -> None:
        for place, item in left:
            results[place] = await call(item)
            await asyncio.sleep(0)  # a call that did not wait was a turn's work too

    tasks = [asyncio.create_task(some()) for _ in range(min(CALLS_AT_ONCE_MAX, len(items)))]
    try:
        await asyncio.gather(*tasks)
    except BaseException:
        await end_tasks(*tasks)
        raise
    return cast("list[T]", results)


async def gather_all(items: Sequence[I], call: Callable[[I], Coroutine[Any, Any, T]]) -> list[T]:
    """`asyncio.gather` of `call` on each item. All are under way together; `CALLS_AT_ONCE_MAX` begin in each turn.

    For calls that share what they wait for, a commit for instance. As `asyncio.gather`, it raises the error of the
    first call that fails, and the others go on.
    """
    tasks: list[asyncio.Task[T]] = []
    try:
        for begin in range(0, len(items), CALLS_AT_ONCE_MAX):
            if begin:
                await asyncio.sleep(0)
            tasks += [asyncio.create_task(call(item)) for item in items[begin : begin + CALLS_AT_ONCE_MAX]]
    except BaseException:
        await end_tasks(*tasks)
        raise
    return await asyncio.gather(*tasks)


def wake_some(waiters: Sequence[I], wake: Callable[[I], object], *, begin: int = 0) -> None:
    """`wake` each in order: the first `WAKES_AT_ONCE_MAX` now, and as many in each later turn of the present loop.

    What waits for one thing wakes together: a hundred watches that each work for 0.3 ms hold up all others for 30 ms.
    """
    end = begin + WAKES_AT_ONCE_MAX
    for waiter in waiters[begin:end]:
        wake(waiter)
    if end < len(waiters):
        asyncio.get_running_loop().call_soon(partial(wake_some, waiters, wake, begin=end))


async def end_some(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """`end_tasks`, `CALLS_AT_ONCE_MAX` of them at a time. A caller that is cancelled meanwhile cancels the rest."""
    left = list(tasks)
    try:
        while left:
            some, left = left[:CALLS_AT_ONCE_MAX], left[CALLS_AT_ONCE_MAX:]
            await end_tasks(*some)
    finally:
        for task in left:
            task.cancel()
