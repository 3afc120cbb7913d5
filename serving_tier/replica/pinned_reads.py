"""Reads at one exact offset: how two replicas are compared while writes go on.

A replica moves on with every batch, so two of them are at one offset at one time by accident only. A caller that
compares them asks both for an offset that lies a little ahead; each cuts the chunk that it is about to apply at the end
of the batch with that offset, opens a read transaction there, and goes on. Nothing waits for the reader: LMDB keeps the
pages that it sees.

The place is the end of the *first batch that reaches the offset*: batches are the log's, so it is the same place at
every replica, and the asker need not know where batches end. A replica that is further already says where it is.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from copy import copy
from typing import Final

from log_tier.model.errors import DuramenError, OffsetPassed, Overloaded
from log_tier.model.identifiers import Offset
from serving_tier.index.lmdb.pinned_read import PinnedRead
from serving_tier.replica.replica_progress import ReplicaProgress

__all__ = ["PINNED_READS_MAX", "PinnedReads"]

# Each pinned read keeps the pages that it sees from being used again, and the file grows meanwhile.
PINNED_READS_MAX: Final = 4


class _Wanted:
    __slots__ = ("future", "offset")

    def __init__(self, offset: Offset, future: asyncio.Future[PinnedRead]) -> None:
        self.offset = offset
        self.future = future

    def __lt__(self, other: _Wanted) -> bool:
        return self.offset < other.offset


class PinnedReads:
    """The waiters for pinned reads of one replica, and the pinned reads that are open. Belongs to one event loop."""

    def __init__(self, progress: ReplicaProgress) -> None:
        self._name, self._progress = progress.name, progress
        self._wanted: list[_Wanted] = []
        self._open: list[PinnedRead] = []
        """The pinned reads that were handed out; closed ones leave the list when the next one is wanted."""

    def __bool__(self) -> bool:
        """Does a caller wait for a pinned read?"""
        return bool(self._wanted)

    def lowest(self) -> Offset | None:
        """The lowest offset that is waited for."""
        return self._wanted[0].offset if self._wanted else None

    async def open(self, offset: Offset, *, timeout: float, still: bool) -> PinnedRead:
        """A read at the first end of a batch from `offset` on, which the caller closes. `still`: no apply is under way.
        Raises `OffsetPassed`, `Overloaded`, `TimeoutError` after `timeout` seconds, what `fail` was given.
        """
        future = self.want(offset)
        if still:
            self.reach(cut=None)
        taken = False
        try:
            async with asyncio.timeout(timeout):
                pinned = await future
            taken = True
            return pinned
        except DuramenError as error:
            raise copy(error) from None
        finally:
            if not (taken or future.cancelled() or future.exception() is not None):
                future.result().close()  # opened just when the caller gave up

    def want(self, offset: Offset) -> asyncio.Future[PinnedRead]:
        """Register for an offset. Raises `Overloaded`."""
        self._open = [pinned for pinned in self._open if not pinned.closed]
        if len(self._open) + len(self._wanted) >= PINNED_READS_MAX:
            raise Overloaded(
                f"{PINNED_READS_MAX} reads of replica {self._name} at fixed offsets are under way: try again later",
                limit=PINNED_READS_MAX,
            )
        wanted = _Wanted(offset, asyncio.get_running_loop().create_future())
        insort(self._wanted, wanted)
        wanted.future.add_done_callback(lambda future: self._done(wanted, future))
        return wanted.future

    def _done(self, wanted: _Wanted, future: asyncio.Future[PinnedRead]) -> None:
        if future.cancelled() and wanted in self._wanted:
            self._wanted.remove(wanted)

    def reach(self, *, cut: Offset | None) -> None:
        """No apply is under way: open the pinned reads whose offset is reached, refuse those whose offset was passed.

        `cut`: what was applied last ends with the first batch that reaches this offset. A lower one that was asked for
        in the meantime was passed.
        """
        index = self._progress.index
        applied = index.applied
        while self._wanted and self._wanted[0].offset <= applied:
            wanted = self._wanted.pop(0)
            if wanted.future.done():
                continue
            if wanted.offset < (applied if cut is None else cut):
                wanted.future.set_exception(self._passed(wanted.offset, applied))
                continue
            try:
                pinned = index.pinned()
            except DuramenError as error:
                wanted.future.set_exception(error)
                continue
            assert pinned.applied == applied, f"the index moved from {applied} to {pinned.applied} under a read"
            self._open.append(pinned)
            wanted.future.set_result(pinned)

    def check(self) -> None:
        """Assert the invariants; for tests."""
        offsets = [wanted.offset for wanted in self._wanted]
        assert offsets == sorted(offsets), f"{self._name}: waiters out of order: {offsets}"
        held = sum(not pinned.closed for pinned in self._open)
        assert held + len(offsets) <= PINNED_READS_MAX, f"{self._name}: {held} open, {len(offsets)} wanted"

    def _passed(self, offset: Offset, applied: Offset) -> OffsetPassed:
        return OffsetPassed(
            f"replica {self._name} has applied {applied}, beyond {offset}: ask for a later offset",
            partition=self._progress.id.partition,
            asked=offset,
            applied=applied,
        )

    def fail(self, error: DuramenError) -> None:
        """The replica will not advance any more."""
        wanted, self._wanted = self._wanted, []
        for each in wanted:
            if not each.future.done():
                each.future.set_exception(error)
