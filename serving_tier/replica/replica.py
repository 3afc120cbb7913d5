"""One partition's index on this node: opened or rebuilt, kept up with the log, read at a known offset.

What an event makes of a replica, and what is to be done about it, is the table of `serving_tier.replica.machine`; this
class owns the task that follows the log, and performs the effects. `serving_tier.replica.lag` says what the lag is and
where its bounds are. An index that cannot be trusted when it is opened is discarded, and the log is folded again.

**Damage.** An index that turns out damaged, while it is written or read, is never served again: the replica stops and
reports "damaged", and its owner brings up another index in its place (I8, I10).

**Versions.** The table may go over to another version of its content: `versions` keeps those that are not live level
with the one that is, and at a barrier in the log the index that the barrier names takes the live one's place, between
two applies. A read that is under way goes on in the index in which it began. A replica that comes to a barrier without
having that version waits there, reports "version_missing", and goes on when the version has caught up.

A replica never answers early: `wait_applied(offset)` returns when the index holds that offset, or says how far it is.

**Long reads in other threads** (a page of a scan) stand in `readers` while they run, so that the index is closed
under none of them: a reader first steps in and then looks at the state, `close()` first changes the state and then
waits until nobody is left. `with replica.reading() as index:` does that.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from copy import copy
from functools import partial
from pathlib import Path
from typing import Final, Literal

from log_tier.model.barrier import Barrier
from log_tier.model.batch import Batch
from log_tier.model.errors import (
    DuramenError,
    IndexDamaged,
    ReplicaBehind,
    ShuttingDown,
    TableNotFound,
    VersionMissing,
)
from log_tier.model.identifiers import FIRST, NOTHING, Offset, Partition
from log_tier.model.log import Bounds, Log, Topic
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.index.lmdb.open_environments import OpenEnvironments
from serving_tier.index.lmdb.pinned_read import PinnedRead
from serving_tier.replica.applier import Applier
from serving_tier.replica.apply import (
    Applied,
    Applying,
    Progressed,
    Step,
    Switched,
    VersionAwaited,
    VersionFailed,
    VersionLive,
)
from serving_tier.replica.lag import Lag, LagBounds, lag_event
from serving_tier.replica.machine import Effect, Event, ReplicaState
from serving_tier.replica.machine import step as transition
from serving_tier.replica.open_index import open_index
from serving_tier.replica.pinned_reads import PinnedReads
from serving_tier.replica.refusals import behind, closing, pinned_too_late, token_ahead, version_gone
from serving_tier.replica.standby import StandbyVersions
from serving_tier.replica.unreadable_warnings import UnreadableWarnings
from serving_tier.replica.version_folders import open_versions, version_folder
from serving_tier.replica.waiters import OffsetWaiters

__all__ = ["Replica", "ReplicaEvent", "ReplicaListener", "ReplicaState"]

logger = logging.getLogger(__name__)

# One chunk is one write transaction. 2 MiB are some 15,000 small records: enough that the commit disappears in the cost
# of the puts, little enough that a waiting read is served within some 30 ms while a replica catches up.
_CHUNK_BYTES: Final = 2 << 20

# How often a closing replica looks whether the last reader has left; a page of a scan takes some 10 ms.
_READERS_PAUSE_S: Final = 0.001


ReplicaEvent = Literal["damaged", "stopped", "version_missing", "switched"]
"""What a replica's owner hears: the index turned out damaged, or something else stopped the replica (`failure` says
what), but not the end of its table or of its log; it waits at a barrier for a version that is not here; another version
is live, and all versions have passed the barrier."""

ReplicaListener = Callable[["Replica", ReplicaEvent], None]


class Replica:
    """A follower of one partition and its index. `open()` makes one, `close()` ends it.

    Invariant: `index.applied` is at most the log's latest offset; waiters of offsets up to it have been woken.
    """

    def __init__(
        self,
        topic: Topic,
        partition: Partition,
        *,
        log: Log,
        applier: Applier,
        index: LmdbIndex,
        latest: Offset,
        lag_bounds: LagBounds,
        clock: Callable[[], float],
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.index = index
        self.state: ReplicaState = "replaying"
        self.source = "log"
        """Where its content came from before it followed the log, for people."""
        self.failure: DuramenError | None = None
        """Why it stopped, or that it was closed."""
        self._changes = 0
        self.versions = StandbyVersions(topic, partition, log=log, applier=applier)
        self.owner: ReplicaListener | None = None
        """Gets what happens to this replica, on the event loop, when its state has changed already. A `DuramenError`
        that it raises about "version_missing" stops the replica."""
        self.listeners: list[Callable[[LmdbIndex, Sequence[Batch]], None]] = []
        """Called on the event loop with the live index and the batches that it has just applied, before anybody who
        waits for them is told."""
        self.leaving: list[Callable[[], None]] = []
        """Called on the event loop when `index` became another one, or must not be read any more: another version is
        live, the replica stopped, it was closed."""
        self.readers: list[LmdbIndex] = []
        """The index of each long read that runs in another thread at this moment; see the module's text."""
        self._log = log
        self._applier = applier
        self._clock = clock
        self._lag_bounds = lag_bounds
        self._lag = Lag(latest=latest, applied=index.applied, now=clock())
        self._opened_at = latest
        self.floor = latest
        """What a reader who has seen nothing waits for: what the log held when this replica was opened, so that a
        restart never shows less than was there before it. `NOTHING` once that is applied."""
        self._waiters = OffsetWaiters()
        self._folder = Path()
        self._opening: Callable[[Path], LmdbIndex] = _unknown_place
        self._pinned_reads = PinnedReads(self.name, partition, index, self.readers)
        self._voids = UnreadableWarnings(self.name, index.statistics().void, clock=clock)
        self._applying = Applying(
            self.name,
            index,
            self.versions,
            self._pinned_reads,
            self._voids,
            applier=applier,
        )
        self._follower: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    @property
    def name(self) -> str:
        """For messages: table/partition."""
        return f"{self.topic.name}/{self.partition}"

    @property
    def changes(self) -> int:
        """Rises whenever the applied offset, the log's end as known, the state or a version may have changed."""
        return self._changes + self.versions.changes

    @property
    def applied(self) -> Offset:
        """The highest offset folded into the index."""
        return self.index.applied

    @property
    def applies(self) -> bool:
        """Is a batch being applied at this moment, in the other thread?"""
        return self._applying.under_way

    @property
    def void(self) -> int:
        """Records so far that no table can hold: foreign producers' mistakes."""
        return self._voids.count

    @property
    def awaits(self) -> VersionMissing | None:
        """Why it does not go on: it waits at a barrier for a version."""
        return self._applying.awaits

    @property
    def awaited_barrier(self) -> Barrier | None:
        """The barrier at which it waits for a version."""
        return self._applying.awaited

    @property
    def log_latest(self) -> Offset:
        """The log's latest offset when the log was last heard of."""
        return self._lag.latest

    @property
    def lag_s(self) -> float:
        """How long it has not been level with the log, in seconds of a monotonic clock; 0.0: it is."""
        return self._lag.seconds(self._clock())

    @property
    def stale_s(self) -> float:
        """Everything that the log held this many seconds ago is applied: what a read with a bounded lag needs."""
        return self._lag.stale(self._clock())

    @classmethod
    async def open(
        cls,
        topic: Topic,
        partition: Partition,
        *,
        log: Log,
        applier: Applier,
        folder: Path,
        repair: bool = True,
        start: Offset = FIRST,
        environments: OpenEnvironments | None = None,
        lag_bounds: LagBounds = LagBounds(),  # noqa: B008  (immutable)
        clock: Callable[[], float] = time.monotonic,
    ) -> Replica:
        """Open the index in `folder` and follow the log from there; a new index begins at `start`. With `environments`
        the index's file is open only while it is used.

        One that cannot be trusted is discarded and folded from the log; without `repair` it raises `IndexDamaged`,
        for whoever has better sources.
        Raises `LogDamaged` where the index has applied more than the log holds: acknowledged records are gone, and
        going on would give their offsets to others. Raises `OffsetTrimmed` where the log no longer holds what the
        index needs next, and `DiskFull` or `FolderReadOnly` where the folder cannot be made.
        """
        bounds = await log.bounds(topic.id, partition)
        first = await open_index(
            topic,
            partition,
            bounds,
            applier=applier,
            folder=folder,
            repair=repair,
            start=start,
            environments=environments,
        )
        opening = partial(
            LmdbIndex.open, table_id=topic.id, partition=partition, start=start, environments=environments
        )
        index, others = await open_versions(first, folder, applier=applier, opening=opening)
        replica = cls(
            topic,
            partition,
            log=log,
            applier=applier,
            index=index,
            latest=bounds.latest,
            lag_bounds=lag_bounds,
            clock=clock,
        )
        replica._folder, replica._opening = folder, opening
        for other in others:
            replica.versions.add(other, replica)
        replica._start_following()
        return replica

    @classmethod
    def at_rest(
        cls,
        topic: Topic,
        partition: Partition,
        *,
        log: Log,
        applier: Applier,
        folder: Path,
        index: LmdbIndex,
        latest: Offset,
        environments: OpenEnvironments,
        start: Offset = FIRST,
    ) -> Replica:
        """The same with an index at rest (`LmdbIndex.at_rest`) that the log can carry on, with no other version here.

        `latest`: where the log ends. Some 50 µs.
        """
        replica = cls(
            topic,
            partition,
            log=log,
            applier=applier,
            index=index,
            latest=latest,
            lag_bounds=LagBounds(),
            clock=time.monotonic,
        )
        replica._folder = folder
        replica._opening = partial(
            LmdbIndex.open, table_id=topic.id, partition=partition, start=start, environments=environments
        )
        replica._start_following()
        return replica

    def version_folder(self, number: int) -> Path:
        """Where another version of this replica lies."""
        return version_folder(self._folder, number)

    async def add_version(self, number: int) -> None:
        """Open the index in `version_folder(number)` as a standby, and have it catch up with the live one.

        Returns when it is level: first the live one applies the offset at which it stands, then it catches up with
        the live one. Raises `IndexDamaged`, `OffsetTrimmed` where the log or its verdicts no longer reach
        back to where it begins, `DiskFull`.
        """
        index = await self._applier.run(lambda: self._opening(self.version_folder(number)))
        try:
            await self._applier.run(lambda: index.become(number))
        except BaseException:
            await self._applier.run(lambda: index.close(clean=False))
            raise
        self.versions.add(index, self)
        await self.versions.wait_level(number)

    def _start_following(self) -> None:
        self._update_state()
        self._follower = asyncio.create_task(self._follow(), name=f"follow {self.name}")

    async def _follow(self) -> None:
        try:
            reader = self._log.read(
                self.topic.id, self.partition, Offset(self.index.applied + 1), follow=True, chunk_bytes=_CHUNK_BYTES
            )
            async with aclosing(reader) as chunks:
                async for chunk in chunks:
                    self._lag.tell(chunk.latest, self.index.applied, self._clock())
                    async with aclosing(self._applying.chunk(chunk.data)) as steps:
                        async for step in steps:
                            await self._do(step)
                    self._waiters.advance(self.index.applied)
                    self._lag.advance(self.index.applied)
                    self._changes += 1
                    if self.state != "ready":  # applying makes nobody fall behind; `look` sees who does
                        self._update_state()
            raise AssertionError("the log ended a read that follows it")
        except IndexDamaged as error:
            self._stop("damaged", error)
        except (TableNotFound, ShuttingDown) as error:
            self._stop("ended", error)
        except DuramenError as error:
            self._stop("failed", error)
        except Exception as error:
            # A bug of ours: end loudly, and let nobody wait for an offset that will not come.
            logger.error("replica %s ended by a bug", self.name, exc_info=error)
            self._stop("failed", DuramenError(f"replica {self.name} stopped at {self.applied} by a bug: {error!r}"))
            raise

    async def drop_version(self, number: int, reason: DuramenError) -> None:
        """Close a version that is not live; its waiters get `reason`. Its files are the caller's."""
        await self.versions.lose(number, reason, self._close_index)

    async def _close_index(self, index: LmdbIndex) -> None:
        while index in self.readers:  # noqa: ASYNC110 - readers in other threads must not pay for an event
            await asyncio.sleep(_READERS_PAUSE_S)
        await self._applier.run(lambda: index.close(clean=True))

    def _stop(self, event: Event, error: DuramenError) -> None:
        if self.state not in ("stopped", "closed"):
            self.failure = error
            self._happen(event)

    def _happen(self, event: Event) -> None:
        """Take the event's transition, and perform its effects in their order."""
        self._changes += 1
        self.state, effects = transition(self.state, event)
        for effect in effects:
            _PERFORM[effect](self)

    def _report(self, event: ReplicaEvent) -> None:
        if self.owner is not None:
            self.owner(self, event)

    def _note(self, level: int) -> None:
        logger.log(level, "replica %s stopped at %s: %s", self.name, self.applied, self.failure)

    def _warn_behind(self) -> None:
        logger.warning("replica %s fell behind: applied %s of %s", self.name, self.applied, self.log_latest)

    def _forget_floor(self) -> None:
        self.floor = NOTHING

    def _cancel_follower(self) -> None:
        if self._follower is not None:
            self._follower.cancel()

    def _leave(self) -> None:
        for listener in list(self.leaving):
            listener()

    def _fail_waiters(self) -> None:
        assert self.failure is not None, f"{self.name} is {self.state} without a reason"
        self._waiters.fail(self.failure)
        self._pinned_reads.fail(self.failure)
        self._ready.set()

    def damaged(self, error: IndexDamaged) -> None:
        """A read met damage, in whichever thread: stop, before anybody reads more of it. Harmless when repeated."""
        self._loop.call_soon_threadsafe(self._stop, "damage_read", error)

    def hear(self, latest: Offset, *, asked_s: float) -> None:
        """The log was asked at `asked_s` of the replica's clock, and ends at `latest`."""
        self._lag.answer(latest, self.index.applied, asked_s=asked_s, now=self._clock())
        self._update_state()

    def look(self) -> None:
        """Look at the own state: for whoever asks the log again and again, whether it answers or not."""
        self._lag.watch()
        self._update_state()

    async def _do(self, step: Step) -> None:
        match step:
            case Applied(batches):
                for listener in self.listeners:
                    listener(self.index, batches)
            case VersionLive(live):
                self.index = live
                self._happen("version_live")
            case Progressed():
                self._waiters.advance(self.index.applied)
                self._lag.advance(self.index.applied)
                self._update_state()
            case VersionAwaited():
                self._happen("version_missing")
            case Switched():
                self._happen("switched")
            case VersionFailed(number, error):
                logger.error("%s: version %s is given up: %s", self.name, number, error)
                await self.drop_version(number, error)

    def _update_state(self) -> None:
        replayed = self.index.applied >= self._opened_at
        self._happen(lag_event(replayed=replayed, lag_s=self.lag_s, bounds=self._lag_bounds))

    async def wait_ready(self) -> None:
        """Return when the replica is ready, or raise why it stopped."""
        await self._ready.wait()
        if self.failure is not None:
            raise copy(self.failure)

    async def log_end(self) -> Offset:
        """The log's latest offset. One question to the log; raises what it raises."""
        return (await self._ask_bounds()).latest

    async def _ask_bounds(self) -> Bounds:
        asked_s = self._clock()
        bounds = await self._log.bounds(self.topic.id, self.partition)
        self.hear(bounds.latest, asked_s=asked_s)
        return bounds

    async def wait_applied(self, offset: Offset, *, timeout: float | None) -> None:
        """Return when `offset` is applied. `timeout` in seconds; None: without a limit.

        Raises `ReplicaBehind` with both offsets when the time has passed, `TokenAhead` where the log itself does not
        hold that offset, or the reason why the replica stopped.
        """
        self.check_open()
        if self.index.applied >= offset:
            return
        if offset > self.log_latest:
            # What was last heard of the log may be old: ask it.
            bounds = await self._ask_bounds()
            if offset > bounds.latest + bounds.unsettled:
                raise token_ahead(self.name, self.partition, asked=offset, bounds=bounds)
        if self.index.applied >= offset:
            return
        try:
            async with asyncio.timeout(timeout):
                await self._waiters.wait(offset)
        except ReplicaBehind:
            raise
        except TimeoutError:
            raise behind(
                self.name, self.partition, applied=self.applied, asked=offset, latest=self.log_latest
            ) from None

    async def at_offset(self, offset: Offset, *, timeout: float) -> PinnedRead:
        """A read transaction at `offset`, or at the end of the first batch beyond it. `timeout` in seconds.

        The offset may lie ahead of the log's end. Whoever takes the moment closes it; the index stays open until then,
        and `check_open()` tells a long reader to hurry. Raises `OffsetPassed` where more is applied, with the offset;
        `ReplicaBehind` when the time has passed; `Overloaded`; why the replica stopped or was closed.
        """
        if self.failure is not None:
            raise copy(self.failure)
        future = self._pinned_reads.want(offset)
        if not self._applying.under_way:
            self._pinned_reads.reach(cut=None)
        taken = False
        try:
            async with asyncio.timeout(timeout):
                pinned = await future
            taken = True
            return pinned
        except DuramenError as error:
            raise copy(error) from None
        except TimeoutError:
            raise pinned_too_late(
                self.name, self.partition, applied=self.applied, asked=offset, latest=self.log_latest
            ) from None
        finally:
            if not (taken or future.cancelled() or future.exception() is not None):
                future.result().close()  # opened at the moment in which the caller gave up

    def check_open(self) -> None:
        """Raises why the replica was closed, if it was: for long reads, every now and then."""
        if self.state == "closed":
            raise copy(self.failure or closing(self.name))

    @contextmanager
    def reading(self, version: int | None = None) -> Iterator[LmdbIndex]:
        """The index, for a read in any thread; it stays open until the block is left.

        `version`: of the table, for a read that began in it; None: the live one. Raises why the replica was closed,
        and `VersionMissing` for one that is not level here (any more).
        """
        index = self.index if version is None else self._of_version(version)
        self.readers.append(index)
        try:
            self.check_open()
            if version is not None:
                self._of_version(version)  # it may have gone before we stepped in
            yield index
        except IndexDamaged as error:
            self.damaged(error)
            raise
        finally:
            self.readers.remove(index)

    def _of_version(self, version: int) -> LmdbIndex:
        index = self.index
        if index.version == version:
            return index
        found = self.versions.level.get(version)
        if found is None:
            raise version_gone(self.name, asked=version, version=index.version, since=index.live.since)
        return found

    async def close(self, reason: DuramenError | None = None) -> None:
        """Stop following and close the index cleanly, so that the next start need not rebuild it. Idempotent.

        Whoever waits gets `reason` (default: `ShuttingDown`), and so does every later read.
        """
        if self.state == "closed":
            return
        follower = self._follower
        if follower is not None:
            follower.cancel()
            await asyncio.wait([follower])  # its failure, if it had one, was told when it stopped
            if not follower.cancelled():
                follower.exception()
        self.failure = reason or closing(self.name)
        self._happen("closed")
        for index in (self.index, *await self.versions.close()):
            await self._close_index(index)


def _unknown_place(path: Path) -> LmdbIndex:
    raise AssertionError("only an opened replica has versions")


_PERFORM: Final[dict[Effect, Callable[[Replica], None]]] = {
    "forget_floor": Replica._forget_floor,
    "signal_ready": lambda replica: replica._ready.set(),
    "withdraw_ready": lambda replica: replica._ready.clear(),
    "warn_behind": Replica._warn_behind,
    "note_end": lambda replica: replica._note(logging.INFO),
    "note_failure": lambda replica: replica._note(logging.ERROR),
    "cancel_follower": Replica._cancel_follower,
    "leave_index": Replica._leave,
    "fail_waiters": Replica._fail_waiters,
    "report_stopped": lambda replica: replica._report("stopped"),
    "report_damaged": lambda replica: replica._report("damaged"),
    "report_version_missing": lambda replica: replica._report("version_missing"),
    "report_switched": lambda replica: replica._report("switched"),
}
