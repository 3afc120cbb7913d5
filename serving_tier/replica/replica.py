"""One partition's index on this node: opened or rebuilt, kept up with the log, read at a known offset.

                 open index        caught up     lag above the bound
    (absent) ──▶ replaying ──────▶ ready ──────────────────────────▶ behind     error, from any of them: stopped
        │  ▲                         ▲                                 │        close(), from any of them: closed
        └──┘                         └─────────────────────────────────┘
    index cannot be trusted:               lag within the bound
    discard the folder and
    fold the log again

`serving_tier.replica.lag` tells what the lag is and where the bounds are. The state says who is asked first, and
nothing else:
a replica that is behind answers whatever it has applied.

**Damage.** An index that turns out damaged, while it is written or read, is never served again: the replica stops, and
whoever is told by `on_damaged` brings up another index in its place (I8, I10).

**Versions.** The table may go over to another version of its content: `versions` keeps those that are not live level
with the one that is, and at a barrier in the log the index that the barrier names takes the live one's place, between
two applies. A read that is under way goes on in the index in which it began. A replica that comes to a barrier without
having that version waits there, tells `on_version_missing`, and goes on when it has caught up beside.

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
from typing import Final

from log_tier.model.batch import Batch
from log_tier.model.errors import (
    DuramenError,
    IndexDamaged,
    ReplicaBehind,
    ShuttingDown,
    TableNotFound,
    TokenAhead,
    VersionMissing,
)
from log_tier.model.identifiers import FIRST, NOTHING, Offset, Partition
from log_tier.model.log import Log, Topic
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.index.lmdb.open_environments import OpenEnvironments
from serving_tier.index.lmdb.pinned_read import PinnedRead
from serving_tier.replica.applier import Applier
from serving_tier.replica.apply import Applying
from serving_tier.replica.lag import Lag, LagBounds, ReplicaState, next_state
from serving_tier.replica.open_index import open_index
from serving_tier.replica.pinned_reads import PinnedReads
from serving_tier.replica.standby import StandbyVersions
from serving_tier.replica.unreadable_warnings import UnreadableWarnings
from serving_tier.replica.version_folders import open_versions, version_folder
from serving_tier.replica.waiters import OffsetWaiters

__all__ = ["Replica", "ReplicaState"]

logger = logging.getLogger(__name__)

# One chunk is one write transaction. 2 MiB are some 15,000 small records: enough that the commit disappears in the cost
# of the puts, little enough that a waiting read is served within some 30 ms while a replica catches up.
_CHUNK_BYTES: Final = 2 << 20

# How often a closing replica looks whether the last reader has left; a page of a scan takes some 10 ms.
_READERS_PAUSE_S: Final = 0.001


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
        self.changes = 0
        """Rises whenever the applied offset, the log's end as known, or the state may have changed."""
        self.on_damaged: Callable[[Replica], None] | None = None
        """Called once, on the event loop, after the index turned out damaged (`failure` says how)."""
        self.on_stopped: Callable[[Replica], None] | None = None
        """The same after anything else stopped it, but the end of its table or of its log."""
        self.versions = StandbyVersions(topic, partition, log=log, applier=applier)
        self.versions.on_moved = self._changed
        self.on_version_missing: Callable[[Replica], None] | None = None
        """Called on the event loop while it waits at a barrier for a version that is not here; a `DuramenError` that it
        raises stops the replica."""
        self.on_switched: Callable[[Replica], None] | None = None
        """Called on the event loop when another version has become the live one."""
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
            on_switch=self._switch,
            on_switched=self._switched,
            on_progress=self._progressed,
            on_applied=self._applied,
            on_missing=self._version_missing,
            on_failed=self.drop_version,
        )
        self._follower: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    @property
    def name(self) -> str:
        """For messages: table/partition."""
        return f"{self.topic.name}/{self.partition}"

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
        """The barrier at which it waits for a version."""
        return self._applying.awaits

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
            replica.versions.add(other, lambda: replica.index)
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

        Returns when it is level. Raises `IndexDamaged`, `OffsetTrimmed` where the log or its verdicts no longer reach
        back to where it begins, `DiskFull`.
        """
        index = await self._applier.run(lambda: self._opening(self.version_folder(number)))
        try:
            await self._applier.run(lambda: index.become(number))
        except BaseException:
            await self._applier.run(lambda: index.close(clean=False))
            raise
        self.versions.add(index, lambda: self.index)
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
                    await self._applying.chunk(chunk.data)
                    self._waiters.advance(self.index.applied)
                    self._lag.advance(self.index.applied)
                    self.changes += 1
                    if self.state != "ready":  # applying makes nobody fall behind; `look` sees who does
                        self._update_state()
            raise AssertionError("the log ended a read that follows it")
        except DuramenError as error:
            self._stop(error)
        except Exception as error:
            # A bug of ours: end loudly, and let nobody wait for an offset that will not come.
            logger.error("replica %s ended by a bug", self.name, exc_info=error)
            self._stop(DuramenError(f"replica {self.name} stopped at {self.applied} by a bug: {error!r}"))
            raise

    async def drop_version(self, number: int, reason: DuramenError) -> None:
        """Close a version that is not live; its waiters get `reason`. Its files are the caller's."""
        await self.versions.lose(number, reason, self._close_index)

    async def _close_index(self, index: LmdbIndex) -> None:
        while index in self.readers:  # noqa: ASYNC110 - readers in other threads must not pay for an event
            await asyncio.sleep(_READERS_PAUSE_S)
        await self._applier.run(lambda: index.close(clean=True))

    def _stop(self, error: DuramenError) -> None:
        # That the table was dropped, or that the log is closing, is no trouble of ours.
        expected = isinstance(error, (TableNotFound, ShuttingDown))
        logger.log(
            logging.INFO if expected else logging.ERROR, "replica %s stopped at %s: %s", self.name, self.applied, error
        )
        self.state, self.failure = "stopped", error
        self._leave()
        self.changes += 1
        self._fail_all(error)
        if expected:
            return
        heard = self.on_damaged if isinstance(error, IndexDamaged) else self.on_stopped
        if heard is not None:
            heard(self)

    def _fail_all(self, error: DuramenError) -> None:
        self._waiters.fail(error)
        self._pinned_reads.fail(error)
        self._ready.set()

    def damaged(self, error: IndexDamaged) -> None:
        """A read met damage, in whichever thread: stop, before anybody reads more of it. Harmless when repeated."""
        self._loop.call_soon_threadsafe(self._stop_damaged, error)

    def _stop_damaged(self, error: IndexDamaged) -> None:
        if self.state in ("stopped", "closed"):
            return
        if self._follower is not None:
            self._follower.cancel()
        self._stop(error)

    def hear(self, latest: Offset, *, asked_s: float) -> None:
        """The log was asked at `asked_s` of the replica's clock, and ends at `latest`."""
        self._lag.answer(latest, self.index.applied, asked_s=asked_s, now=self._clock())
        self._update_state()

    def look(self) -> None:
        """Look at the own state: for whoever asks the log again and again, whether it answers or not."""
        self._lag.watch()
        self._update_state()

    def _changed(self) -> None:
        self.changes += 1

    def _applied(self, batches: Sequence[Batch]) -> None:
        for listener in self.listeners:
            listener(self.index, batches)

    def _switch(self, index: LmdbIndex) -> None:
        self.index = index
        self._leave()

    def _leave(self) -> None:
        for listener in list(self.leaving):
            listener()

    def _switched(self) -> None:
        if self.on_switched is not None:
            self.on_switched(self)

    def _progressed(self) -> None:
        self._waiters.advance(self.index.applied)
        self._lag.advance(self.index.applied)
        self._update_state()

    def _version_missing(self) -> None:
        if self.on_version_missing is not None:
            self.on_version_missing(self)

    def _update_state(self) -> None:
        self.changes += 1
        before = self.state
        if before in ("stopped", "closed"):
            return
        self.state = next_state(
            before, replayed=self.index.applied >= self._opened_at, lag_s=self.lag_s, bounds=self._lag_bounds
        )
        if self.state == before:
            return
        if self.state != "replaying":
            self.floor = NOTHING
        if self.state == "ready":
            self._ready.set()
        elif self.state == "behind":
            self._ready.clear()
            logger.warning("replica %s fell behind: applied %s of %s", self.name, self.applied, self.log_latest)

    async def wait_ready(self) -> None:
        """Return when the replica is ready, or raise why it stopped."""
        await self._ready.wait()
        if self.failure is not None:
            raise copy(self.failure)

    async def wait_applied(self, offset: Offset, *, timeout: float) -> None:
        """Return when `offset` is applied. `timeout` in seconds.

        Raises `ReplicaBehind` with both offsets when the time has passed, `TokenAhead` where the log itself does not
        hold that offset, or the reason why the replica stopped.
        """
        self.check_open()
        if self.index.applied >= offset:
            return
        if offset > self.log_latest:
            # What was last heard of the log may be old: ask it.
            asked_s = self._clock()
            bounds = await self._log.bounds(self.topic.id, self.partition)
            self.hear(bounds.latest, asked_s=asked_s)
            if offset > bounds.latest + bounds.unsettled:
                raise TokenAhead(
                    f"the token asks {self.name} for offset {offset}, the log ends at {bounds.latest}: it comes from "
                    "another deployment, or the log was replaced; read without it",
                    partition=self.partition,
                    asked=offset,
                    latest=bounds.latest,
                )
        if self.index.applied >= offset:
            return
        try:
            async with asyncio.timeout(timeout):
                await self._waiters.wait(offset)
        except ReplicaBehind:
            raise
        except TimeoutError:
            raise ReplicaBehind(
                f"replica {self.name} has applied {self.applied}, the token asks {offset}; "
                f"the log ends at {self.log_latest}. Give it more time, or read another replica",
                partition=self.partition,
                applied=self.applied,
                asked=offset,
                latest=self.log_latest,
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
            self._pinned_reads.reach(cut=False)
        taken = False
        try:
            async with asyncio.timeout(timeout):
                pinned = await future
            taken = True
            return pinned
        except DuramenError as error:
            raise copy(error) from None
        except TimeoutError:
            raise ReplicaBehind(
                f"replica {self.name} has applied {self.applied}, and should be read at {offset}; the log ends at "
                f"{self.log_latest}. Give it more time",
                partition=self.partition,
                applied=self.applied,
                asked=offset,
                latest=self.log_latest,
            ) from None
        finally:
            if not (taken or future.cancelled() or future.exception() is not None):
                future.result().close()  # opened at the moment in which the caller gave up

    def check_open(self) -> None:
        """Raises why the replica was closed, if it was: for long reads, every now and then."""
        if self.state == "closed":
            raise copy(self.failure or _closing(self.name))

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
            raise VersionMissing(
                f"{self.name} is read in version {index.version}, and version {version}, in which this read began, is "
                "not here any more: begin it again",
                version=version,
                offset=index.live.since,
            )
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
        self.state, self.failure = "closed", reason or _closing(self.name)
        self._leave()
        self._fail_all(self.failure)
        for index in (self.index, *await self.versions.close()):
            await self._close_index(index)


def _unknown_place(path: Path) -> LmdbIndex:
    raise AssertionError("only an opened replica has versions")


def _closing(name: str) -> ShuttingDown:
    return ShuttingDown(f"replica {name} is closing; ask again")
