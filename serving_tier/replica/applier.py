"""The thread that folds: LMDB write transactions happen in its turns and nowhere else. And the few that close indexes.

One thread serves all replicas of a process. Jobs that arrive while it works are taken together, and their completions
travel back to the event loop in one wake-up: crossing from a thread to a loop costs more than applying a small batch.
For the same reason the loop itself does a small job that comes alone, while such jobs are quick (`QuickWork`): nothing
is queued then, so it takes the thread's turn. One in a turn of the loop: many are better off in the thread, together.

Closing an index that was written takes three syncs and writes nothing in it. It is done concurrently with the folds,
for several indexes at the same time: a filesystem brings the syncs that wait together to the disk together.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from bisect import bisect_left
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, Generic, TypeVar

from log_tier.concurrency.clocks import SYSTEM_CLOCK
from log_tier.concurrency.sized_work import wake_some
from log_tier.concurrency.workers import THREADS, Consumer, QuickWork, Workers
from log_tier.measures.histogram import SECONDS, Histogram
from log_tier.model.errors import ShuttingDown

__all__ = ["Applier"]

logger = logging.getLogger(__name__)

# Indexes that are closed at the same time: see `log_tier.embedded.closing`.
_CLOSERS: Final = 8

T = TypeVar("T")


class _Job(Generic[T]):
    __slots__ = ("error", "future", "is_small", "result", "work")

    def __init__(self, work: Callable[[], T], future: asyncio.Future[T], is_small: bool) -> None:
        self.work = work
        self.future = future
        self.is_small = is_small
        self.result: T | None = None
        self.error: BaseException | None = None


class Applier:
    """Runs work for one event loop in one thread, in the order in which it came.

    `start()` begins, `stop()` finishes what was accepted and ends the thread.
    """

    def __init__(
        self, workers: Workers = THREADS, *, stopwatch_s: Callable[[], float] = SYSTEM_CLOCK.monotonic_s
    ) -> None:
        self._folder: Consumer[_Job[object] | None] = workers.consumer(self._run, name="duramen-applier")
        self._accepting = threading.Lock()
        """Held while a job is queued, so that none comes behind the end."""
        self._stopping = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closers = workers.pool(_CLOSERS, name="duramen-index-close")
        self._stopwatch_s = stopwatch_s
        self._small_jobs = QuickWork(workers.quick_s)
        self._queued = 0
        """Jobs that the thread has, or has done and the loop does not know of yet. Only the loop uses it."""
        self._had_turn = False
        """The loop has done a job itself in its current turn."""
        self.jobs_at_once = 0
        """Jobs that the loop has done itself."""
        self.job_s = Histogram(SECONDS)
        """How long jobs took. The loop does one only while the thread has none, so one thread at a time counts."""

    def start(self) -> None:
        """Start the thread; completions go to the running event loop."""
        assert self._loop is None, "the applier is running already"
        self._loop = asyncio.get_running_loop()
        self._folder.start()

    async def run(self, work: Callable[[], T], *, is_small: bool = False) -> T:
        """Run `work` in the thread and return what it returns or raises. Raises `ShuttingDown` after `stop`.

        `is_small`: it takes some 50 µs, so the loop may do it before this returns. A caller that is cancelled while it
        waits does not undo the work.
        """
        assert self._loop is not None, "the applier was not started"
        with self._accepting:
            if self._stopping:
                raise self._refusal()
            at_once = is_small and self._small_jobs.is_quick and not self._queued and not self._had_turn
            if not at_once:
                future = self._queue(work, is_small=is_small)
        return self._do_here(work) if at_once else await future

    def _refusal(self) -> ShuttingDown:
        return ShuttingDown("this node is stopping and applies nothing more; read from another one")

    def _queue(self, work: Callable[[], T], *, is_small: bool = False) -> asyncio.Future[T]:
        """Queue a job for the thread, while new ones are accepted."""
        assert self._loop is not None, "the applier was not started"
        future: asyncio.Future[T] = self._loop.create_future()
        self._queued += 1
        self._folder.put(_Job(work, future, is_small))  # type: ignore[arg-type]
        return future

    def _do_here(self, work: Callable[[], T]) -> T:
        """Do a small job on the event loop. The thread has none."""
        assert self._loop is not None, "the applier was not started"
        self._had_turn = True
        self._loop.call_soon(self._end_turn)
        self.jobs_at_once += 1
        return self._timed(work)

    def _end_turn(self) -> None:
        self._had_turn = False

    def _timed(self, work: Callable[[], T]) -> T:
        """Do a small job, and note how long it took."""
        began_s = self._stopwatch_s()
        try:
            return work()
        finally:
            took_s = self._stopwatch_s() - began_s
            self._small_jobs.took(took_s)
            self._count(took_s)

    def _count(self, took_s: float) -> None:
        measured = self.job_s  # `observe`, without a call into another file
        measured.counts[bisect_left(measured.bounds, took_s)] += 1
        measured.total += took_s

    async def run_aside(self, work: Callable[[], T]) -> T:
        """Run `work`, which folds nothing, when everything that was accepted before is done, concurrently with what
        comes later.

        A caller that is cancelled while it waits does not undo the work, and its failure is logged. Raises as `run`.
        """
        with self._accepting:
            if self._stopping:
                raise self._refusal()
            begun = self._queue(lambda: self._closers.submit(work))
        closing: asyncio.Future[T] | None = None
        try:
            closing = asyncio.wrap_future(await asyncio.shield(begun))
            return await asyncio.shield(closing)
        except asyncio.CancelledError:
            if closing is None:
                begun.add_done_callback(_log_failure_aside)
            else:
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
        assert self._loop is not None, "the thread runs after `start`"
        jobs = [job for job in taken if job is not None]
        for job in jobs:
            try:
                if job.is_small:
                    job.result = self._timed(job.work)
                    continue
                began_s = self._stopwatch_s()
                job.result = job.work()
                self._count(self._stopwatch_s() - began_s)
            except BaseException as error:  # noqa: BLE001 - carried to the caller, who raises it
                job.error = error
        if jobs:
            self._loop.call_soon_threadsafe(self._complete, jobs)
        return len(jobs) == len(taken)

    def _complete(self, jobs: list[_Job[object]]) -> None:
        """Wake the callers: a commit over a thousand partitions wakes as many replicas."""
        self._queued -= len(jobs)
        wake_some(jobs, _complete_one)


def _log_failure_aside(begun: asyncio.Future[Future[T]]) -> None:
    """Of work aside whose caller has gone, when it is known that the work is under way."""
    if not begun.cancelled() and begun.exception() is None:
        asyncio.wrap_future(begun.result()).add_done_callback(_log_failure)


def _log_failure(closing: asyncio.Future[T]) -> None:
    if not closing.cancelled() and closing.exception() is not None:
        logger.warning("an index could not be closed cleanly: %r", closing.exception())


def _complete_one(job: _Job[object]) -> None:
    if job.future.done():
        return  # the caller was cancelled
    if job.error is not None:
        job.future.set_exception(job.error)
    else:
        job.future.set_result(job.result)
