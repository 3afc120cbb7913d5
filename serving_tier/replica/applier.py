"""The thread that folds: LMDB write transactions happen here and nowhere else. And the few that close indexes.

One thread serves all replicas of a process. Jobs that arrive while it works are taken together, and their completions
travel back to the event loop in one wake-up: crossing from a thread to a loop costs more than applying a small batch.

Closing an index that was written takes three syncs and writes nothing in it. It is done concurrently with the folds,
for several indexes at the same time: a filesystem brings the syncs that wait together to the disk together.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from log_tier.concurrency.sized_work import wake_some
from log_tier.concurrency.workers import THREADS, Consumer, Workers
from log_tier.model.errors import ShuttingDown

__all__ = ["Applier"]

logger = logging.getLogger(__name__)

# Indexes that are closed at the same time: see `log_tier.embedded.closing`.
_CLOSERS: Final = 8

T = TypeVar("T")


class _Job(Generic[T]):
    __slots__ = ("error", "future", "result", "work")

    def __init__(self, work: Callable[[], T], future: asyncio.Future[T]) -> None:
        self.work = work
        self.future = future
        self.result: T | None = None
        self.error: BaseException | None = None


class Applier:
    """Runs work for one event loop in one thread, in the order in which it came.

    `start()` begins, `stop()` finishes what was accepted and ends the thread.
    """

    def __init__(self, workers: Workers = THREADS) -> None:
        self._folder: Consumer[_Job[object] | None] = workers.consumer(self._run, name="duramen-applier")
        self._accepting = threading.Lock()
        """Held while a job is queued, so that none comes behind the end."""
        self._stopping = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closers = workers.pool(_CLOSERS, name="duramen-index-close")

    def start(self) -> None:
        """Start the thread; completions go to the running event loop."""
        assert self._loop is None, "the applier is running already"
        self._loop = asyncio.get_running_loop()
        self._folder.start()

    async def run(self, work: Callable[[], T]) -> T:
        """Run `work` in the thread and return what it returns or raises. Raises `ShuttingDown` after `stop`.

        A caller that is cancelled while it waits does not undo the work.
        """
        assert self._loop is not None, "the applier was not started"
        future: asyncio.Future[T] = self._loop.create_future()
        with self._accepting:
            if self._stopping:
                raise ShuttingDown("this node is stopping and applies nothing more; read from another one")
            self._folder.put(_Job(work, future))  # type: ignore[arg-type]
        return await future

    async def run_aside(self, work: Callable[[], T]) -> T:
        """Run `work`, which folds nothing, when everything that was accepted before is done, concurrently with what
        comes later.

        A caller that is cancelled while it waits does not undo the work. Raises as `run`.
        """
        begun = await self.run(lambda: self._closers.submit(work))
        closing = asyncio.wrap_future(begun)
        try:
            return await asyncio.shield(closing)
        except asyncio.CancelledError:
            closing.add_done_callback(_log_failure)
            raise

    async def stop(self) -> None:
        """Finish what was accepted, then end the thread."""
        if self._loop is None:
            return
        with self._accepting:
            if not self._stopping:
                self._folder.put(None)
            self._stopping = True
        await asyncio.to_thread(self._folder.join)
        await asyncio.to_thread(self._closers.shutdown)

    def _run(self, taken: list[_Job[object] | None]) -> bool:
        assert self._loop is not None
        jobs = [job for job in taken if job is not None]
        for job in jobs:
            try:
                job.result = job.work()
            except BaseException as error:  # noqa: BLE001 - carried to the caller, who raises it
                job.error = error
        if jobs:
            self._loop.call_soon_threadsafe(_complete, jobs)
        return len(jobs) == len(taken)


def _log_failure(closing: asyncio.Future[T]) -> None:
    if not closing.cancelled() and closing.exception() is not None:
        logger.warning("an index could not be closed cleanly: %r", closing.exception())


def _complete(jobs: list[_Job[object]]) -> None:
    """Wake the callers: a commit over a thousand partitions wakes as many replicas."""
    wake_some(jobs, _complete_one)


def _complete_one(job: _Job[object]) -> None:
    if job.future.done():
        return  # the caller was cancelled
    if job.error is not None:
        job.future.set_exception(job.error)
    else:
        job.future.set_result(job.result)
