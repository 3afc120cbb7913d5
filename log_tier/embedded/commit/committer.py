"""Group commit: one thread writes for all partitions of a log.

It takes everything that is queued, writes each partition's batches with one write, makes all of it stable with one sync
(of the segment, or of the journal where several partitions are in it), and hands each event loop its results once.
While it syncs, the next appends gather; there is no timer and no linger, so one caller alone pays for one sync and
nothing else, and many callers share one.

Where a caller has gathered everything itself, nothing waits, and the disk is quick (`quick_disk.py`), the commit is
made in the caller's thread: two threads less are woken. Never two commits at once: the committing thread holds `_turn`.

A failed sync is final: the kernel marks pages clean after one, so a second sync that succeeds would prove nothing. What
was written and not synced may be in the log after the restart: its callers get `WriteUnknown`. What waits behind it,
and whatever comes later, is never written and gets `LogStopped`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final

from log_tier.concurrency.descriptors import OUT_OF_DESCRIPTORS
from log_tier.concurrency.workers import Consumer
from log_tier.embedded.commit.journal import Journal, JournalEntry
from log_tier.embedded.commit.quick_disk import QuickDisk
from log_tier.embedded.segments.partition_log import PartitionLog
from log_tier.embedded.segments.staged import Staged
from log_tier.embedded.storage.disk import SyncFailed
from log_tier.embedded.storage.settings import ClockMs, EngineSettings
from log_tier.model.errors import DuramenError, LogStopped, Overloaded, ShuttingDown, WriteUnknown
from log_tier.model.log import Appended

__all__ = ["Committer"]

_logger = logging.getLogger(__name__)

# What waits for a commit: its partition, its bytes, its span, and who wants to know.
_Append = tuple[PartitionLog, bytes, int, "asyncio.Future[Appended]"]
_Errand = tuple[Callable[[], None], "Future[None]"]
_Work = list[_Append] | _Errand | None
"""What the writer's thread takes; None: the last."""
_Settled = list[tuple["asyncio.Future[Any]", object]]

# Of a commit in a caller's thread: beyond it the copy into the kernel's memory takes as long as a sync.
_AT_ONCE_BYTES_MAX: Final = 256 * 1024


