"""One partition's index on this node: opened or rebuilt, kept up with the log, read at a known offset.

What an event makes of a replica, and what is to be done about it, is the table of `serving_tier.replica.machine`; this
class owns the task that follows the log, and performs the effects in their order. How far it is, and who waits, is
`serving_tier.replica.replica_progress`; its indexes are `serving_tier.replica.standby`.

**Damage.** An index that turns out damaged, while it is written or read, is never served again: the replica stops and
reports "damaged", and its owner brings up another index in its place (I8, I10).

**Versions.** The table may go over to another version of its content: `versions` keeps those that are not live level
with the one that is, and at a barrier in the log the index that the barrier names takes the live one's place, between
two applies. A read that is under way goes on in the index in which it began. A replica that comes to a barrier without
having that version waits there, reports "version_missing", and goes on when the version has caught up.

A replica never answers early: `wait_applied(offset)` returns when the index holds that offset, or says how far it is.

**Long reads in other threads** (a page of a scan) are counted in `index.readers` while they run, so that the index is
closed under none of them: a reader first counts itself in and then looks at the state, `close()` first changes the
state and then waits until nobody is left. `with replica.reading() as index:` does that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager
from copy import copy
from typing import Final

from log_tier.concurrency.clocks import SYSTEM_CLOCK
from log_tier.concurrency.tasks import to_the_end
from log_tier.model.barrier import Barrier
from log_tier.model.errors import DuramenError, IndexDamaged, LogDamaged, ShuttingDown, TableNotFound, VersionMissing
from log_tier.model.identifiers import NOTHING, Offset, PartitionName
from log_tier.model.log import Log, Topic
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.index.lmdb.pinned_read import PinnedRead
from serving_tier.replica.applier import Applier
from serving_tier.replica.apply import (
    Applying,
    ApplyStep,
    BatchesApplied,
    Progressed,
    Switched,
    VersionAwaited,
    VersionFailed,
    VersionLive,
)
from serving_tier.replica.lag import LagBounds, LastLook
from serving_tier.replica.machine import Effect, MachineEvent, ReplicaState
from serving_tier.replica.machine import step as transition
from serving_tier.replica.observer import ReplicaEvent, ReplicaObserver
from serving_tier.replica.open_index import open_indexes
from serving_tier.replica.pinned_reads import PinnedReads
from serving_tier.replica.refusals import closing, end_lost, pinned_too_late, stopped_by_bug
from serving_tier.replica.replica_progress import ReplicaProgress
from serving_tier.replica.standby import StandbyVersions
from serving_tier.replica.version_folders import ReplicaFolder
from serving_tier.replica.void_warnings import VoidWarnings

__all__ = ["Replica", "ReplicaListener"]

logger = logging.getLogger(__name__)

# One chunk is one write transaction. 2 MiB are some 15,000 small records: enough that the commit disappears in the cost
# of the puts, little enough that a waiting read is served within some 30 ms while a replica catches up.
_CHUNK_BYTES: Final = 2 << 20

ReplicaListener = Callable[["Replica", ReplicaEvent], None]


class Replica:
    """A follower of one partition and its index. `open()` makes one, `close()` ends it.

    One over an index at rest (`LmdbIndex.at_rest`) that the log can carry on, with no other version here, needs no
    `open()`: make it, and call `follow()`. Some 50 µs.

    Invariant: `index.applied` is at most the log's latest offset; waiters of offsets up to it have been woken.
    """

    def __init__(
        self,
        topic: Topic,
        folder: ReplicaFolder,
        index: LmdbIndex,
        *,
        log: Log,
        applier: Applier,
        latest: Offset,
        lost: int = 0,
        lag_bounds: LagBounds = LagBounds(),  # noqa: B008  (immutable)
        clock: Callable[[], float] = SYSTEM_CLOCK.monotonic_s,
    ) -> None:
        """`latest`: where the log ends. `lost`: how many offsets beyond it are known to have been there."""
        self.topic = topic
        self.id: Final = folder.partition
        self.index = index
        self.state: ReplicaState = "replaying"
        self.source = "log"
        """Where its content came from before it followed the log, for people."""
        self.failure: DuramenError | None = None
        """The error that stopped the replica, or with which it was closed."""
        self.floor = Offset(latest + lost)
        """A reader that has seen nothing waits for this offset: the log's end when this replica was opened, so that a
        restart never shows less than before. `NOTHING` once it is applied. If the log has lost its end, it is the end
        that the log is known to have had, which no replica can apply."""
        self.lost = lost
        """How many offsets up to the floor cannot be read of the log."""
        self.owner: ReplicaListener | None = None
        """Gets what happens to this replica, on the event loop, when its state has changed already, and logs why it
        stopped. A `DuramenError` that it raises about "version_missing" stops the replica."""
        self.observers: list[ReplicaObserver] = []
        """Objects that keep a part of what the index holds."""
        self.name: Final = PartitionName(topic.name, self.id.partition)
        """For messages: table/partition."""
        self.progress = ReplicaProgress(
            self.name, self.id, index, log=log, latest=latest, floor=self.floor, lag_bounds=lag_bounds, clock=clock
        )
        self.versions = StandbyVersions(topic, folder, self.progress, log=log, applier=applier)
        self._log = log
        self._changes = 0
        self._pinned_reads = PinnedReads(self.progress)
        self._voids = VoidWarnings(self.name, index.statistics().void, clock=clock)
        self.applying = Applying(
            self.name, self.progress, self.versions, self._pinned_reads, self._voids, applier=applier
        )
        """`under_way`: is a batch being applied now, in the applier's thread?"""
        self._ready = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._follower: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls,
        topic: Topic,
        folder: ReplicaFolder,
        *,
        log: Log,
        applier: Applier,
        repair: bool = True,
        lag_bounds: LagBounds = LagBounds(),  # noqa: B008  (immutable)
        clock: Callable[[], float] = SYSTEM_CLOCK.monotonic_s,
    ) -> Replica:
        """Open the index in `folder` and follow the log from there; return when it may be read.

        One that cannot be trusted, or is of another history than the log, is discarded and folded from the log; without
        `repair` it raises `IndexDamaged`, for callers that have better sources. Raises `LogDamaged` where the index has
        applied more than the log holds: acknowledged records are gone, and going on would give their offsets to others;
        `OffsetTrimmed` where the log no longer holds all that the index needs; `DiskFull`, `FolderReadOnly`.
        """
        bounds = await log.bounds(folder.partition)
        name = f"{topic.name}/{folder.partition.partition}"
        index, others = await open_indexes(name, folder, bounds, log=log, applier=applier, repair=repair)
        latest, lost = bounds.latest, bounds.lost
        replica = cls(
            topic, folder, index, log=log, applier=applier, latest=latest, lost=lost, lag_bounds=lag_bounds, clock=clock
        )
        replica.applying.compared, replica.applying.compacted = True, bounds.compacted
        for other in others:
            replica.versions.carry(other)
        replica.follow()
        try:
            await replica.applying.come_through()
        except BaseException:
            await replica.close()
            raise
        return replica

    @property
    def changes(self) -> int:
        """Rises whenever the applied offset, the log's end as known, the state or a version may have changed."""
        return self._changes + self.progress.changes + self.versions.changes

    @property
    def applied(self) -> Offset:
        """The highest offset folded into the index."""
        return self.index.applied

    @property
    def void(self) -> int:
        """Records so far that no table can hold: foreign producers' mistakes."""
        return self._voids.count

    @property
    def awaits(self) -> VersionMissing | None:
        """Why it does not go on: it waits at a barrier for a version."""
        return self.applying.awaits

    @property
    def awaited_barrier(self) -> Barrier | None:
        """The barrier at which it waits for a version."""
        return self.applying.awaited

    def follow(self) -> None:
        """Follow the log from what the index holds; once. `open` has done that."""
        self._update_state()
        self._follower = asyncio.create_task(self._follow(), name=f"follow {self.name}")

    async def _follow(self) -> None:
        try:
            reader = self._log.read(self.id, Offset(self.index.applied + 1), follow=True, chunk_bytes=_CHUNK_BYTES)
            async with aclosing(reader) as chunks:
                async for chunk in chunks:
                    self.progress.heard(chunk.latest)
                    self.applying.compared &= not chunk.resumed
                    async with aclosing(self.applying.chunk(chunk)) as steps:
                        async for step in steps:
                            await self._do(step)
                    self.progress.advance()
                    if self.state != "ready":  # applying makes nobody fall behind; `look` sees who does
                        self._update_state()
            raise AssertionError("the log ended a read that follows it")
        except IndexDamaged as error:
            self._stop("damaged", error)
        except (TableNotFound, ShuttingDown) as error:
            self._stop("ended", error)
        except LogDamaged as error:
            self._stop("failed", end_lost(self.name, self.id.partition, self.applied, self.floor, error))
        except DuramenError as error:
            self._stop("failed", error)
        except Exception as error:
            # A bug of ours: end loudly, and let nobody wait for an offset that will not come.
            self._stop("failed", stopped_by_bug(self.name, self.applied, error))
            raise

    async def _do(self, step: ApplyStep) -> None:
        match step:
            case BatchesApplied(batches):
                for observer in self.observers:
                    observer.replica_applied(self.index, batches)
            case VersionLive(live):
                self.index = live
                self._happen("version_live")
            case Progressed():
                self.progress.advance()
                self._update_state()
            case VersionAwaited():
                self._happen("version_missing")
            case Switched():
                self._happen("switched")
            case VersionFailed(number, error):
                logger.error("%s: version %s is given up: %s", self.name, number, error)
                await self.versions.drop(number, error)

    def _update_state(self) -> None:
        self._happen(self.progress.event())

    def _stop(self, event: MachineEvent, error: DuramenError) -> None:
        if self.state not in ("stopped", "closed"):
            self.failure = error
            self._happen(event)

    def _happen(self, event: MachineEvent) -> None:
        """Take the event's transition, and perform its effects in their order."""
        self._changes += 1
        self.state, effects = transition(self.state, event)
        for effect in effects:
            _PERFORM[effect](self)

    def _report(self, event: ReplicaEvent) -> None:
        if self.owner is not None:
            self.owner(self, event)

    def _note_failure(self) -> None:
        if self.owner is None:  # who logs it, and knows how often it happened
            logger.error("replica %s stopped at %s: %s", self.name, self.applied, self.failure)

    def _warn_behind(self) -> None:
        logger.warning("replica %s fell behind: %s", self.name, self.progress.why_behind())

    def _forget_floor(self) -> None:
        assert self.applied >= self.floor, f"{self.name} has applied {self.applied}, and its floor is {self.floor}"
        self.floor, self.lost = NOTHING, 0

    def _cancel_follower(self) -> None:
        if self._follower is not None:
            self._follower.cancel()

    def _leave(self) -> None:
        for observer in list(self.observers):
            observer.replica_left()

    def _fail_waiters(self) -> None:
        assert self.failure is not None, f"{self.name} is {self.state} without a reason"
        self.progress.fail(self.failure)
        self._pinned_reads.fail(self.failure)
        self._ready.set()

    def damaged(self, error: IndexDamaged) -> None:
        """A read met damage, in whichever thread: stop, before another read meets it. Harmless when repeated."""
        self._loop.call_soon_threadsafe(self._stop, "damage_read", error)

    def hear(self, latest: Offset, *, asked_s: float, look: LastLook | None = None) -> bool:
        """Note that the log, asked at `asked_s` of the replica's clock, ends at `latest`. True if the replica was level
        and the log has not moved.
        """
        level = self.state == "ready" and self.progress.confirmed(latest, asked_s=asked_s, look=look)
        if not level:
            self.progress.answered(latest, asked_s=asked_s)
            self.look()
        return level

    def look(self) -> None:
        """Check the lag's clock and the state. Called by those who poll the log's end, whether it answers or not."""
        self.progress.watch()
        self._update_state()

    async def wait_ready(self) -> None:
        """Return when the replica is ready, or raise why it stopped."""
        await self._ready.wait()
        if self.failure is not None:
            raise copy(self.failure)

    async def wait_applied(self, offset: Offset, *, timeout: float | None) -> None:
        """Return when `offset` is applied. Raises as `ReplicaProgress.wait_applied`, and why the replica was closed."""
        self.check_open()
        if self.index.applied < offset:
            await self.progress.wait_applied(offset, timeout=timeout)

    async def at_offset(self, offset: Offset, *, timeout: float) -> PinnedRead:
        """A read transaction at `offset`, or at the end of the first batch beyond it. `timeout` in seconds.

        The offset may lie ahead of the log's end. The caller closes the read; the index stays open until then, and
        `check_open()` raises in a long reader when the replica is closing. Raises `OffsetPassed` where more is applied,
        with the offset; `ReplicaBehind` when the time has passed; `Overloaded`; why the replica stopped or was closed.
        """
        if self.failure is not None:
            raise copy(self.failure)
        try:
            return await self._pinned_reads.open(offset, timeout=timeout, still=not self.applying.under_way)
        except TimeoutError:
            applied, latest = self.applied, self.progress.latest
            raise pinned_too_late(self.name, self.id.partition, applied=applied, asked=offset, latest=latest) from None

    def check_open(self) -> None:
        """Raises why the replica was closed, if it was: for long reads, every now and then."""
        if self.state == "closed":
            raise copy(self.failure or closing(self.name))

    @contextmanager
    def reading(self, version: int | None = None) -> Iterator[LmdbIndex]:
        """The index, for a read in any thread; it stays open until the block is left. `version`: of the table, for a
        read that began in it; None: the live one. Raises why the replica was closed, and `VersionMissing` for one that
        is not level here (any more).
        """
        index = self.index if version is None else self.versions.of(version)
        with index.readers.held():
            self.check_open()
            if version is not None:
                self.versions.of(version)  # it may have gone before we stepped in
            try:
                yield index
            except IndexDamaged as error:
                self.damaged(error)
                raise

    async def close(self, reason: DuramenError | None = None) -> None:
        """Stop following and close the index cleanly, so that the next start need not rebuild it. Idempotent; when a
        caller goes on, cancelled or not, the index is closed. Waiting calls and later reads get `reason` (default:
        `ShuttingDown`).
        """
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(reason), name=f"close {self.name}")
        await to_the_end(self._closing)

    async def _close(self, reason: DuramenError | None) -> None:
        if self._follower is not None:
            self._follower.cancel()
            await asyncio.gather(self._follower, return_exceptions=True)  # what stopped it was reported then
        self.failure = reason or closing(self.name)
        self._happen("closed")
        await self.versions.close()

    def check(self) -> None:
        """Assert the invariants, between two turns of the event loop; for tests."""
        self.progress.check()
        self.versions.check()
        self._pinned_reads.check()
        assert self.index is self.progress.index, f"{self.name} reads {self.index.path}, not {self.progress.index.path}"
        assert (self.failure is not None) == (self.state in ("stopped", "closed")), (self.state, self.failure)
        assert self._ready.is_set() == (self.state in ("ready", "stopped", "closed")), self.state


_PERFORM: Final[dict[Effect, Callable[[Replica], None]]] = {
    "forget_floor": Replica._forget_floor,
    "signal_ready": lambda replica: replica._ready.set(),
    "withdraw_ready": lambda replica: replica._ready.clear(),
    "warn_behind": Replica._warn_behind,
    "note_end": lambda r: logger.info("replica %s stopped at %s: %s", r.name, r.applied, r.failure),
    "note_failure": Replica._note_failure,
    "cancel_follower": Replica._cancel_follower,
    "leave_index": Replica._leave,
    "fail_waiters": Replica._fail_waiters,
    "report_stopped": lambda replica: replica._report("stopped"),
    "report_damaged": lambda replica: replica._report("damaged"),
    "report_version_missing": lambda replica: replica._report("version_missing"),
    "report_switched": lambda replica: replica._report("switched"),
}
