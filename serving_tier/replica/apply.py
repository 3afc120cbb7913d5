"""Applying: chunks of the log go into a replica's live index and into its standby versions.

    chunk ──▶ `run.first_piece`: up to the end, to a barrier, or to the offset of a pinned read
          ──▶ the piece: one transaction of the live index, then one of each level version; the reader gets its read
          ──▶ a barrier: the new version goes over it first, then it is the live one, then the others follow
          ──▶ the rest in the same way

What the replica has to do comes out as steps, in the order in which they must be done; the next thing happens when the
replica has done a step. A piece is decoded, cut and folded in the applier's thread, or, where it is one small batch, at
once (`Applier.run`).

A full disk, and a process that cannot open the index for want of a descriptor, are waited for: nothing of the chunk is
lost, and readers are served what is there. At a barrier to a version that is not level here it waits too, until the
version is level; it asks for it at once, when the versions here change, and every now and then (`VersionAwaited`).

Invariant: between two pieces nothing writes to the live index, and every level version has the same offset.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final, NamedTuple

from log_tier.concurrency.backoff import Backoff
from log_tier.concurrency.tasks import end_tasks
from log_tier.model.barrier import Barrier
from log_tier.model.batch import Batch, decode_batch
from log_tier.model.batch_header import EXTENT, decoded_bytes, span_of, split_batches
from log_tier.model.errors import DiskFull, DuramenError, Overloaded, VersionMissing
from log_tier.model.identifiers import NOTHING, Offset
from log_tier.model.log import ReadChunk
from log_tier.tracing.indexes import begin_followed, end_followed
from log_tier.tracing.span import Span
from log_tier.tracing.written import TracedWrite
from serving_tier.fold.effects import Effects
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.replica.applier import Applier
from serving_tier.replica.pieces import BarrierAhead, Piece, first_piece
from serving_tier.replica.pinned_reads import PinnedReads
from serving_tier.replica.refusals import compacted_away
from serving_tier.replica.replica_progress import ReplicaProgress
from serving_tier.replica.standby import StandbyVersions
from serving_tier.replica.void_warnings import VoidWarnings

__all__ = [
    "ApplyStep",
    "Applying",
    "BatchesApplied",
    "Progressed",
    "Switched",
    "VersionAwaited",
    "VersionFailed",
    "VersionLive",
]

logger = logging.getLogger(__name__)

# A full disk, or a process without descriptors, is looked at again within this time, on average after half of it; each
# look is one failed transaction. The replicas of a node, which stop together, look one after the other.
_NO_ROOM_PAUSE_S: Final = 2.0

# A warning with every try would be 86,400 lines a day for each replica, on a disk that is full.
_TRIES_A_LINE: Final = 60

# A version that does not come to a barrier is asked for again after this time: the task that fetched it may have given
# up.
_ASK_AGAIN_S: Final = 1.0

# A chunk of which the event loop may do the fold itself, some 20 µs: what one caller at a time writes. The chunks of
# many callers are better off in the applier's thread, where they are folded while the loop gathers the next ones.
_SMALL_RECORDS_MAX: Final = 4
SMALL_BYTES_MAX: Final = 16 * 1024

# Rows that go into an index before the barrier that puts it into service, for a replica that comes there with the index
# not whole: some 4 ms.
_ROWS_BUILT: Final = 1000

_NOTHING: Final = Effects(NOTHING, 0)


class BatchesApplied(NamedTuple):
    """The live index has these batches. Readers that wait for them are woken after this step."""

    batches: Sequence[Batch]


class Progressed(NamedTuple):
    """The live index is at a barrier, or has passed it: wake the waiters for its offset, look at the state."""


class VersionAwaited(NamedTuple):
    """The log goes on with a version that is not here: the node has to fetch it (`Applying.awaits`)."""


class VersionLive(NamedTuple):
    """This index is read from now on, in place of the one that was live."""

    live: LmdbIndex


class Switched(NamedTuple):
    """All versions have followed over the barrier."""


class VersionFailed(NamedTuple):
    """A version could not be written: close it before anything more is applied."""

    number: int
    error: DuramenError


# Who waited for a record looks for the span of its apply as soon as it is there.
_TRACES_KEPT: Final = 16

ApplyStep = BatchesApplied | Progressed | VersionAwaited | VersionLive | Switched | VersionFailed

FoldOutcome = tuple[Effects, dict[int, DuramenError]]
"""What the live index's fold did, and why versions could not follow."""


