"""Threads for work that blocks, behind one seam.

A component that owns a thread asks `Workers` for it: `THREADS` in a server; a simulation hands it workers that take
turns on one thread, in an order drawn from a seed. What an event loop runs by `asyncio.to_thread` or `run_in_executor`
needs no seam of its own: the loop is one.

Work that goes through a thread wakes two threads, the worker and then its caller, which costs 50 to 100 µs of processor
time. So the caller does small work itself while such work is quick (`QuickWork`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Final, Generic, Protocol, TypeVar

__all__ = ["THREADS", "Consumer", "QuickWork", "Workers"]

T = TypeVar("T")
R = TypeVar("R")

# Ten times what a commit or a small fold takes on a machine with a quick disk.
_QUICK_S: Final = 0.0005

# A disk that is slow now and then holds up a loop once in so many times at most.
_AGAIN_AFTER: Final = 64

# Work of which nothing is known is slow.
_FIRST_AFTER: Final = 8


class Consumer(Protocol[T]):
    """One thread and its queue. The thread takes everything that is queued, and hands it to `work` together."""

    @property
    def put(self) -> Callable[[T], None]:
        """Queue an item; from any thread. O(1), and never waits."""
        ...

    def start(self) -> None:
        """Start the thread."""
        ...

    def take_rest(self) -> list[T]:
        """Empty the queue; for `work` that ends its thread."""
        ...

    def wait_for(self, done: Future[R]) -> R:
        """Wait, in another thread, for what `work` will complete; its result."""
        ...

    def join(self) -> None:
        """Wait until `work` has returned False. Returns at once where the thread was not started."""
        ...


class QuickWork:
    """Is one kind of work quick enough that an event loop may do it itself? While it does, it serves nobody, so this is
    only for work that was lately quick without exception: after one slow time, the next ones go through the thread.
    """

    __slots__ = ("_left", "_quick_s", "is_quick")

    def __init__(self, quick_s: float) -> None:
        """`quick_s`: how many seconds it takes at most when it is quick."""
        self._quick_s = quick_s
        self._left = _FIRST_AFTER
        self.is_quick = False
        """Has all such work of late been quick?"""

    def took(self, seconds: float) -> None:
        """The work was done, in whichever thread, and took so long."""
        if seconds > self._quick_s:
            self._left = _AGAIN_AFTER
        elif self._left:
            self._left -= 1
        self.is_quick = not self._left


class Workers(Protocol):
    """Supplies a component's threads."""

    @property
    def quick_s(self) -> float:
        """Work that takes longer than so many seconds is never done by the event loop that wants it."""
        ...

    def consumer(self, work: Callable[[list[T]], bool], *, name: str) -> Consumer[T]:
        """A thread that is not started yet. `work` returns whether the thread goes on."""
        ...

    def pool(self, threads: int, *, name: str) -> Executor:
        """An executor; its threads start with the first work."""
        ...


class _ConsumerThread(Generic[T]):
    def __init__(self, work: Callable[[list[T]], bool], name: str) -> None:
        self._work = work
        self._queue: SimpleQueue[T] = SimpleQueue()
        self.put: Callable[[T], None] = self._queue.put
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def take_rest(self) -> list[T]:
        # One consumer, so what the queue says it holds is there.
        return [self._queue.get() for _ in range(self._queue.qsize())]

    def wait_for(self, done: Future[R]) -> R:
        return done.result()

    def join(self) -> None:
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        take, size, work = self._queue.get, self._queue.qsize, self._work
        going = True
        while going:
            items = [take()]
            # One consumer, so what the queue says it holds is there. A comprehension would be a frame for each commit.
            for _ in range(size()):
                items.append(take())  # noqa: PERF401
            going = work(items)


class _Threads:
    quick_s = _QUICK_S

    def consumer(self, work: Callable[[list[T]], bool], *, name: str) -> Consumer[T]:
        return _ConsumerThread(work, name)

    def pool(self, threads: int, *, name: str) -> Executor:
        return ThreadPoolExecutor(threads, thread_name_prefix=name)


THREADS: Final[Workers] = _Threads()
"""Real threads."""
