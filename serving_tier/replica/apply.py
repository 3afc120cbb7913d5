"""Applying: chunks of the log go into a replica's live index and into its standby versions.

    chunk ──▶ no barrier in it           one transaction of the live index, then one of each level version
          ──▶ a barrier in it            up to the barrier as above; over the barrier, the new version first; and on
          ──▶ somebody reads at an       cut there, and the read happens between two pieces
              offset inside of it

A full disk, and a process that cannot open the index for want of a descriptor, are waited for: nothing of the chunk is
lost, and readers are served what is there. At a barrier to a version that is not level here it waits too, and tells
whoever can bring it (`on_missing`).

Invariant: between two pieces the live index stands still, at an offset that every level version has as well.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from log_tier.model.batch import Batch, cut_run, decode_batch
from log_tier.model.batch_header import Place, split_batches
from log_tier.model.errors import DiskFull, DuramenError, Overloaded, VersionMissing
from log_tier.model.identifiers import NOTHING, Offset
from serving_tier.fold.fold import Effects
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.replica.applier import Applier
from serving_tier.replica.pinned_reads import PinnedReads, cut_chunk
from serving_tier.replica.standby import StandbyVersions
from serving_tier.replica.unreadable_warnings import UnreadableWarnings

__all__ = ["Applying"]

_NOTHING: Final = Effects(NOTHING, 0)

logger = logging.getLogger(__name__)

# A full disk, or a process without descriptors, is looked at again this often; each look is one failed transaction.
_NO_ROOM_PAUSE_S: Final = 1.0

# How often it looks at a barrier whether the version has come.
_VERSION_PAUSE_S: Final = 0.05


class Applying:
    """See the module. It belongs to one replica and its event loop."""

    def __init__(
        self,
        name: str,
        index: LmdbIndex,
        versions: StandbyVersions,
        pinned_reads: PinnedReads,
        voids: UnreadableWarnings,
        *,
        applier: Applier,
        on_switch: Callable[[LmdbIndex], None],
        on_switched: Callable[[], None],
        on_progress: Callable[[], None],
        on_applied: Callable[[Sequence[Batch]], None],
        on_missing: Callable[[], None],
        on_failed: Callable[[int, DuramenError], Awaitable[None]],
    ) -> None:
        """`on_applied` gets batches as soon as the event loop hears that the live index has them, before anybody who
        waits for them is told. `on_switch` gets the new live index at a barrier, and `on_switched` is called when the
        others have followed; `on_progress` is called after pieces and while it waits; `on_failed` closes a version that
        could not be written, and is awaited."""
        self.index = index
        self.under_way = False
        """A transaction is being made: the index does not stand still."""
        self.awaits: VersionMissing | None = None
        """The barrier at which it waits."""
        self._name, self._versions, self._pinned_reads, self._voids = name, versions, pinned_reads, voids
        self._applier = applier
        self._on_applied = on_applied
        self._on_switch, self._on_switched, self._on_progress = on_switch, on_switched, on_progress
        self._on_missing, self._on_failed = on_missing, on_failed

    async def chunk(self, data: bytes) -> None:
        """Apply a run of stored batches. Raises what the live index raises, but for a full disk."""
        try:
            await self._piece_by_piece(data)
        except VersionMissing as barrier:
            await self._over_barriers(data, barrier)

    async def _piece_by_piece(self, data: bytes) -> None:
        if not self._pinned_reads:
            await self._apply(data)
            if self._pinned_reads:  # somebody came meanwhile
                self._pinned_reads.reach(cut=False)
            return
        for piece, cut in cut_chunk(data, self._pinned_reads.offsets()):
            await self._apply(piece)
            self._pinned_reads.reach(cut=cut)

    async def _apply(self, data: bytes) -> None:
        batches: Sequence[Batch] = ()

        def apply() -> tuple[Effects, dict[int, DuramenError]]:
            nonlocal batches
            batches = _decoded(data, self.index.place)
            return self._versions.apply(self.index, batches)

        failed = await self._run(apply)
        self._on_applied(batches)
        await self._give_up(failed)

    async def _run(self, work: Callable[[], tuple[Effects, dict[int, DuramenError]]]) -> dict[int, DuramenError]:
        """Have the applier do it, again where there is no room; nobody else applies meanwhile."""
        async with self._versions.lock:
            before = self.index.applied
            self.under_way = True
            try:
                while True:
                    try:
                        effects, failed = await self._applier.run(work)
                        break
                    except (DiskFull, Overloaded) as error:
                        logger.warning("%s: %s; trying again in %g s", self._name, error, _NO_ROOM_PAUSE_S)
                        await asyncio.sleep(_NO_ROOM_PAUSE_S)
            finally:
                self.under_way = False
        if effects.void:
            self._voids.note(effects.void, Offset(before + 1), effects.applied)
        return failed

    async def _give_up(self, failed: dict[int, DuramenError]) -> None:
        for number, error in failed.items():
            logger.error("%s: version %s is given up: %s", self._name, number, error)
            await self._on_failed(number, error)

    # --- barriers

    async def _over_barriers(self, data: bytes, barrier: VersionMissing) -> None:
        while True:
            offset, number = Offset(int(barrier.fields["offset"])), int(barrier.fields["version"])
            if offset - 1 > self.index.applied:
                await self._piece_by_piece(cut_run(data, Offset(offset - 1), self.index.place))
                self._on_progress()
            await self._wait_for(number, barrier)
            await self._switch(cut_run(data, offset, self.index.place), number)
            if self._pinned_reads:
                self._pinned_reads.reach(cut=False)
            try:
                return await self._piece_by_piece(data)
            except VersionMissing as another:
                barrier = another

    async def _wait_for(self, number: int, barrier: VersionMissing) -> None:
        if number in self._versions.level:
            return
        logger.warning("%s waits at offset %s: it has no version %s yet", self._name, self.index.applied, number)
        while number not in self._versions.level:
            self.awaits = barrier
            if number not in self._versions.behind:
                self._on_missing()
            await asyncio.sleep(_VERSION_PAUSE_S)
            self._on_progress()
        self.awaits = None

    async def _switch(self, data: bytes, number: int) -> None:
        """Go over the barrier that `data` ends with.

        The new index is the one that is read before the old one has the barrier's offset: who waits for that offset
        must never be answered from the old one.
        """
        old, new, batches = self.index, self._versions.level[number], _decoded(data, self.index.place)
        effects: list[Effects] = []

        def take_over() -> tuple[Effects, dict[int, DuramenError]]:
            effects.append(self._versions.take_over(old, new, batches))
            return effects[-1], {}

        def follow_over() -> tuple[Effects, dict[int, DuramenError]]:
            return _NOTHING, self._versions.follow_over(batches, effects[-1])

        await self._run(take_over)
        self.index = self._pinned_reads.index = new
        self._on_switch(new)
        self._on_applied(batches)
        # Whoever closes the replica at this moment finds all of them; the next start takes the old one on.
        del self._versions.level[number]
        self._versions.level[old.version] = old
        self._on_progress()
        failed = await self._run(follow_over)
        self._versions.on_moved()
        logger.info("%s is version %s from offset %s on", self._name, number, new.applied)
        self._on_switched()
        await self._give_up(failed)


def _decoded(data: bytes, place: Place) -> Sequence[Batch]:
    return [decode_batch(batch, place) for batch in split_batches(data)]