class Applying:
    """Applies chunks of the log to a replica's live index and to its standby versions. It belongs to one replica and
    its event loop.
    """

    def __init__(
        self,
        name: str,
        progress: ReplicaProgress,
        versions: StandbyVersions,
        pinned_reads: PinnedReads,
        voids: VoidWarnings,
        *,
        applier: Applier,
    ) -> None:
        self.under_way = False
        """The applier's thread is writing to the index now."""
        self.awaits: VersionMissing | None = None
        """Why the fold does not go on: it waits at a barrier for a version."""
        self.awaited: Barrier | None = None
        """The barrier at which it waits."""
        self.held_up = asyncio.Event()
        """Set once it has waited for a version."""
        self.compacted = Offset(0)
        """What was `Bounds.compacted` when the index was opened: it is beyond that part, or folds all that is left of
        it. Outcomes below it may not be known here."""
        self.compared = False
        """The live index is known to be of the history that the log holds. It is compared before the first chunk."""
        self._traced: tuple[TracedWrite, ...] = ()  # there may be thousands of replicas, and nobody may trace
        self._name, self._progress, self._versions = name, progress, versions
        self._pinned_reads, self._voids = pinned_reads, voids
        self._applier = applier

    async def chunk(self, chunk: ReadChunk) -> AsyncGenerator[ApplyStep, None]:
        """Apply a run of stored batches. Raises what the live index raises, but for a full disk; `IndexDiverged`,
        before the first one; `OffsetTrimmed` where a compaction has overtaken the index.
        """
        index, compacted = self._progress.index, chunk.compacted
        if compacted > max(index.applied + 1, self.compacted):
            partition = self._progress.id.partition
            raise compacted_away(f"replica {self._name}", partition, applied=index.applied, compacted=compacted)
        if not self.compared:
            await self._versions.compare(self._progress.index)
            self.compared = True
        traced: tuple[TracedWrite, ...] = ()
        if chunk.traced:
            # Before the index has it: who sees it there looks for the span.
            traced = begin_followed("index apply", chunk.traced, self._progress.id.partition)
            self._traced = (*self._traced, *traced)[-_TRACES_KEPT:]
        rest: bytes | Sequence[Batch] = chunk.data
        while rest:
            pinned = self._pinned_reads.lowest()
            piece, failed = await self._apply_first(rest, pinned)
            if piece.batches:
                yield BatchesApplied(piece.batches)
            for number, error in failed.items():
                yield VersionFailed(number, error)
            if self._pinned_reads:
                self._pinned_reads.reach(cut=pinned if piece.stop == "pinned" else None)
            rest = piece.rest
            if piece.barrier is not None:
                yield Progressed()
                async for step in self._over(piece.barrier):
                    yield step
                rest = piece.barrier.rest
        if traced:
            yield Progressed()  # nobody waits for spans
            end_followed(traced)

    def traces_of(self, offset: Offset) -> Sequence[Span]:
        """The spans of how the record at this offset was applied, if it was traced and that was lately."""
        return next((callers for first, last, callers in self._traced if first <= offset <= last), ())

    async def come_through(self) -> None:
        """Return when a new index is beyond the compacted part of its log, or waits for a version, which is brought to
        replicas that are open. Raises why it stopped.

        A compaction drops what later records overwrite, so the states within that part are none that the log ever had:
        nobody may read them. An index that stands there without being new cannot go on (`Bounds.carries`).
        """
        until = Offset(self.compacted - 1)
        if self._progress.index.applied >= until:
            return
        applied = asyncio.create_task(self._progress.wait_applied(until, timeout=None), name=f"{self._name} to {until}")
        held_up = asyncio.create_task(self.held_up.wait(), name=f"{self._name} waits for a version")
        try:
            await asyncio.wait([applied, held_up], return_when="FIRST_COMPLETED")
            if applied.done():
                applied.result()
        finally:
            await end_tasks(applied, held_up)

    async def _apply_first(
        self, run: bytes | Sequence[Batch], pinned: Offset | None
    ) -> tuple[Piece, dict[int, DuramenError]]:
        index = self._progress.index
        pieces: list[Piece] = []

        def apply() -> FoldOutcome:
            batches = _decoded(run, index) if isinstance(run, bytes) else run
            piece = first_piece(batches, applied=index.applied, version=index.version, live=index.live, pinned=pinned)
            if piece.stop == "definition" and index.owes(piece.batches):
                # Other replicas have their turns between the pieces of the building.
                index.build_some(_ROWS_BUILT)
                pieces.append(Piece((), "end", batches))
                return _NOTHING, {}
            done = self._versions.apply(piece.batches) if piece.batches else (_NOTHING, {})
            ahead = piece.barrier
            if ahead is not None:
                judged = index.judge(ahead.batches)
                if judged.live is None:
                    done[1].update(self._versions.apply(ahead.batches)[1])
                    piece = Piece([*piece.batches, *ahead.batches], "void barrier", ahead.rest)
                else:
                    piece = piece._replace(barrier=ahead._replace(effects=judged))
            pieces.append(piece)
            return done

        failed = await self._run(apply, is_small=not self._versions.level and _is_small(run, index))
        return pieces[-1], failed

    async def _run(self, work: Callable[[], FoldOutcome], *, is_small: bool = False) -> dict[int, DuramenError]:
        """Have the applier do `work`, again after a pause if the disk is full or descriptors are out; nothing else is
        applied meanwhile.
        """
        async with self._versions.lock:
            before = self._progress.index.applied
            self.under_way = True
            tries = 0
            backoff: Backoff | None = None
            try:
                while True:
                    try:
                        effects, failed = await self._applier.run(work, is_small=is_small)
                        break
                    except (DiskFull, Overloaded) as error:
                        self._progress.obstacle = str(error)
                        tries += 1
                        backoff = backoff or Backoff(_NO_ROOM_PAUSE_S, _NO_ROOM_PAUSE_S)
                        if tries % _TRIES_A_LINE == 1:
                            logger.warning(
                                "%s: %s; trying again within %g s (try %s)",
                                self._name,
                                error,
                                backoff.max_s,
                                tries,
                            )
                        await backoff.pause()
            finally:
                self.under_way, self._progress.obstacle = False, ""
        if effects.void:
            self._voids.note(
                effects.void,
                Offset(before + 1),
                effects.applied,
                misfits=effects.misfits,
                first_misfit=effects.first_misfit,
            )
        return failed

    # --- barriers

    async def _over(self, barrier: BarrierAhead) -> AsyncGenerator[ApplyStep, None]:
        """Wait for the version that a barrier names, then go over the barrier.

        The new index is the one that is read before the old one has the barrier's offset: who waits for that offset
        must never be answered from the old one.
        """
        number = barrier.barrier.version
        if number not in self._versions.level:
            at = self._progress.index.applied
            logger.warning("%s waits at offset %s: it has no version %s yet", self._name, at, number)
        while number not in self._versions.level:
            self.awaits, self.awaited = self._missing(barrier), barrier.barrier
            seen = self._versions.changes
            self.held_up.set()
            if number not in self._versions.behind:
                yield VersionAwaited()
            await self._versions.wait_changed(seen, timeout=_ASK_AGAIN_S)
            yield Progressed()
        self.awaits = self.awaited = None

        new, batches = self._versions.level[number], barrier.batches
        effects = barrier.effects
        assert effects is not None, f"{self._name} has not judged the barrier at offset {barrier.offset}"

        def take_over() -> FoldOutcome:
            self._versions.take_over(new, batches, effects)
            return effects, {}

        def follow_over() -> FoldOutcome:
            return _NOTHING, self._versions.follow_over(batches, effects)

        await self._run(take_over)
        # A close of the replica at this point finds all of them; the next start takes the old one over the barrier.
        self._versions.exchange(new, ended=barrier.barrier.ended)
        yield VersionLive(new)
        yield BatchesApplied(batches)
        yield Progressed()
        failed = await self._run(follow_over)
        logger.info("%s is version %s from offset %s on", self._name, number, new.applied)
        yield Switched()
        for lost, error in failed.items():
            yield VersionFailed(lost, error)
        if self._pinned_reads:
            self._pinned_reads.reach(cut=None)

    def _missing(self, barrier: BarrierAhead) -> VersionMissing:
        return VersionMissing(
            f"{self._name} is version {self._progress.index.version} of its table, and the log goes on with version "
            f"{barrier.barrier.version} at offset {barrier.offset}: begin with a copy of that version",
            version=barrier.barrier.version,
            offset=barrier.offset,
        )


def _is_small(run: bytes | Sequence[Batch], index: LmdbIndex) -> bool:
    """Is it one batch of few records, for an index that is open?"""
    if not isinstance(run, bytes) or len(run) > SMALL_BYTES_MAX or index.is_at_rest:
        return False
    _, _, length = EXTENT.unpack_from(run)
    return length == len(run) and span_of(run) <= _SMALL_RECORDS_MAX and decoded_bytes(run) <= SMALL_BYTES_MAX


def _decoded(data: bytes, index: LmdbIndex) -> Sequence[Batch]:
    return [decode_batch(batch, index.place) for batch in split_batches(data)]
