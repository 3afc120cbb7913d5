"""The calls of other threads into an event loop: of one database each, which may be closed while the loop goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from concurrent.futures import CancelledError as FutureCancelled
from contextlib import suppress
from typing import Any, Generic, TypeVar, cast

from log_tier.concurrency.background_loop import BackgroundLoop, background_loop
from log_tier.concurrency.forking import keep_for_ever, on_fork
from log_tier.concurrency.handed_call import HandedCall
from log_tier.model.errors import DatabaseClosed, DatabaseForked

__all__ = ["LoopThread"]

T = TypeVar("T")


class LoopThread:
    """The calls of one database into an event loop in another thread; they end with `stop`.

    Connections share the loop of the process (`shared`), because gRPC cannot do without a loop that it
    has met once (`log_tier.concurrency.background_loop`). An embedded database has one of its own (`LoopThread()`),
    whose end is the end of everything that the database had: threads, files, tasks. No gRPC runs there.
    """

    def __init__(self, *, shared: bool = False) -> None:
        """A new loop, or (`shared`) the one of this process, which goes on after `stop`."""
        self._own = None if shared else BackgroundLoop("duramen-client")
        # Held while a call is handed over and while the loop is being stopped: no call falls in between and hangs.
        # Reentrant, because the collector may run inside, find a forgotten iterator, and hand over its closing.
        self._gate = threading.RLock()
        self._closed = False
        # The calls that are under way.
        self._tasks: set[asyncio.Task[Any]] = set()
        # What iterators hold. Not weakly: the collector would find it together with its forgotten iterator, and the
        # event loop, which closes asynchronous generators that nobody holds, would meet us closing the same one.
        self._steps: set[_Steps[Any]] = set()
        on_fork(self)

    @property
    def _background(self) -> BackgroundLoop:
        return self._own or background_loop()

    def after_fork(self) -> None:
        """Whatever was under way is the parent's; from now on calls go to this process's own loop."""
        self._gate = threading.RLock()
        self._own = None
        self._tasks = set()
        for steps in self._steps:
            steps.abandon()
        self._steps = set()

    def run(self, call: Callable[[], Awaitable[T]]) -> T:
        """Await what `call` makes, on the loop; return or raise what it does. An interrupt in this thread cancels it.

        `call` is called on the loop, so that an interrupt at whatever line leaves no coroutine that nobody awaits. It
        has the context (`contextvars`) of this thread, and with it the trace of the call.
        Raises `DatabaseClosed` after `stop`, also for what was under way then.
        """
        handed = self._hand_over(call)
        try:
            return handed.result()
        except FutureCancelled:
            raise DatabaseClosed("this database was closed while the call was under way") from None
        except BaseException:
            handed.cancel()
            raise

    def _hand_over(self, call: Callable[[], Awaitable[T]]) -> HandedCall[T]:
        background = self._background
        assert not background.is_here(), "a blocking call in the event loop would never end"
        with self._gate:
            handed = None if self._closed else background.submit(lambda: self._counted(call))
        if handed is None:
            raise DatabaseClosed("this database was closed; open or connect again")
        return handed

    async def _counted(self, call: Callable[[], Awaitable[T]]) -> T:
        task = asyncio.current_task()
        assert task is not None, "a call is a task"
        self._tasks.add(task)
        try:
            return await call()
        finally:
            self._tasks.discard(task)

    def iterate(self, runs: AsyncGenerator[list[T], None]) -> Generator[T, None, None]:
        """Iterate over the items of runs; the loop is crossed once per run. Nothing happens before the first step."""
        return self._items(_Steps(runs))

    def iterate_begun(self, runs: AsyncGenerator[list[T], None]) -> Generator[T, None, None]:
        """`iterate`, but run the first step now: return when the first run is there, or raise what the step raises."""
        items = self._items(_Steps(runs), announce=True)
        next(items)
        return items

    def _items(self, steps: _Steps[T], *, announce: bool = False) -> Generator[T, None, None]:
        """The items; with `announce` one that is none before them, when the first run is there."""
        self._steps.add(steps)
        try:
            if announce:
                first = self.run(steps.following)
                yield cast("T", None)
                yield from first or ()
            while (run := self.run(steps.following)) is not None:
                yield from run
        finally:
            self._let_go(steps)

    def _let_go(self, steps: _Steps[T]) -> None:
        """Close what an iterator held, so that the server's side ends too."""
        self._steps.discard(steps)
        if steps.abandoned:
            return
        if self._background.is_here():
            # The collector found a forgotten iterator while it ran in this thread, which must not wait for itself.
            self._background.submit(steps.close)
            return
        with suppress(DatabaseClosed):
            self.run(steps.close)

    def close_iterators(self) -> None:
        """Close the iterators that no call waits in now, each with what it holds."""
        self.run(self._close_iterators)

    async def _close_iterators(self) -> None:
        # One by one, and not by the loop's own shutdown, which would close an outer generator concurrently with its
        # inner ones.
        for steps in list(self._steps):
            if not steps.is_busy():
                await steps.close()

    def stop(self) -> None:
        """End the calls that are under way and the iterators; and the loop, where it is nobody else's. Idempotent."""
        with self._gate:
            ending = None if self._closed else self._background.submit(self._end)
            self._closed = True
        if ending is not None:
            ending.result()
        if self._own is not None:
            self._own.end()

    async def _end(self) -> None:
        # What was handed over before has begun by now: a loop starts its tasks in the order in which they came.
        tasks = list(self._tasks - {asyncio.current_task()})
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._close_iterators()


class _Steps(Generic[T]):
    """An asynchronous generator, one step at a time: a step that is being cancelled ends before the closing begins.

    The closing itself cancels the step that is under way. The caller that waited for it may be gone without having done
    so: an interrupt can come between the hand-over of a call and the first line that holds its future.
    """

    def __init__(self, runs: AsyncGenerator[list[T], None]) -> None:
        self._runs = runs
        self._turn: asyncio.Lock = asyncio.Lock()
        self._under_way: asyncio.Task[Any] | None = None
        self._closed = False
        self.abandoned = False
        """The generator belongs to the parent, and this is a forked process."""

    def abandon(self) -> None:
        """Never run or close it: what it holds is in use in another process."""
        self.abandoned = True
        keep_for_ever(self)

    def is_busy(self) -> bool:
        """Does somebody wait for the next run?"""
        return self._turn.locked()

    async def following(self) -> list[T] | None:
        if self.abandoned:
            raise DatabaseForked("this iterator was begun before the process was forked: begin another one here")
        async with self._turn:
            if self._closed:
                # Not the end of what there is: the caller's loop must not take a part for the whole.
                raise DatabaseClosed("this database was closed before the iterator came to its end")
            self._under_way = asyncio.current_task()
            try:
                return await anext(self._runs, None)
            finally:
                self._under_way = None

    async def close(self) -> None:
        step = self._under_way
        if step is not None and not step.cancelling():
            step.cancel()  # once: a second one would interrupt what the first one cleans up
        async with self._turn:
            self._closed = True
            await self._runs.aclose()
