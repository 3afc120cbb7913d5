"""Group commit: one thread writes for all partitions of a log.

It takes everything that is queued, writes each partition's batches with one write, makes all of it stable with one
sync (of the segment, or of the journal where several partitions are in it), and hands each event loop its results
once. While it syncs, the next appends gather; there is no timer and no linger: a lone caller pays for one sync.

Where a caller has gathered everything itself, or calls come one at a time (`lone_calls.py`), nothing waits, and the
disk is quick (`QuickWork`), the commit is made in the caller's thread: two threads less are woken. Never two commits at
once: the committing thread holds `_turn`.

A failed sync is final: the kernel marks pages clean after one, so a second sync that succeeds would prove nothing. What
was written and not synced may be in the log after the restart: its callers get `WriteUnknown`. What waits behind it,
and whatever comes later, is never written and gets `LogStopped`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from itertools import repeat
from typing import Any, Final

from log_tier.concurrency.descriptors import OUT_OF_DESCRIPTORS
from log_tier.concurrency.sized_work import wake_some
from log_tier.concurrency.workers import Consumer, QuickWork
from log_tier.embedded.commit.appends import Append, CheckedBatch, Results
from log_tier.embedded.commit.commit_errors import own_copy, write_failed, write_unknown
from log_tier.embedded.commit.journal import Journal, JournalEntry
from log_tier.embedded.commit.lone_calls import LoneCalls
from log_tier.embedded.commit.room import SHARED_OUT, CommitRoom
from log_tier.embedded.commit.traced_commit import CommitTimes, keep_traces, trace_commit
from log_tier.embedded.segments.partition_log import PartitionLog
from log_tier.embedded.segments.staged import Staged
from log_tier.embedded.storage.settings import ClockMs, EngineSettings
from log_tier.measures.histogram import BYTES, SECONDS, Histogram
from log_tier.measures.long_work import LongCommit, LongWork
from log_tier.model.errors import DuramenError, LogStopped, Overloaded, ShuttingDown, WriteUnknown
from log_tier.model.log import Appended
from log_tier.tracing.span import TRACED

__all__ = ["Committer", "tell"]

_logger = logging.getLogger(__name__)

_Errand = tuple[Callable[[], None], "Future[None]"]
_Work = Append | _Errand | None
"""An item of the writer thread's queue; None ends the thread."""
_Settled = list[tuple["asyncio.Future[Any]", object]]

# Of a commit in a caller's thread: beyond it the copy into the kernel's memory takes as long as a sync.
_AT_ONCE_BYTES_MAX: Final = 256 * 1024

# Each partition is one write to a file, some 40 µs of that thread.
_AT_ONCE_BATCHES_MAX: Final = 32


