"""Carrying out a partition's plan: new files whole and synced before they have the old ones' names.

The order, each step on stable storage before the next:

1. The checkpoint, with the end that is known and with what is given up. From here on the proof of what was lost does
   not depend on the damaged files, and an open takes the repair for interrupted where something is given up.
2. Each file, written next to the old one, then renamed over it. The sparse index goes before, and comes after.
3. The partition is opened as at a start, and must be whole. Where something was given up, a no-op record ends the
   repair: an index that holds offsets from the first one that was given up on, and not this record, is of another
   history.
4. The checkpoint, as a clean close leaves it.

A repair that ends in between is finished by the next one, from the same copy and with the same offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from log_tier.embedded.recovery.open_partition import RecoveryReport, open_partition
from log_tier.embedded.repair.facts import end_of
from log_tier.embedded.repair.old_files import OldFiles
from log_tier.embedded.repair.partition_plan import Keep, NewSegment, PartitionPlan, Shell, Take
from log_tier.embedded.repair.survey import PartitionSurvey
from log_tier.embedded.segments.log_resources import LogResources
from log_tier.embedded.segments.open_files import OpenFiles
from log_tier.embedded.segments.segment import read_run
from log_tier.embedded.segments.settling import Settling
from log_tier.embedded.segments.sparse_index import SparseIndex
from log_tier.embedded.segments.tail_cache import TailMemory
from log_tier.embedded.storage import names
from log_tier.embedded.storage.disk import Disk, File, replace_file
from log_tier.embedded.storage.settings import ClockMs, EngineSettings
from log_tier.model.batch import BATCH_RECORDS_MAX, Columns, encode_batch
from log_tier.model.batch_header import place_of, stamp_batch
from log_tier.model.identifiers import NOTHING, Offset, PartitionId
from log_tier.model.moves import MoveFeed
from log_tier.model.record import Operation
from log_tier.tracing.written import WrittenTraces

__all__ = ["PartitionRewriting"]

_MARK: Final = encode_batch(Columns([b""], [b""], attributes=[int(Operation.NOOP)]))
"""The no-op record with which a repair ends that gave something up."""

# Of one partition, whose newest file alone is written to.
_OPEN_FILES: Final = 2


class PartitionRewriting:
    """Carries out the plan of one partition. `copy`: the disk and the folder of the copy's files of it."""

    def __init__(
        self,
        disk: Disk,
        folder: Path,
        partition: PartitionId,
        survey: PartitionSurvey,
        plan: PartitionPlan,
        *,
        copy: tuple[Disk, Path] | None,
        old: OldFiles,
        settings: EngineSettings,
    ) -> None:
        self._disk, self._folder, self._partition = disk, folder, partition
        self._facts, self._checkpoint = survey.facts, survey.checkpoint
        self._plan, self._copy, self._old, self._settings = plan, copy, old, settings

    def write_checkpoint(self, *, proof_only: bool = False) -> None:
        """Step 1; `proof_only`: of a partition that is not repaired. Raises `OSError`."""
        before, plan = self._checkpoint, self._plan
        end = self._facts.known_end if proof_only else plan.end
        checkpoint = replace(before, end=max(before.end, end), clean_bytes=-1)
        if not proof_only:
            checkpoint = replace(
                checkpoint,
                earliest=before.earliest if plan.earliest is None else plan.earliest,
                reserved_bytes=0 if plan.segments else before.reserved_bytes,
                compacted=plan.compacted,
                given_up=plan.record,
                mended=NOTHING if plan.given_up or not plan.record else before.mended,
            )
        path = self._folder / names.CHECKPOINT
        self._disk.make_folder(self._folder)
        self._old.keep(path)
        checkpoint.write(self._disk, path)

    def write_segments(self) -> None:
        """Step 2. Raises `OSError`, and `LogDamaged` where a file is not as it was when the plan was made."""
        for new in self._plan.segments:
            index = self._folder / names.index_name(new.base)
            if self._disk.exists(index):
                self._disk.unlink(index)
            entries = SparseIndex()
            path = self._folder / names.segment_name(new.base)
            self._old.replace(path, self._writer(new, entries))
            replace_file(self._disk, index, entries.encode(new.base), part=index.with_name(index.name + names.PART))
        if self._plan.earliest is not None:
            for name in self._disk.list(self._folder):  # an open removes what is trimmed
                base = names.segment_base(name)
                if base is not None and base < self._plan.earliest:
                    self._old.keep(self._folder / name)

    def finish(self, clock: ClockMs) -> None:
        """Steps 3 and 4. Raises `OSError`, and `LogDamaged` where the partition is not whole."""
        resources = LogResources(
            self._disk, self._settings, TailMemory(0), OpenFiles(_OPEN_FILES), MoveFeed(), Settling(), WrittenTraces()
        )
        log = open_partition(
            self._facts.name,
            self._partition,
            self._folder,
            resources,
            report=RecoveryReport(),
            ends_repair=True,
        )
        try:
            log.check_writable()
            if log.checkpoint.is_half_mended:
                (placed,), _, refused = log.stage([(_MARK, 1)], clock(), alone=True)
                if refused is not None:
                    raise refused
                log.save_checkpoint(mended=placed.base_offset)
            log.finish()
        finally:
            log.abandon()

    def _writer(self, new: NewSegment, entries: SparseIndex) -> Callable[[File], None]:
        def write(file: File) -> None:
            position = indexed = 0
            for base, batches in self._batches(new):
                file.pwrite((batches,), position)
                if position - indexed >= self._settings.index_every_bytes:
                    entries.add(base, position)
                    indexed = position
                position += len(batches)

        return write

    def _batches(self, new: NewSegment) -> Iterator[tuple[Offset, bytes]]:
        """What the file gets, in runs of whole batches, each with its first offset."""
        at = new.base
        for piece in new.pieces:
            if isinstance(piece, Shell):
                for first in range(piece.first, piece.end, BATCH_RECORDS_MAX):
                    yield Offset(first), self._shell(Offset(first), piece)
                at = piece.end
                continue
            for base, run in self._stored(piece, at):
                yield base, run
                at = Offset(base + 1)

    def _shell(self, first: Offset, piece: Shell) -> bytes:
        batch = encode_batch(Columns([], []), span=min(BATCH_RECORDS_MAX, piece.end - first))
        place = place_of(self._partition)
        return stamp_batch(batch, base_offset=first, timestamp_ms=piece.timestamp_ms, unsynced=0, place=place)

    def _stored(self, piece: Keep | Take, at: Offset) -> Iterator[tuple[Offset, bytes]]:
        """The batches of a piece, each checked once more."""
        disk, folder = (self._disk, self._folder) if isinstance(piece, Keep) or self._copy is None else self._copy
        path = folder / names.segment_name(piece.segment)
        file = disk.open(path)
        try:
            position = piece.position
            while position < piece.end_position:
                run = read_run(file, path, position, piece.end_position, at, size=self._settings.index_every_bytes)
                if run.damage is not None and not run.batches:
                    raise run.damage
                yield run.batches[0].header.base_offset, run.data
                position, at = position + len(run.data), end_of(run.batches[-1].header)
        finally:
            file.close()