class Committer:
    """The writer thread and its queue."""

    def __init__(self, settings: EngineSettings, clock: ClockMs) -> None:
        self._settings = settings
        self._clock = clock
        self._writer: Consumer[_Work] = settings.workers.consumer(self._run, name="duramen-log-writer")
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        """Held by the thread that writes to partitions: the writer thread, or a caller that commits at once."""
        self._disk = QuickDisk(settings.quick_commit_s)
        self._queued = 0
        self._queued_bytes = 0
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

    def start(self) -> None:
        """Start the thread."""
        self._writer.start()

    def submit(
        self, batches: Sequence[tuple[PartitionLog, bytes, int]], *, gathered: bool = False
    ) -> list[asyncio.Future[Appended]]:
        """Queue checked batches (partition, bytes, span) of the running loop; they share a commit. With `gathered` the
        commit may be made here, and the futures are done.

        Raises `Overloaded`, `LogStopped`, `ShuttingDown`; then none of them is queued.
        """
        size = sum(len(batch) for _, batch, _ in batches)
        loop = asyncio.get_running_loop()
        settings = self._settings
        with self._lock:
            if self.stopped is not None:
                raise self.stopped
            if self._closed:
                raise ShuttingDown("the log is closing; open it again, or use another replica")
            if self._queued >= settings.queue_batches_max or self._queued_bytes + size > settings.queue_bytes_max:
                raise Overloaded(
                    f"{self._queued} batches of {self._queued_bytes} bytes wait for the disk; at most "
                    f"{settings.queue_batches_max} and {settings.queue_bytes_max} bytes may: wait and try again",
                    limit=settings.queue_bytes_max,
                )
            # Nothing queued means that nothing is in the thread's hands either, so nobody is overtaken.
            at_once = (
                gathered
                and not self._queued
                and size <= _AT_ONCE_BYTES_MAX
                and self._disk.is_quick
                and not any(log.is_at_rest for log, _, _ in batches)  # its files are looked at first
                and self._turn.acquire(blocking=False)
            )
            self._queued += len(batches)
            self._queued_bytes += size
            appends: list[_Append] = [(log, batch, span, loop.create_future()) for log, batch, span in batches]
            if not at_once:
                self._writer.put(appends)
        if at_once:
            self._commit_here(appends, loop)
        return [future for _, _, _, future in appends]

    def _commit_here(self, appends: list[_Append], loop: asyncio.AbstractEventLoop) -> None:
        """Commit in this thread, which has the turn."""
        try:
            self._commit(_by_partition([appends]), here=loop)
            self.commits_at_once += 1
        except BaseException as error:
            self._fail([appends], error)
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
        groups: list[list[_Append]] = []
        for item in work:
            if item is None:
                going = False
            elif isinstance(item, tuple):
                errands.append(item)
            else:
                groups.append(item)
        if groups:
            self._commit(_by_partition(groups))
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
        unknown = _unknown(stopped)
        for answer, item in (*((unknown, item) for item in under_way), *((stopped, item) for item in queued)):
            if item is None:
                continue
            if isinstance(item, tuple):
                if not item[1].done():
                    item[1].set_exception(stopped)
            else:
                for *_, future in item:
                    tell(future.get_loop(), [(future, answer)])

    def _commit(
        self, appends: dict[PartitionLog, list[_Append]], *, here: asyncio.AbstractEventLoop | None = None
    ) -> None:
        """Commit, and settle the callers' futures in their loops. `here`: the current thread's loop, if it has one."""
        stopwatch_s = self._settings.stopwatch_s
        began_s = stopwatch_s()
        staged: list[tuple[PartitionLog, Staged]] = []
        outcomes: dict[PartitionLog, list[Appended | DuramenError]] = {}
        for partition, group in appends.items():
            outcomes[partition], part = self._stage(partition, group)
            if part is not None:
                staged.append((partition, part))
        for partition, failure in self._make_stable(staged).items():
            outcomes[partition] = [failure] * len(appends[partition])
        self._disk.took(stopwatch_s() - began_s)

        settled: dict[asyncio.AbstractEventLoop, _Settled] = {}
        count = size = 0
        for partition, group in appends.items():
            for (_, batch, _, future), outcome in zip(group, outcomes[partition], strict=True):
                settled.setdefault(future.get_loop(), []).append((future, outcome))
                count += 1
                size += len(batch)
                if isinstance(outcome, Appended):
                    self.appends += 1
                    self.bytes += len(batch)
            for waiter in partition.take_waiters():
                settled.setdefault(waiter.get_loop(), []).append((waiter, None))
        with self._lock:
            self._queued -= count
            self._queued_bytes -= size
        self.commits += 1
        for loop, results in settled.items():
            if loop is here:
                _settle(results)
            else:
                tell(loop, results)

    def _stage(
        self, partition: PartitionLog, group: list[_Append]
    ) -> tuple[list[Appended | DuramenError], Staged | None]:
        """Write one partition's batches; what each of them came to, and what is still to be made stable."""
        outcome: DuramenError
        places: list[Appended] = []
        staged: Staged | None = None
        if self.stopped is not None:
            return [self.stopped] * len(group), None
        try:
            places, staged, refusal = partition.stage([(batch, span) for _, batch, span, _ in group], self._clock())
            if refusal is None:
                return list(places), staged
            outcome = refusal
        except LogStopped as error:
            outcome = self._not_staged(partition, error)
        except DuramenError as error:
            outcome = error
        except OSError as error:
            outcome = self._not_staged(partition, _write_failed(partition.folder, error))
        return [*places, *[outcome] * (len(group) - len(places))], staged

    def _not_staged(self, partition: PartitionLog, error: LogStopped) -> DuramenError:
        """Stop; the error for the writes that were to be staged."""
        stopped = self._stop(error)
        return _unknown(stopped) if partition.has_written else stopped

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
                    stopped = self._stop(_write_failed(staged[0][0].folder, error))
                    return dict.fromkeys((log for log, _ in staged), _unknown(stopped))
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
                failed[log] = _unknown(self._stop(error))
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


def _by_partition(groups: Sequence[list[_Append]]) -> dict[PartitionLog, list[_Append]]:
    found: dict[PartitionLog, list[_Append]] = {}
    for group in groups:
        for append in group:
            found.setdefault(append[0], []).append(append)
    return found


def _write_failed(folder: Path, error: OSError) -> LogStopped:
    return LogStopped(
        f"{'a sync of' if isinstance(error, SyncFailed) else 'an operation on'} {error.filename or folder} failed "
        f"({error.strerror}), so what is on the disk is unknown: this log acknowledges "
        "nothing more. Reads go on; look at the disk, then restart to recover"
    )


def _unknown(stopped: LogStopped) -> WriteUnknown:
    """What callers get whose batches were written, or were being written, when the log stopped."""
    return WriteUnknown(
        f"{stopped.message}. This write was under way: after the restart it is in the log once or not at all; read the "
        "key, or append the same bytes again, a second copy is void"
    )


def tell(loop: asyncio.AbstractEventLoop, outcomes: _Settled) -> None:
    """Settle futures in the loop that they belong to."""
    try:
        loop.call_soon_threadsafe(_settle, outcomes)
    except RuntimeError:
        # The loop was closed: nobody waits there any more. What was written stays written.
        _logger.debug("%d waiters of a closed loop were not notified", len(outcomes))


def _settle(outcomes: _Settled) -> None:
    for future, outcome in outcomes:
        if future.done():
            continue
        if isinstance(outcome, DuramenError):
            # One error may go to many waiters; each gets its own, so that tracebacks do not pile up in one.
            future.set_exception(type(outcome)(outcome.message, **dict(outcome.fields)))
        else:
            future.set_result(outcome)
