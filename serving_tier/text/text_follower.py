"""What keeps one text index of one replica level with the replica: which keys changed, read at one exact offset.

    building ──▶ level, until it is closed, or fails

It hears of each batch that the replica's live index has applied, and notes the keys. When it has time for them it opens
a read of that index: where that is at the offset of the last batch that it heard of, the keys and the rows are one
state. Else an apply is under way, and the next batch brings it here again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from copy import copy
from functools import partial
from typing import Final, TypeVar

from log_tier.concurrency.tasks import to_the_end
from log_tier.model.batch import Batch
from log_tier.model.errors import (
    DeadlineExceeded,
    DiskFailed,
    DiskFull,
    DuramenError,
    IndexBuilding,
    IndexDamaged,
    InvalidRequest,
    ReplicaBehind,
)
from log_tier.model.identifiers import Offset
from log_tier.model.log import Log
from log_tier.rows.text_index import ReadsTexts, TextIndex, text_reader
from serving_tier.disk import NODE_DISK
from serving_tier.folders import discard
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.index.lmdb.pinned_read import PinnedRead
from serving_tier.names import text_folder
from serving_tier.text.text_changes import all_rows, changed_keys, changes_at, make_folder, rows_at
from serving_tier.text.text_damage import TextDamaged
from serving_tier.text.text_page import FollowedReplica, TextPage, TextPoint, TextRow, TextThreads
from serving_tier.text.text_store import MEMORY_ROWS_MAX, TextStore

__all__ = ["PENDING_KEYS_MAX", "TextFollower"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

PENDING_KEYS_MAX: Final = 500_000
"""Keys that are noted and not indexed yet: some 50 MB. Past that the index is built anew."""

_SETTLE_S: Final = 2.0
"""How long rows stay in memory. A commit to disk takes some twenty syncs, which the log's syncs wait for."""

_AGAIN_S: Final = 5.0
"""At least so long between two builds of an index that turns out damaged, as on a full disk."""


