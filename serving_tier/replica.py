"""One partition's index on this node: opened or rebuilt, kept up with the log, read at a known offset.

                 open index        caught up           error
    (absent) ──▶ replaying ──────▶ ready ──────────▶ stopped          close() from any of them: closed
        │  ▲
        └──┘ index cannot be trusted: discard the folder and fold the log again

A replica never answers early: `wait_applied(offset)` returns when the index holds that offset, or says how far it is.

**Long reads in other threads** (a page of a scan) stand in `readers` while they run, so that the index is closed
under none of them: a reader first steps in and then looks at the state, `close()` first changes the state and then
waits until nobody is left. `with replica.reading() as index:` does that.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import shutil
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from copy import copy
from pathlib import Path
from typing import Any, Final, Literal, cast

from log_tier.errors import (
    DiskFull,
    DuramenError,
    FolderReadOnly,
    IndexDamaged,
    LogDamaged,
    OffsetTrimmed,
    ReplicaBehind,
    ShuttingDown,
    TableNotFound,
    TokenAhead,
)
from log_tier.identifiers import NOTHING, Offset, Partition
from log_tier.log import Log, Topic
from serving_tier.applier import Applier
from serving_tier.lmdb_index import LmdbIndex
from serving_tier.waiters import OffsetWaiters

__all__ = ["Replica", "ReplicaState"]

logger = logging.getLogger(__name__)

ReplicaState = Literal["replaying", "ready", "stopped", "closed"]

# One chunk is one write transaction. 2 MiB are some 15,000 small records: enough that the commit disappears in the cost
# of the puts, little enough that a waiting read is served within some 30 ms while a replica catches up.
_CHUNK_BYTES: Final = 2 << 20

# How often a closing replica looks whether the last reader has left; a page of a scan takes some 10 ms.
_READERS_PAUSE_S: Final = 0.001

# What an operating system says about a disk without room, and about one that it lets nobody write to.
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_READ_ONLY: Final = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})

# A full disk is looked at again this often; each look is one failed transaction.
_DISK_FULL_PAUSE_S: Final = 1.0


class Replica:
    """A follower of one partition and its index. `open()` makes one, `close()` ends it.

    Invariant: `index.applied` is at most the log's latest offset; waiters of offsets up to it have been woken.
    """

    def __init__(self, topic: Topic, partition: Partition, *, log: Log, applier: Applier, index: LmdbIndex) -> None:
        self.topic = topic
        self.partition = partition
        self.index = index
        self.state: ReplicaState = "replaying"
        self.failure: DuramenError | None = None
        """Why it stopped, or that it was closed."""
        self.log_latest: Offset = NOTHING
        """The log's latest offset when the log was last heard of."""
        self.readers: list[None] = []
        """One entry per long read that runs in another thread at this moment; see the module's text."""
        self._log = log
        self._applier = applier
        self._waiters = OffsetWaiters()
        self._follower: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()

    @property
    def name(self) -> str:
        """For messages: table/partition."""
        return f"{self.topic.name}/{self.partition}"

    @property
    def applied(self) -> Offset:
        """The highest offset folded into the index."""
        return self.index.applied

    @classmethod
    async def open(cls, topic: Topic, partition: Partition, *, log: Log, applier: Applier, folder: Path) -> Replica:
        """Open the index in `folder`, or discard it and begin anew where it cannot be trusted; then follow the log.

        Raises `LogDamaged` where the index has applied more than the log holds: acknowledged records are gone, and
        going on would give their offsets to others. Raises `OffsetTrimmed` where the log no longer holds what the
        index needs next, and `DiskFull` or `FolderReadOnly` where the folder cannot be made.
        """
        bounds = await log.bounds(topic.id, partition)

        def opening() -> LmdbIndex:
            try:
                return LmdbIndex.open(folder, table_id=topic.id, partition=partition)
            except OSError as error:
                raise _folder_trouble(error, folder) from error

        try:
            index = await applier.run(opening)
        except IndexDamaged as error:
            logger.warning("%s/%s: %s; it is built again from the log", topic.name, partition, error)
            await asyncio.to_thread(_discard, folder)
            index = await applier.run(opening)
        if index.applied > bounds.latest:
            applied = index.applied
            await applier.run(lambda: index.close(clean=True))
            raise LogDamaged(
                f"the index of {topic.name}/{partition} has applied {applied}, the log ends at {bounds.latest}: "
                f"{applied - bounds.latest} acknowledged records are gone from the log. Nothing was changed. Bring the "
                f"log back from a copy; or, to accept the loss, remove {folder} and start again",
                offset=bounds.latest,
            )
        if index.applied + 1 < bounds.earliest:
            applied = index.applied
            await applier.run(lambda: index.close(clean=True))
            raise OffsetTrimmed(
                f"the index of {topic.name}/{partition} has applied {applied}, the log begins at {bounds.earliest}: "
                "what lies between can only come from a copy of the index",
                partition=partition,
                asked=applied + 1,
                earliest=bounds.earliest,
            )
        replica = cls(topic, partition, log=log, applier=applier, index=index)
        replica.log_latest = bounds.latest
        replica._start_following()
        return replica

    def _start_following(self) -> None:
        self._update_state()
        self._follower = asyncio.create_task(self._follow(), name=f"follow {self.name}")

    async def _follow(self) -> None:
        try:
            reader = self._log.read(
                self.topic.id, self.partition, Offset(self.index.applied + 1), follow=True, chunk_bytes=_CHUNK_BYTES
            )
            async with aclosing(cast("Any", reader)) as chunks:
                async for chunk in chunks:
                    self.log_latest = max(self.log_latest, chunk.latest)
                    await self._apply(chunk.data)
                    self._waiters.advance(self.index.applied)
                    self._update_state()
            raise AssertionError("the log ended a read that follows it")
        except DuramenError as error:
            self._stop(error)
        except Exception as error:
            # A bug of ours: end loudly, and let nobody wait for an offset that will not come.
            self._stop(DuramenError(f"replica {self.name} stopped at {self.applied} by a bug: {error!r}"))
            raise

    async def _apply(self, data: bytes) -> None:
        while True:
            try:
                await self._applier.run(lambda: self.index.apply(data))
            except DiskFull as error:
                logger.warning("%s: %s; trying again in %g s", self.name, error, _DISK_FULL_PAUSE_S)
                await asyncio.sleep(_DISK_FULL_PAUSE_S)
            else:
                return

    def _stop(self, error: DuramenError) -> None:
        # That the table was dropped, or that the log is closing, is no trouble of ours.
        expected = isinstance(error, (TableNotFound, ShuttingDown))
        logger.log(
            logging.INFO if expected else logging.ERROR, "replica %s stopped at %s: %s", self.name, self.applied, error
        )
        self.state, self.failure = "stopped", error
        self._waiters.fail(error)
        self._ready.set()

    def _update_state(self) -> None:
        if self.state == "replaying" and self.index.applied >= self.log_latest:
            self.state = "ready"
            self._ready.set()

    async def wait_ready(self) -> None:
        """Return when the replica has caught up once, or raise why it stopped."""
        await self._ready.wait()
        if self.failure is not None:
            raise copy(self.failure)

    async def wait_applied(self, offset: Offset, *, timeout: float) -> None:
        """Return when `offset` is applied. `timeout` in seconds.

        Raises `ReplicaBehind` with both offsets when the time has passed, `TokenAhead` where the log itself does not
        hold that offset, or the reason why the replica stopped.
        """
        if self.state == "closed":
            raise copy(self.failure or _closing(self.name))
        if self.index.applied >= offset:
            return
        if offset > self.log_latest:
            # What was last heard of the log may be old: ask it.
            bounds = await self._log.bounds(self.topic.id, self.partition)
            self.log_latest = max(self.log_latest, bounds.latest)
            if offset > bounds.latest:
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

    @contextmanager
    def reading(self) -> Iterator[LmdbIndex]:
        """The index, for a read in any thread; it stays open until the block is left. Raises why it was closed."""
        self.readers.append(None)
        try:
            if self.state == "closed":
                raise copy(self.failure or _closing(self.name))
            yield self.index
        finally:
            self.readers.pop()

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
        self._ready.set()
        self._waiters.fail(self.failure)
        while self.readers:  # noqa: ASYNC110 - readers in other threads must not pay for an event
            await asyncio.sleep(_READERS_PAUSE_S)
        await self._applier.run(lambda: self.index.close(clean=True))


def _closing(name: str) -> ShuttingDown:
    return ShuttingDown(f"replica {name} is closing; ask again")


def _discard(folder: Path) -> None:
    """Remove an index's folder, or whatever stands in its place."""
    if folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder)
    else:
        folder.unlink(missing_ok=True)


def _folder_trouble(error: OSError, folder: Path) -> DuramenError:
    """What an index's folder that cannot be opened means."""
    if error.errno in _NO_ROOM:
        return DiskFull(f"the index {folder} cannot be opened: {error.strerror}: make room and start again")
    if error.errno in _READ_ONLY:
        return FolderReadOnly(f"the index {folder} cannot be opened: {error.strerror}: make it writable for this user")
    return IndexDamaged(f"the index {folder} cannot be opened: {error}: discard it and fold the log again")