class Committer:
    """The writer thread and its queue."""

    def __init__(self, settings: EngineSettings, clock: ClockMs) -> None:
        self._settings = settings
        self._clock = clock
        self._writer: Consumer[_Work] = settings.workers.consumer(self._run, name="duramen-log-writer")
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        """Held by the thread that writes to partitions: the writer thread, or a caller that commits at once."""
        self._disk = QuickWork(settings.quick_commit_s)
        self._calls = LoneCalls()
        """Of the calls that have not gathered everything."""
        self._room = CommitRoom(settings.workers)
        self.queued = 0
        self.queued_bytes = 0
        self._closed = False
        self.journal: Journal | None = None
        """Where commits over several partitions are made stable; None: each partition's segment is synced."""
        self.stopped: LogStopped | None = None
        """Why this log acknowledges nothing more, if it does not."""
        self.appends = 0
        self.commits = 0
        self.commits_at_once = 0
        """Commits that were made in a caller's thread."""
        self.syncs = 0
        self.bytes = 0
        self.commit_s = Histogram(SECONDS)  # how long commits took until they were stable
        self.commit_bytes = Histogram(BYTES)
        self.long_commits: LongWork[LongCommit] = LongWork()
        self._is_traced = False
        """Has a call ever come from a caller that is traced?"""
        self._waiting_since_s = 0.0
        """When the oldest batch that waits came, by the stopwatch."""

    @property
    def queue_age_s(self) -> float:
        """How long the oldest batch that is not acknowledged has waited, in seconds; 0.0: none waits."""
        with self._lock:
            return self._settings.stopwatch_s() - self._waiting_since_s if self.queued else 0.0

    def start(self) -> None:
        """Start the thread."""
        self._writer.start()

    def submit(self, batches: Sequence[CheckedBatch], *, gathered: bool = False) -> asyncio.Future[Results]:
        """Queue checked batches of the running loop; they share a commit. With `gathered`, or where calls come one at a
        time, the commit may be made here, and the future is done. Its result has one outcome for each batch; it raises
        nothing.

        Raises `Overloaded`, `LogStopped`, `ShuttingDown`; then none of them is queued.
        """
        size = 0
        for _, batch, _ in batches:
            size += len(batch)
        loop = asyncio.get_running_loop()
        settings = self._settings
        with self._lock:
            if self.stopped is not None:
                raise self.stopped
            if self._closed:
                raise ShuttingDown("the log is closing; open it again, or use another replica")
            if self.queued >= settings.queue_batches_max or self.queued_bytes + size > settings.queue_bytes_max:
                raise Overloaded(
                    f"{self.queued} batches of {self.queued_bytes} bytes wait for the disk; at most "
                    f"{settings.queue_batches_max} and {settings.queue_bytes_max} bytes may: wait and try again",
                    limit=settings.queue_bytes_max,
                )
            if not gathered:
                self._calls.came(queued=self.queued > 0)
            # Nothing queued means that nothing is in the thread's hands either, so nobody is overtaken.
            at_once = (
                (gathered or self._calls.is_alone)
                and not self.queued
                and size <= _AT_ONCE_BYTES_MAX
                and len(batches) <= _AT_ONCE_BATCHES_MAX
                and self._disk.is_quick
                and not any(log.is_at_rest for log, _, _ in batches)  # its files are looked at first
                and self._turn.acquire(blocking=False)
            )
            if not self.queued:
                self._waiting_since_s = settings.stopwatch_s()
            self.queued += len(batches)
            self.queued_bytes += size
            append = Append(batches, size, loop.create_future())
            if callers := TRACED.get():
                append = append._replace(callers=callers, came_s=settings.stopwatch_s())
                self._is_traced = True
            if not at_once:
                self._writer.put(append)
        if at_once:
            self._commit_here(append, loop)
        return append.future

    def _commit_here(self, append: Append, loop: asyncio.AbstractEventLoop) -> None:
        """Commit in this thread, which has the turn."""
        try:
            self._commit([append], here=loop)
            self.commits_at_once += 1
        except BaseException as error:
            self._fail([append], error)
            raise
        finally:
            self._turn.release()

    def run(self, errand: Callable[[], None]) -> None:
        """Have the writer thread do something between two commits, and wait for it: not in an event loop's thread."""
        done: Future[None] = Future()
        with self._lock:
            if self._closed:
                raise ShuttingDown("the log is closing; open it again, or use another replica")
            self._writer.put((errand, done))
        self._writer.wait_for(done)

    def close(self) -> None:
        """Commit what is queued, then end the thread. Blocks."""
        with self._lock:
            self._closed = True
            self._writer.put(None)
        self._writer.join()
        self._room.close()

    def _run(self, work: list[_Work]) -> bool:
        try:
            with self._turn:
                return self._do(work)
        except BaseException as error:
            # Our own bug ends the thread: say so to everyone, so that nobody waits for ever.
            self._fail(work, error, self._writer.take_rest())
            raise

    def _do(self, work: list[_Work]) -> bool:
        """Commit and run errands; whether to go on."""
        going = True
        errands: list[_Errand] = []
        appends: list[Append] = []
        for item in work:
            if item is None:
                going = False
            elif isinstance(item, Append):
                appends.append(item)
            else:
                errands.append(item)
        if appends:
            self._commit(appends)
        for errand, done in errands:
            try:
                errand()
            except (OSError, DuramenError) as error:
                done.set_exception(error)
            else:
                done.set_result(None)
        return going

    def _fail(self, under_way: Sequence[_Work], error: BaseException, queued: Sequence[_Work] = ()) -> None:
        stopped = self._stop(LogStopped(f"the log's writer ended with {error!r}: restart, and report this as a bug"))
        unknown = write_unknown(stopped)
        for answer, item in (*((unknown, item) for item in under_way), *((stopped, item) for item in queued)):
            if isinstance(item, Append):
                tell(item.future.get_loop(), [(item.future, [own_copy(answer) for _ in item.batches])])
            elif item is not None and not item[1].done():
                item[1].set_exception(stopped)

    def _commit(self, appends: Sequence[Append], *, here: asyncio.AbstractEventLoop | None = None) -> None:
        """Commit, and settle the callers' futures in their loops. `here`: the current thread's loop, if it has one."""
        stopwatch_s = self._settings.stopwatch_s
        began_s = stopwatch_s()
        groups = _by_partition(appends)
        staged: list[tuple[PartitionLog, Staged]] = []
        outcomes: dict[PartitionLog, Iterator[Appended | DuramenError]] = {}
        traced = self._is_traced and any(append.callers for append in appends)
        alone = len(groups) == 1 and not traced  # else its write and its sync have a time each
        failed = self._room.make(groups) if len(groups) >= SHARED_OUT and self.stopped is None else {}
        for partition, group in groups.items():
            results, part = self._stage(partition, group, failed.get(partition), alone=alone)
            outcomes[partition] = iter(results)
            if part is not None:
                staged.append((partition, part))
        written_s = keep_traces(appends, outcomes, stopwatch_s) if traced else 0.0
        if staged:
            for partition, failure in self._make_stable(staged).items():
                outcomes[partition] = repeat(failure)
        took_s = stopwatch_s() - began_s
        self._disk.took(took_s)
        if took_s >= self.long_commits.least_s:  # before its callers learn of it, who may ask what took so long
            self.long_commits.note(LongCommit(began_s, began_s + took_s))
        settled: dict[asyncio.AbstractEventLoop, _Settled] = {}
        count = size = 0
        placed: list[tuple[Append, Results]] | None = [] if traced else None
        for append in appends:
            found: Results = []
            for partition, batch, _ in append.batches:
                outcome = next(outcomes[partition])
                if isinstance(outcome, Appended):
                    self.appends += 1
                    self.bytes += len(batch)
                else:
                    outcome = own_copy(outcome)
                found.append(outcome)
            settled.setdefault(append.future.get_loop(), []).append((append.future, found))
            count += len(append.batches)
            size += append.size
            if placed is not None and append.callers:
                placed.append((append, found))
        for partition in groups:
            for waiter in partition.woken:
                settled.setdefault(waiter.get_loop(), []).append((waiter, None))
            partition.woken = []
        with self._lock:
            self.queued -= count
            self.queued_bytes -= size
            self._waiting_since_s = began_s  # what waits now came while this commit was made
        self.commits += 1
        for measured, value in ((self.commit_s, took_s), (self.commit_bytes, size)):  # `observe` in one place
            measured.counts[bisect_left(measured.bounds, value)] += 1
            measured.total += value
        for loop, outcomes_of_loop in settled.items():
            if loop is here:
                _settle(outcomes_of_loop)
            else:
                tell(loop, outcomes_of_loop)
        if placed:
            trace_commit(placed, CommitTimes(began_s, written_s, began_s + took_s, stopwatch_s()), count, size)

    def _stage(
        self, partition: PartitionLog, group: list[tuple[bytes, int]], failed: Exception | None, *, alone: bool
    ) -> tuple[Sequence[Appended | DuramenError], Staged | None]:
        """Write one partition's batches; what each of them came to, and what is still to be made stable: nothing where
        this partition is `alone` in its commit. `failed`: why there is no room for them.
        """
        outcome: DuramenError
        places: list[Appended] = []
        staged: Staged | None = None
        if self.stopped is not None:
            return [self.stopped] * len(group), None
        try:
            if failed is not None:
                raise failed
            places, staged, refusal = partition.stage(group, self._clock(), alone=alone)
            if places:
                self.syncs += alone
            if refusal is None:
                return places, staged
            outcome = refusal
        except LogStopped as error:
            outcome = self._not_staged(partition, error)
        except DuramenError as error:
            outcome = error
        except OSError as error:
            outcome = self._not_staged(partition, write_failed(partition.folder, error))
        return [*places, *[outcome] * (len(group) - len(places))], staged

    def _not_staged(self, partition: PartitionLog, error: LogStopped) -> DuramenError:
        """Stop; the error for the writes that were to be staged."""
        stopped = self._stop(error)
        return write_unknown(stopped) if partition.has_written else stopped

    def _make_stable(self, staged: list[tuple[PartitionLog, Staged]]) -> dict[PartitionLog, WriteUnknown]:
        """Sync what was staged, with as few syncs as that takes, and let readers see it; who failed, and why."""
        failed: dict[PartitionLog, WriteUnknown] = {}
        journal = self.journal
        size = sum(part.end_position - part.position for _, part in staged)
        if journal is not None and len(staged) > 1 and journal.has_room_for(size, len(staged)) and not self.stopped:
            try:
                journalled = True
                journal.write(
                    [
                        JournalEntry(log.id, part.segment.base, part.position, b"".join(part.data))
                        for log, part in staged
                    ],
                    [part.segment.path for _, part in staged],
                )
            except OSError as error:
                # The journal cannot turn without a descriptor. Nothing was written to it, and the segments are open.
                journalled = error.errno not in OUT_OF_DESCRIPTORS
                if journalled:
                    stopped = self._stop(write_failed(staged[0][0].folder, error))
                    return dict.fromkeys((log for log, _ in staged), write_unknown(stopped))
            if journalled:
                self.syncs += 1
                for log, part in staged:
                    log.publish_journalled(part)
                return failed
        for log, part in staged:
            try:
                if self.stopped is not None:
                    raise self.stopped
                log.settle(part)
                self.syncs += 1
            except LogStopped as error:
                failed[log] = write_unknown(self._stop(error))
        return failed

    def stop(self, error: LogStopped) -> LogStopped:
        """A sync failed outside of a commit: this log acknowledges nothing more."""
        return self._stop(error)

    def _stop(self, error: LogStopped) -> LogStopped:
        if self.stopped is None:
            _logger.critical("%s", error.message)
            with self._lock:
                self.stopped = error
        return error


def _by_partition(appends: Sequence[Append]) -> dict[PartitionLog, list[tuple[bytes, int]]]:
    """The bytes and spans of all batches, each partition's in their order."""
    found: dict[PartitionLog, list[tuple[bytes, int]]] = {}
    for append in appends:
        for partition, batch, span in append.batches:
            found.setdefault(partition, []).append((batch, span))
    return found


def tell(loop: asyncio.AbstractEventLoop, outcomes: _Settled) -> None:
    """Settle futures in the loop that they belong to."""
    try:
        loop.call_soon_threadsafe(_settle, outcomes)
    except RuntimeError:
        # The loop was closed: nobody waits there any more. What was written stays written.
        _logger.debug("%d waiters of a closed loop were not notified", len(outcomes))


def _settle(outcomes: _Settled) -> None:
    """The callers at once; of many followers some in each turn of the loop."""
    followers: list[asyncio.Future[Any]] = []
    for future, outcome in outcomes:
        if outcome is None:
            followers.append(future)
        elif not future.done():
            future.set_result(outcome)
    if len(followers) == 1:
        _release(followers[0])
    elif followers:
        wake_some(followers, _release)


def _release(follower: asyncio.Future[Any]) -> None:
    if not follower.done():
        follower.set_result(None)
