"""An event loop in a thread of its own, and the calls of other threads into it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Iterator
from concurrent.futures import CancelledError as FutureCancelled
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Generic, TypeVar

from log_tier.concurrency.blocking_wait import result_of
from log_tier.model.errors import DatabaseClosed

__all__ = ["LoopThread"]

T = TypeVar("T")


class LoopThread:
    """An event loop in a daemon thread; it starts at once and ends with `stop`."""

    def __init__(self) -> None:
        self._loop = _new_loop()
        # Held while a call is handed over and while the loop is told to end: no call falls in between and hangs.
        # Reentrant, because the collector may run inside, find a forgotten iterator, and hand over its closing.
        self._gate = threading.RLock()
        self._closed = False
        # What iterators hold. Not weakly: the collector would find it together with its forgotten iterator, and the
        # event loop, which closes asynchronous generators that nobody holds, would meet us closing the same one.
        self._steps: set[_Steps[Any]] = set()
        self._thread = threading.Thread(target=self._run, name="duramen-client", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.run_until_complete(_cancel_others())
        self._loop.run_until_complete(self._close_iterators())
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def run(self, work: Awaitable[T]) -> T:
        """Run `work` on the loop; return or raise what it does. An interrupt in this thread cancels it there.

        Raises `DatabaseClosed` after `stop`, also for what was under way then.
        """
        future = self._hand_over(work)
        try:
            return result_of(future)
        except FutureCancelled:
            raise DatabaseClosed("this database was closed while the call was under way") from None
        except BaseException:
            future.cancel()
            raise

    def _hand_over(self, work: Awaitable[T]) -> Future[T]:
        assert threading.current_thread() is not self._thread, "a blocking call in the event loop would never end"
        with self._gate:
            if not self._closed:
                return asyncio.run_coroutine_threadsafe(_awaited(work), self._loop)
        if asyncio.iscoroutine(work):
            work.close()
        raise DatabaseClosed("this database was closed; open or connect again")

    def iterate(self, runs: AsyncGenerator[list[T], None]) -> Iterator[T]:
        """Iterate over the items of runs; the loop is crossed once per run."""
        steps = _Steps(runs)
        self._steps.add(steps)
        try:
            while (run := self.run(steps.following())) is not None:
                yield from run
        finally:
            self._let_go(steps)

    def _let_go(self, steps: _Steps[T]) -> None:
        """Close what an iterator held, so that the server's side ends too."""
        self._steps.discard(steps)
        if threading.current_thread() is self._thread:
            # The collector found a forgotten iterator while it ran in this thread, which must not wait for itself.
            self._loop.create_task(steps.close())
            return
        with suppress(DatabaseClosed):
            self.run(steps.close())

    def close_iterators(self) -> None:
        """Close the iterators that nobody waits in at this moment, each with what it holds."""
        self.run(self._close_iterators())

    async def _close_iterators(self) -> None:
        # One by one, and not by the loop's own shutdown, which would close an outer generator beside its inner ones.
        for steps in list(self._steps):
            if not steps.is_busy():
                await steps.close()

    def stop(self) -> None:
        """End the loop and its thread. Idempotent."""
        with self._gate:
            if not self._closed:
                self._closed = True
                self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


class _Steps(Generic[T]):
    """An asynchronous generator, one step at a time: a step that is being cancelled ends before the closing begins.

    The closing itself cancels the step that is under way. Whoever waited for it may be gone without having done so:
    an interrupt can come between the hand-over of a call and the first line that holds its future.
    """

    def __init__(self, runs: AsyncGenerator[list[T], None]) -> None:
        self._runs = runs
        self._turn: asyncio.Lock = asyncio.Lock()
        self._under_way: asyncio.Task[Any] | None = None
        self._closed = False

    def is_busy(self) -> bool:
        """Does somebody wait for the next run?"""
        return self._turn.locked()

    async def following(self) -> list[T] | None:
        async with self._turn:
            if self._closed:
                # Not the end of what there is: whoever iterates must not take a part for the whole.
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


async def _cancel_others() -> None:
    """Cancel whatever still runs in this loop, and wait for its end."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


async def _awaited(work: Awaitable[T]) -> T:
    return await work
