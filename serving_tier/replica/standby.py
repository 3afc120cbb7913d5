"""The versions of one replica that are not live, kept level with the one that is.

        add                 caught up                    the log's barrier names it
    (absent) ──▶ behind ──────────────▶ level ──────────────────────────────────────▶ live; the one before it is level
                   │                      │
                   └───── a failure ──────┴──▶ lost: closed, with the reason; `add` again goes on where it stood

**Behind.** An index whose offset lies before the live one's reads the log by itself and takes over what the live index
has written down of its decisions (`verdicts`). One whose offset lies ahead of it, because the replica lags, waits until
the live one has come there. Where those are forgotten, it cannot become level: the version has to be
built anew.

**Level.** Every chunk goes into the live index first, and then, with what was decided there, into each level one. They
are files of their own: a process that dies between two of them leaves one behind the other, and the next start catches
up. A level index that cannot be written (a full disk) is lost, and the live one goes on.

A version is closed when nobody reads in it any more: a read that began in it goes on.

Invariant: a level index has the live one's applied offset, producers, verdicts, results and barriers.

While the lock is held nobody applies. All LMDB writes are the applier's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import aclosing, suppress
from copy import copy
from functools import partial
from typing import Any, Final

from log_tier.concurrency.broadcast import Broadcast
from log_tier.concurrency.tasks import end_tasks, to_the_end
from log_tier.model.batch import Batch, decode_batch
from log_tier.model.batch_header import place_of, split_batches
from log_tier.model.errors import DuramenError, OffsetTrimmed, ShuttingDown
from log_tier.model.identifiers import NOTHING, Offset
from log_tier.model.log import Log, Topic
from serving_tier.fold.effects import Effects
from serving_tier.fold.verdicts import changed_nothing
from serving_tier.index.divergence import check_history
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.replica.applier import Applier
from serving_tier.replica.pieces import cut_at
from serving_tier.replica.refusals import compacted_away, version_gone
from serving_tier.replica.replica_progress import ReplicaProgress
from serving_tier.replica.version_folders import ReplicaFolder, close_indexes, open_in

__all__ = ["StandbyVersions"]

logger = logging.getLogger(__name__)

_CHUNK_BYTES: Final = 2 << 20

# A version that is so many offsets behind catches the rest up while nobody applies: some 100 ms.
_NEAR_OFFSETS: Final = 20_000

# Where writes come faster than it catches up, it comes nearer at each turn or takes more of them at once.
_NEAR_GROWTH: Final = 2

# How often it is looked whether the last reader has left an index that is to be closed; a page of a scan takes 10 ms.
_READERS_PAUSE_S: Final = 0.001

# Of versions that are gone so many are remembered. A table that is cleared again and again makes a version each time; a
# caller that waits for one hears of its end in the next turn of the loop.
_PAST_MAX: Final = 64


class StandbyVersions:
    """The standby versions of one replica, on its event loop: opened, kept level with the live one, and closed."""

    def __init__(
        self, topic: Topic, folder: ReplicaFolder, progress: ReplicaProgress, *, log: Log, applier: Applier
    ) -> None:
        """`progress`: the replica's, which has the live index."""
        self.folder = folder
        self.lock = asyncio.Lock()
        self.level: dict[int, LmdbIndex] = {}
        self.behind: dict[int, LmdbIndex] = {}
        self.lost: dict[int, DuramenError] = {}
        """By version: the error for which it was closed. At most `_PAST_MAX`, those that were lost last."""
        self.ended: set[int] = set()
        """Versions that the log has left for good: the live index has passed the barrier that says so. Of those that
        are not here at most `_PAST_MAX`, the newest: of an older one the log is asked."""
        self._topic, self._log, self._applier = topic, log, applier
        self._progress = progress
        self._tasks: dict[int, asyncio.Task[None]] = {}
        """The tasks of versions that catch up, by version."""
        self._closings: dict[int, asyncio.Task[None]] = {}
        """The tasks that close versions, by version."""
        self._opening = 0
        """How many versions are being opened by `add`."""
        self._is_closing = False
        self._moved = Broadcast()
        self.changes = 0
        """Rises when a version has come, or is level, lost or live."""

    @property
    def live(self) -> LmdbIndex:
        """The live index, which the standby versions follow."""
        return self._progress.index

    # --- applying, in the applier's thread

    def apply(self, batches: Sequence[Batch]) -> tuple[Effects, dict[int, DuramenError]]:
        """Fold batches into the live index and the level ones; returns the effects, and which versions failed.

        Raises what the live one raises; then no other was touched.
        """
        effects = self.live.fold_in(batches)
        # A copy: the event loop takes lost ones out meanwhile, and closes them in this thread, later.
        return effects, self._carry(batches, effects, dict(self.level))

    def take_over(self, new: LmdbIndex, batches: Sequence[Batch], effects: Effects) -> None:
        """Take the new version over a barrier, of which the live one has judged `effects`: from then on the new one is
        live, whatever happens to this process.

        The old one stays before the barrier until `follow_over`: nobody may find the barrier applied there and read it.
        Raises what the new one raises.
        """
        new.fold_in(batches, decided=changed_nothing(effects.judgements), carried=effects)

    def follow_over(self, batches: Sequence[Batch], effects: Effects) -> dict[int, DuramenError]:
        """Take all others over the barrier, the old live one among them; return those that failed."""
        return self._carry(batches, effects, dict(self.level))

    def _carry(
        self, batches: Sequence[Batch], effects: Effects, indexes: dict[int, LmdbIndex]
    ) -> dict[int, DuramenError]:
        failed: dict[int, DuramenError] = {}
        if indexes:
            decided = changed_nothing(effects.judgements)
            for number, index in indexes.items():
                try:
                    index.fold_in(batches, decided=decided, carried=effects)
                except DuramenError as error:
                    failed[number] = error
        return failed

    async def build_some(self, rows_max: int) -> bool:
        """Put up to `rows_max` more rows into an ordered index that is being built, in the live index or in a level
        one; False: all of them are whole. Raises what `LmdbIndex.build_some` does, and `ShuttingDown`.
        """
        async with self.lock:
            self._check_open()
            work = partial(_build_first, (self.live, *self.level.values()), rows_max)
            return await to_the_end(self._applier.run(work))

    async def compare(self, index: LmdbIndex) -> None:
        """Raise `IndexDiverged` where an index is of another history than the log; see `check_history`."""
        partition, name = self.folder.partition, f"the index of version {index.version} of {self._progress.name}"
        await check_history(self._log, partition, applied=index.applied, last=index.last_batch, name=name)

    # --- versions come and go

    def indexes(self) -> list[LmdbIndex]:
        """All open standby versions."""
        return [*self.level.values(), *self.behind.values()]

    def here(self) -> set[int]:
        """The open standby versions."""
        return {*self.level, *self.behind}

    def of(self, number: int) -> LmdbIndex:
        """The index of a version that is live or level. Raises `VersionMissing`."""
        live = self.live
        if live.version == number:
            return live
        found = self.level.get(number)
        if found is None:
            raise version_gone(self._progress.name, asked=number, version=live.version, since=live.live.since)
        return found

    async def add(self, number: int) -> None:
        """Open the index in the folder of a version as a standby, and have it catch up with the live one.

        Returns when it is level: first the live one applies the version's offset, then the version catches up with the
        live one. Raises `IndexDamaged`, `OffsetTrimmed` where the log or its verdicts no longer reach back to where it
        begins, `DiskFull`, `ShuttingDown` from `close` on.
        """
        self._opening += 1
        try:
            self._check_open()
            index = await open_in(self._applier, lambda: self.folder.open(self.folder.version(number)))
            try:
                await to_the_end(self._applier.run(lambda: index.become(number)))
                self._check_open()
            except BaseException:
                await close_indexes([index], self._applier, clean=False)
                raise
            self.carry(index)
        finally:
            self._opening -= 1
            self._move()
        await self.wait_level(number)

    def _check_open(self) -> None:
        if self._is_closing:
            raise _closing()

    def carry(self, index: LmdbIndex) -> None:
        """Have an index that is open catch up, as a standby."""
        number = index.version
        assert number not in self.here(), f"{self._name(number)} is here already"
        self.lost.pop(number, None)
        self.behind[number] = index
        task = asyncio.create_task(self._catch_up(index), name=self._name(number))
        self._tasks[number] = task
        task.add_done_callback(lambda _: self._caught_up(number, task))
        self._move()

    async def wait_level(self, number: int) -> None:
        """Return when a version is level. Raises why it cannot be."""
        while number not in self.level:
            if number in self.lost:
                raise copy(self.lost[number])
            await self._moved.wait()

    async def wait_changed(self, seen: int, *, timeout: float) -> None:
        """Return when `changes` is not `seen` any more, or when `timeout` seconds have passed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while self.changes == seen:
                    await self._moved.wait()

    def exchange(self, new: LmdbIndex, *, ended: Iterable[int] = ()) -> None:
        """`new` was level and is live from now on; the one that was live is carried along from now on.

        `ended`: the versions that no later barrier names.
        """
        self.ended.update(ended)
        past = sorted(self.ended - self.here() - {self.live.version})
        self.ended.difference_update(past[:-_PAST_MAX])
        del self.level[new.version]
        self.level[self.live.version] = self.live
        self._progress.index = new
        self.changes += 1

    async def drop(self, number: int, error: DuramenError) -> None:
        """Close a version that failed, or is not wanted any more; its waiters get `error`.

        Returns when its files are closed, also where another call closes them: from then on the caller may remove them.
        A caller that is cancelled does not stop the closing.
        """
        task = self._tasks.get(number)
        if task is not asyncio.current_task():
            await end_tasks(task)
        index = self.level.pop(number, None) or self.behind.pop(number, None)
        if index is not None:
            self._closings[number] = asyncio.create_task(
                self._closed(index, error), name=f"{self._name(number)} is closed"
            )
        elif number not in self._closings:
            self._lose(number, error)
        if number in self._closings:
            await asyncio.wait([self._closings[number]])

    async def _closed(self, index: LmdbIndex, error: DuramenError) -> None:
        number = index.version
        try:
            await self.close_index(index)
        except DuramenError as trouble:
            logger.warning("%s could not be closed cleanly: %s", self._name(number), trouble)
        finally:
            del self._closings[number]
            self._lose(number, error)

    async def close_index(self, index: LmdbIndex) -> None:
        """Close an index cleanly when nobody reads in it any more."""
        while index.readers:  # noqa: ASYNC110 - readers in other threads must not pay for an event
            await asyncio.sleep(_READERS_PAUSE_S)
        run = self._applier.run_aside if index.is_unsynced else self._applier.run
        await run(lambda: index.close(clean=True))

    async def close(self) -> None:
        """Stop catching up, and close all of them, the live one first. What fails is raised when the rest is closed. A
        version that `add` has begun to open is closed as well.
        """
        self._is_closing = True
        await end_tasks(*self._tasks.values())
        while self._opening:
            await self._moved.wait()
        if self._closings:
            await asyncio.wait(self._closings.values())
        indexes = self.indexes()
        self.level, self.behind = {}, {}
        self.lost = dict.fromkeys((index.version for index in indexes), _closing())
        self._move()
        failure: Exception | None = None
        for index in (self.live, *indexes):
            try:
                await self.close_index(index)
            except Exception as error:  # noqa: BLE001 - raised below
                failure = failure or error
        if failure is not None:
            raise failure

    def check(self) -> None:
        """Assert the invariants, between two turns of the event loop; for tests."""
        indexes = self.indexes()
        numbers = [self.live.version, *(index.version for index in indexes)]
        assert len(set(numbers)) == len(numbers), f"{self._progress.name}: a version is here twice: {numbers}"
        for number, index in (*self.level.items(), *self.behind.items()):
            assert index.version == number, f"{self._progress.name}: version {index.version} stands as {number}"
        assert self._tasks.keys() >= self.behind.keys(), (
            f"{self._progress.name}: nobody brings {sorted(self.behind)} up"
        )
        assert not self.lost.keys() & self.here(), (
            f"{self._progress.name}: lost and here: {self.lost.keys() & self.here()}"
        )

    def _lose(self, number: int, error: DuramenError) -> None:
        self.lost.pop(number, None)
        self.lost[number] = error
        if len(self.lost) > _PAST_MAX:
            del self.lost[next(iter(self.lost))]
        self._move()

    def _name(self, number: int) -> str:
        return f"version {number} of {self._progress.name}"

    def _move(self) -> None:
        self.changes += 1
        self._moved.notify_all()

    # --- catching up

    async def _catch_up(self, index: LmdbIndex) -> None:
        number, near = index.version, _NEAR_OFFSETS
        try:
            await self._progress.wait_applied(index.applied, timeout=None)
            await self.compare(index)
            while self.live.applied - index.applied > near:
                await self._read_on(index)
                near *= _NEAR_GROWTH
            async with self.lock:
                await self._read_on(index)
                await self._applier.run(lambda: index.level_with(self.live))
                self.level[number] = self.behind.pop(number)
            self._move()
        except DuramenError as error:
            logger.warning("%s: %s", self._name(number), error)
            await self.drop(number, error)
        except Exception as error:
            # A bug of ours: nobody may wait for a version that will not be level.
            await self.drop(number, DuramenError(f"{self._name(number)} ended at {index.applied} by a bug: {error!r}"))
            raise

    def _caught_up(self, number: int, task: asyncio.Task[None]) -> None:
        if self._tasks.get(number) is task:
            del self._tasks[number]
        if not task.cancelled() and task.exception() is not None:
            logger.error("%s ended by a bug", self._name(number), exc_info=task.exception())

    async def _read_on(self, index: LmdbIndex) -> None:
        """Fold the log up to the live index's applied offset; it may end before that, in offsets without a record."""
        until = self.live.applied
        assert index.applied <= until, f"{self._name(index.version)} stands at {index.applied}, the live one at {until}"
        if index.applied == until:
            return
        partition = self.folder.partition
        place = place_of(partition)
        through = Offset(0)
        reader: Any = self._log.read(partition, Offset(index.applied + 1), follow=False, chunk_bytes=_CHUNK_BYTES)
        async with aclosing(reader) as chunks:
            async for chunk in chunks:
                if index.applied == NOTHING:
                    through = chunk.compacted  # it holds nothing to delete, and folds all that is left
                if chunk.compacted > max(index.applied + 1, through):
                    what = f"version {index.version} of {self._progress.name}"
                    raise compacted_away(what, partition.partition, applied=index.applied, compacted=chunk.compacted)
                batches = cut_at([decode_batch(batch, place) for batch in split_batches(chunk.data)], until)
                if batches:
                    await self._applier.run(lambda batches=batches: self._follow(index, batches))  # type: ignore[misc]
                if index.applied >= until:
                    return

    def _follow(self, index: LmdbIndex, batches: Sequence[Batch]) -> None:
        live = self.live
        first, last = Offset(index.applied + 1), batches[-1].header.last_offset
        decided = changed_nothing(live.judgements(first, Offset(last)))
        if first < live.verdicts_from:
            raise OffsetTrimmed(
                f"version {index.version} of {self._progress.name} goes on at offset {first}, and which "
                f"records were rejected is known from {live.verdicts_from} on: build the version anew",
                asked=first,
                earliest=live.verdicts_from,
            )
        index.define(live.definition)
        index.fold_in(batches, decided=decided)


def _build_first(indexes: Sequence[LmdbIndex], rows_max: int) -> bool:
    return any(index.build_some(rows_max) is not None for index in indexes)


def _closing() -> ShuttingDown:
    return ShuttingDown("the replica is closing")