class TextFollower:
    """One text index. Belongs to the replica's event loop; `start()` begins, `close()` ends it.

    Invariant: `_pending` has each key that the index has changed since `store.point`, up to `_heard`.
    """

    def __init__(
        self, replica: FollowedReplica, index: LmdbIndex, form: TextIndex, log: Log, threads: TextThreads
    ) -> None:
        self.form = form
        self.index = index
        """The replica's live index, for the life of this follower."""
        self.failure: DuramenError | None = None
        """Why it went no further."""
        self._replica, self._log, self._threads = replica, log, threads
        self._name, self._partition = str(replica.name), replica.id
        self._pending: dict[bytes, None] = {}
        self._overflown = False
        self._heard = index.applied
        self._call = asyncio.Event()
        self._moved = asyncio.Event()
        self._closing = False
        self._damage = ""
        """Why the index on disk is to be built again; empty: it is sound, as far as is known."""
        self._store: TextStore | None = None
        self._reader: tuple[int, ReadsTexts] | None = None
        self._settle_at_s = 0.0
        self._settling: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._closed = asyncio.Event()
        self._again_at_s = 0.0
        """When it may be built again."""

    def start(self) -> None:
        """Begin; once."""
        self._task = asyncio.create_task(self._run(), name=f"text index {self.form.name} of {self._name}")

    def heard(self, batches: Sequence[Batch]) -> None:
        """The index has applied these batches. Some 50 ns a record."""
        if len(self._pending) > PENDING_KEYS_MAX:
            self._overflown = True
            self._pending.clear()
        if not self._overflown:
            for batch in batches:
                self._pending.update(dict.fromkeys(batch.columns.keys))
        if batches:
            self._heard = max(self._heard, batches[-1].header.last_offset)
        self._call.set()

    @property
    def point(self) -> TextPoint | None:
        """What searches see; None: it is being built."""
        return None if self._store is None else self._store.point

    # --- for searches

    async def wait_applied(self, offset: Offset, *, timeout: float | None) -> None:
        """Return when the index shows `offset`, which the replica has applied. Raises `IndexBuilding` where it was not
        built in `timeout` seconds, `ReplicaBehind`, why it failed, and why it was closed.
        """
        try:
            async with asyncio.timeout(timeout):
                while (point := self.point) is None or point.applied < offset:
                    if self.failure is not None:
                        raise copy(self.failure)
                    await self._moved.wait()
        except TimeoutError:
            raise self._late(offset) from None

    def _late(self, offset: Offset, *, damaged: bool = False) -> DuramenError:
        point = self.point
        if point is None or damaged:
            return IndexBuilding(
                f"the text index {self.form.name} of {self._name} is being built from the replica's rows: ask again",
                index=self.form.name,
            )
        return ReplicaBehind(
            f"the text index {self.form.name} of {self._name} has applied {point.applied}, the search asks for "
            f"{offset}",
            partition=self._partition.partition,
            applied=point.applied,
            asked=offset,
        )

    async def search(self, query: str, limit: int, *, timeout: float) -> TextPage:
        """The best rows. Raises `IndexBuilding`, why it failed, what `TextStore.search` does, and `DeadlineExceeded`;
        the thread goes on to its end then.
        """
        store = self._store
        if store is None or store.point is None:
            raise copy(self.failure) if self.failure is not None else self._late(self._heard)
        searching = asyncio.get_running_loop().run_in_executor(self._threads.searches, store.search, query, limit)
        try:
            async with asyncio.timeout(timeout):
                return await searching
        except TextDamaged as error:
            if self._store is store and not self._damage:
                self._damage = str(error)
                self._call.set()
            raise self._late(self._heard, damaged=True) from error
        except TimeoutError:
            raise DeadlineExceeded(f"the search in {self._name} took more than {timeout:.3g} s: ask for less") from None

    # --- following

    async def _run(self) -> None:
        try:
            while not self._closing:
                try:
                    await self._follow()
                except (TextDamaged, OSError) as error:
                    self._damage = str(error)
                except (DiskFull, DiskFailed) as error:
                    self._damage = error.message
                if self._damage and not self._closing:
                    await self._discard()
        except IndexDamaged as error:
            self._replica.damaged(error)
            self._fail(error)
        except DuramenError as error:
            self._fail(error)
        except Exception as error:
            self._fail(InvalidRequest(f"the text index {self.form.name} of {self._name} stopped: {error!r}"))
            raise

    async def _follow(self) -> None:
        """Build the index and follow, until it is closed or damaged."""
        await self._build()
        while not (self._closing or self._damage):
            await self._wait_call()
            if self._overflown:
                await self._build_anew()
            elif self._pending or self._store_point().applied < self._heard:
                await self._take()
            await self._settle_in_time()

    async def _discard(self) -> None:
        """Remove what is damaged, after a pause where that was built just now."""
        logger.warning(
            "the text index %s of %s is damaged, and is built again: %s", self.form.name, self._name, self._damage
        )
        if self._settling is not None:
            await asyncio.wait([self._settling])
            self._settling = None
        store, self._store, self._damage = self._store, None, ""
        if store is not None:
            store.close()
        now_s = asyncio.get_running_loop().time()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._again_at_s - now_s):
                await self._closed.wait()
        self._again_at_s = max(now_s, self._again_at_s) + _AGAIN_S
        folder = text_folder(self.index.path, self.form.number)
        with suppress(DiskFailed):
            await self._in(self._threads.disk, partial(discard, folder))

    def _fail(self, error: DuramenError) -> None:
        if not self._closing:
            logger.error("the text index %s of %s goes no further: %s", self.form.name, self._name, error)
        self.failure = error
        self._advance()

    def _advance(self) -> None:
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    def _store_point(self) -> TextPoint:
        assert self._store is not None, "the index was not opened"
        point = self._store.point
        assert point is not None, "the index was not built"
        return point

    async def _wait_call(self) -> None:
        """Wait for batches, or until it is time to settle."""
        assert self._store is not None, "the index was not opened"
        wait_s = None
        if self._store.rows_in_memory and self._settling is None:
            wait_s = max(0.0, self._settle_at_s - asyncio.get_running_loop().time())
        try:
            async with asyncio.timeout(wait_s):
                await self._call.wait()
        except TimeoutError:
            return
        self._call.clear()

    async def _take(self) -> None:
        """Index what is pending, where the replica's index is at the last batch that was heard of."""
        store = self._store
        assert store is not None, "the index was not opened"
        if store.is_full and self._settling is not None:
            await asyncio.wait([self._settling])
        pinned = self.index.pinned()
        with pinned:
            if pinned.applied > self._heard:
                return  # an apply is under way: its batch is heard of next
            keys, self._pending = self._pending, {}
            read, point = self._reader_of(pinned), TextPoint(pinned.applied, pinned.log_time_ms)
            if len(keys) <= MEMORY_ROWS_MAX:
                if not store.rows_in_memory:
                    self._settle_at_s = asyncio.get_running_loop().time() + _SETTLE_S
                await self._in(self._threads.puts, lambda: store.put(rows_at(keys, pinned), point, read))
            else:
                await self._settle_now()
                await self._load(changes_at(keys, pinned), point, read, anew=False)
        self._advance()

    async def _load(
        self, changes: Iterator[tuple[bytes, TextRow | None]], point: TextPoint, read: ReadsTexts, *, anew: bool
    ) -> None:
        store = self._store
        assert store is not None, "the index was not opened"
        work = partial(store.load, changes, point, read, anew=anew, still=lambda: not self._closing)
        if not await self._in(self._threads.disk, work):
            raise self.failure or InvalidRequest("the text index was closed")

    # --- building

    async def _build(self) -> None:
        """Open the folder, and bring the index to where the replica is."""
        index = self.index
        with index.readers.held():
            definition = index.definition_now()
            identity = {"table": self._partition.table, "partition": self._partition.partition}
            identity |= {"version": index.version, "number": self.form.number}
            folder = text_folder(index.path, self.form.number)
            make = partial(make_folder, NODE_DISK.get())
            opening = partial(TextStore.open, self.form, folder, identity, make)
            self._store = await self._in(self._threads.disk, opening)
        assert definition is not None, "the table has a definition"
        on_disk = self._store.point_on_disk
        with index.pinned() as pinned:
            self._heard = max(self._heard, pinned.applied)
            point, read = TextPoint(pinned.applied, pinned.log_time_ms), self._reader_of(pinned)
            keys = None if on_disk is None else await self._changed(on_disk.applied, pinned.applied)
            if keys is None:
                logger.info("the text index %s of %s is built from its rows", self.form.name, self._name)
            changes = all_rows(pinned) if keys is None else changes_at(keys, pinned)
            await self._load(changes, point, read, anew=keys is None)
        self._advance()
        self._call.set()

    async def _build_anew(self) -> None:
        """More keys changed than are noted: take all rows. What was shown is shown meanwhile."""
        logger.warning("the text index %s of %s is too far behind, and is built anew", self.form.name, self._name)
        await self._settle_now()
        pinned = self.index.pinned()
        with pinned:
            if pinned.applied > self._heard:
                return
            self._overflown, self._pending = False, {}
            point, read = TextPoint(pinned.applied, pinned.log_time_ms), self._reader_of(pinned)
            await self._load(all_rows(pinned), point, read, anew=True)
        self._advance()

    async def _changed(self, applied: Offset, upto: Offset) -> dict[bytes, None] | None:
        run = partial(self._in, self._threads.disk)
        return await changed_keys(self._log, self._partition, self.index.place, applied, upto, PENDING_KEYS_MAX, run)

    def _reader_of(self, pinned: PinnedRead) -> ReadsTexts:
        definition, _ = pinned.definition()
        assert definition is not None, "the table has a definition"
        if self._reader is None or self._reader[0] != definition.number:
            self._reader = definition.number, text_reader(self.form, definition.schemas)
        return self._reader[1]

    # --- to disk

    async def _settle_in_time(self) -> None:
        """Begin to bring what is in memory to disk, where it is time and nothing is under way."""
        store = self._store
        assert store is not None, "the index was not opened"
        if self._settling is not None and self._settling.done():
            await self._settled()
        due = asyncio.get_running_loop().time() >= self._settle_at_s
        if self._settling is None and store.rows_in_memory and (due or store.is_full):
            store.begin_settling()
            self._settling = asyncio.ensure_future(self._in(self._threads.disk, store.settle))
            self._settling.add_done_callback(lambda _: self._call.set())

    async def _settled(self) -> None:
        """Wait for what brings memory to disk, and look what became of it. Where it failed, what is in memory is
        searched all the same, and comes to disk at the next time; where the folder is not sound, it is built again.
        """
        if self._settling is None:
            return
        settled, self._settling = self._settling, None
        await asyncio.wait([settled])
        error, store = settled.exception(), self._store
        if error is None or store is None:
            return
        if not isinstance(error, TextDamaged):
            raise error
        logger.warning("the text index %s of %s cannot be written: %s", self.form.name, self._name, error)
        self._settle_at_s = asyncio.get_running_loop().time() + _SETTLE_S
        if not await self._in(self._threads.disk, store.is_sound):
            self._damage = self._damage or str(error)
            self._call.set()

    async def _settle_now(self) -> None:
        """Return when nothing is in memory."""
        store = self._store
        assert store is not None, "the index was not opened"
        await self._settled()
        if store.has_memory:
            store.begin_settling()
            await self._in(self._threads.disk, store.settle)

    async def _in(self, threads: Executor, work: Callable[[], T]) -> T:
        """Run work in a thread, to its end also where the caller is cancelled."""
        return await to_the_end(asyncio.get_running_loop().run_in_executor(threads, work))

    async def close(self, reason: DuramenError, *, keep: bool = True) -> None:
        """Follow no longer; searches that wait get `reason`. `keep`: what is in memory goes to disk first."""
        self._closing = True
        self._closed.set()
        if self.failure is None:
            self.failure = reason
        self._advance()
        self._call.set()
        if self._task is not None:
            await to_the_end(asyncio.wait([self._task]))
        if self._settling is not None:
            await to_the_end(asyncio.wait([self._settling]))
        store, self._store = self._store, None
        if store is not None:
            if keep and store.point is not None and store.has_memory:
                await self._keep(store)
            store.close()

    async def _keep(self, store: TextStore) -> None:
        try:
            store.begin_settling()
            await self._in(self._threads.disk, store.settle)
        except TextDamaged as error:
            logger.warning("the text index %s of %s cannot be written: %s", self.form.name, self._name, error)
