"""Threads for work that blocks, behind one seam.

A component that owns a thread asks `Workers` for it: `THREADS` in a server; a simulation hands it workers that take
turns on one thread, in an order drawn from a seed. What an event loop runs by `asyncio.to_thread` or `run_in_executor`
needs no seam of its own: the loop is one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Final, Generic, Protocol, TypeVar

__all__ = ["THREADS", "Consumer", "Workers"]

T = TypeVar("T")
R = TypeVar("R")


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


class Workers(Protocol):
    """Supplies a component's threads."""

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
    def consumer(self, work: Callable[[list[T]], bool], *, name: str) -> Consumer[T]:
        return _ConsumerThread(work, name)

    def pool(self, threads: int, *, name: str) -> Executor:
        return ThreadPoolExecutor(threads, thread_name_prefix=name)


THREADS: Final[Workers] = _Threads()
"""Real threads."""
