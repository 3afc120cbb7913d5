"""Reads at one exact offset: how two replicas are compared while writes go on.

A replica moves on with every batch, so two of them are at one offset at one time by accident only. Who wants to compare
them asks both for an offset that lies a little ahead; each cuts the chunk that it is about to apply at the end of the
batch with that offset, opens a read transaction there, and goes on. Nothing waits for the reader: LMDB keeps the pages
that it sees.

The place is the end of the *first batch that reaches the offset*: batches are the log's, so it is the same place at
every replica, and the asker need not know where batches end. A replica that is further already says where it is.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from functools import partial
from typing import Final

from log_tier.model.errors import DuramenError, OffsetPassed, Overloaded
from log_tier.model.identifiers import Offset, Partition
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.index.lmdb.pinned_read import PinnedRead

__all__ = ["MOMENTS_MAX", "PinnedReads"]

# Each open moment keeps the pages that it sees from being used again, and the file grows meanwhile.
MOMENTS_MAX: Final = 4


class _Wanted:
    __slots__ = ("future", "offset")

    def __init__(self, offset: Offset, future: asyncio.Future[PinnedRead]) -> None:
        self.offset = offset
        self.future = future

    def __lt__(self, other: _Wanted) -> bool:
        return self.offset < other.offset


class PinnedReads:
    """Who waits for which offset of one replica, and the moments that were opened. Belongs to one event loop."""

    def __init__(self, name: str, partition: Partition, index: LmdbIndex, readers: list[LmdbIndex]) -> None:
        self._name, self._partition, self._readers = name, partition, readers
        self.index = index
        """The live index; a swap sets it here."""
        self._wanted: list[_Wanted] = []
        self._open: list[None] = []

    def __bool__(self) -> bool:
        """Does anybody wait?"""
        return bool(self._wanted)

    def lowest(self) -> Offset | None:
        """The lowest offset that is waited for."""
        return self._wanted[0].offset if self._wanted else None

    def want(self, offset: Offset) -> asyncio.Future[PinnedRead]:
        """Register for an offset. Raises `Overloaded`."""
        if len(self._open) + len(self._wanted) >= MOMENTS_MAX:
            raise Overloaded(
                f"{MOMENTS_MAX} reads of replica {self._name} at fixed offsets are under way: try again later",
                limit=MOMENTS_MAX,
            )
        wanted = _Wanted(offset, asyncio.get_running_loop().create_future())
        insort(self._wanted, wanted)
        wanted.future.add_done_callback(lambda future: self._done(wanted, future))
        return wanted.future

    def _done(self, wanted: _Wanted, future: asyncio.Future[PinnedRead]) -> None:
        if future.cancelled() and wanted in self._wanted:
            self._wanted.remove(wanted)

    def reach(self, *, cut: Offset | None) -> None:
        """The index stands still, and was applied so far: open what was waited for, refuse what was passed.

        `cut`: what was applied last ends with the first batch that reaches this offset. A lower one that was asked for
        in the meantime was passed.
        """
        applied = self.index.applied
        while self._wanted and self._wanted[0].offset <= applied:
            wanted = self._wanted.pop(0)
            if wanted.future.done():
                continue
            if wanted.offset < (applied if cut is None else cut):
                wanted.future.set_exception(self._passed(wanted.offset, applied))
                continue
            try:
                pinned = self.index.pinned()
            except DuramenError as error:
                wanted.future.set_exception(error)
                continue
            assert pinned.applied == applied, f"the index moved from {applied} to {pinned.applied} under a read"
            self._open.append(None)
            self._readers.append(self.index)
            pinned.on_close = partial(self._closed, self.index)
            wanted.future.set_result(pinned)

    def _closed(self, index: LmdbIndex) -> None:
        # In whichever thread read: lists, because their appends, pops and removals of one entry need no lock.
        self._readers.remove(index)
        self._open.pop()

    def _passed(self, offset: Offset, applied: Offset) -> OffsetPassed:
        return OffsetPassed(
            f"replica {self._name} has applied {applied}, beyond {offset}: ask for a later offset",
            partition=self._partition,
            asked=offset,
            applied=applied,
        )

    def fail(self, error: DuramenError) -> None:
        """The replica will not advance any more."""
        wanted, self._wanted = self._wanted, []
        for each in wanted:
            if not each.future.done():
                each.future.set_exception(error)
