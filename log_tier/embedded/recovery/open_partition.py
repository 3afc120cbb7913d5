"""Opening a partition: which files are there, which should be, and what the newest one ends with."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Final

from log_tier.embedded.commit.journal_replay import JournalCut
from log_tier.embedded.recovery.segment_end import Cut, NewestEnd, check_sealed, recover_newest
from log_tier.embedded.segments.log_resources import LogResources
from log_tier.embedded.segments.partition_log import PartitionLog
from log_tier.embedded.segments.partition_state import PartitionState
from log_tier.embedded.segments.segment import Segment, damaged
from log_tier.embedded.storage import names
from log_tier.embedded.storage.checkpoint import Checkpoint
from log_tier.embedded.storage.disk import Disk
from log_tier.embedded.storage.settings import EngineSettings
from log_tier.model.errors import ForeignFolder, LogDamaged
from log_tier.model.identifiers import Offset, PartitionId, ranges_text

_START: Final = Offset(0)

__all__ = ["RecoveryReport", "look_at_partition", "open_partition", "remove_segment"]


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """What opening a log found that is not as a clean close leaves it."""

    cuts: list[Cut | JournalCut] = field(default_factory=list)
    """Torn tails that were cut."""
    damages: list[LogDamaged] = field(default_factory=list)
    """The places of damage that opening has seen; the partitions refuse appends. One for each file of them."""
    notes: list[str] = field(default_factory=list)
    """Things that were put right and cost nothing, and which offsets an earlier repair gave up."""

    def add(self, later: RecoveryReport) -> None:
        """Go on with what another look has found."""
        self.cuts.extend(later.cuts)
        self.damages.extend(later.damages)
        self.notes.extend(later.notes)

    def __str__(self) -> str:
        return "\n".join([*map(str, self.cuts), *map(str, self.damages), *self.notes]) or "nothing to recover"


def open_partition(
    name: str,
    partition: PartitionId,
    folder: Path,
    resources: LogResources,
    *,
    report: RecoveryReport,
    proved_end: Offset = _START,
    ends_repair: bool = False,
) -> PartitionLog:
    """Open one partition as `look_at_partition` finds it. `name`: for people, topic/partition."""
    state = look_at_partition(
        folder, resources.disk, resources.settings, report=report, proved_end=proved_end, ends_repair=ends_repair
    )
    return PartitionLog(name, partition, folder, resources, state=state)


def look_at_partition(
    folder: Path,
    disk: Disk,
    settings: EngineSettings,
    *,
    report: RecoveryReport,
    proved_end: Offset = _START,
    ends_repair: bool = False,
) -> PartitionState:
    """Look at a partition's files, cut a torn tail, and add to the report. Damage does not raise.

    Raises `UnknownFormat` for a checkpoint of a newer version, and then changes nothing: what it protects is not known.

    `proved_end` is an end that is known to have been on stable storage, by the journal or by the summary of a clean
    close. `ends_repair`: does the caller end a repair that gave offsets up? Else one that was interrupted is damage.
    Reads one index and about 64 KiB per segment, and what the newest holds behind its last index entry.
    """
    bases = _segment_bases(disk, folder)
    is_known = True
    try:
        checkpoint = Checkpoint.read(disk, folder / names.CHECKPOINT)
    except (LogDamaged, ForeignFolder) as error:
        report.notes.append(f"went on without a checkpoint, so losses at both ends go unnoticed: {error.message}")
        checkpoint, is_known = Checkpoint(earliest=bases[0] if bases else Offset(0)), False
    bases = _finish_trim(disk, folder, bases, checkpoint.earliest)
    damages: list[LogDamaged | None] = []
    lost = 0
    capacity = 0
    segments = [Segment(folder, base, base, 0, 0) for base in bases]
    if segments and segments[0].base > checkpoint.earliest:
        why = f"the oldest one there begins with offset {segments[0].base}"
        damages.append(_missing(folder, checkpoint.earliest, why))
    for segment, after in pairwise(segments):
        gaps = checkpoint.may_lack(segment.base) or not is_known
        damages.append(check_sealed(disk, segment, after.base, every_bytes=settings.index_every_bytes, gaps=gaps))
        segment.end = after.base
    if segments and segments[-1].base >= checkpoint.newest_segment:
        found, checkpoint = _recover_newest(disk, segments[-1], checkpoint, proved_end, settings)
        if found.cut is not None:
            report.cuts.append(found.cut)
        lost = found.lost
        damages.append(found.damage)
        if not any(damages) and found.capacity > segments[-1].bytes:
            capacity = found.capacity
    elif checkpoint.newest_segment >= 0:
        if segments:
            last = segments[-1]
            every_bytes = settings.index_every_bytes
            gaps = checkpoint.may_lack(last.base)
            newest = checkpoint.newest_segment
            damages.append(check_sealed(disk, last, newest, every_bytes=every_bytes, gaps=gaps))
        end = segments[-1].end if segments else checkpoint.earliest
        lost = max(1, checkpoint.end - end, proved_end - end)
        damages.append(_missing(folder, checkpoint.newest_segment, "the checkpoint says that it was begun"))
    elif proved_end > 0:
        lost = max(1, proved_end - checkpoint.earliest)
        why = f"it is known that offsets up to {proved_end - 1} were on stable storage"
        damages.append(_missing(folder, checkpoint.earliest, why))
    if checkpoint.is_half_mended and not ends_repair:
        damages.append(_half_mended(folder, checkpoint))
    elif checkpoint.given_up:
        given_up = ", ".join(map(str, checkpoint.given_up))
        report.notes.append(f"{folder}: a repair gave up {given_up}: no record is there")
    if not is_known and segments:
        checkpoint = replace(checkpoint, compacted=segments[-1].end)  # it may have said so
    if checkpoint.clean_bytes < 0:
        # The process may have ended before the folder's names were synced, or with a sync of them that failed. So the
        # next append writes the checkpoint again, and syncs the folder, before anything is acknowledged.
        checkpoint = replace(checkpoint, reserved_bytes=0)
    found_damages = [damage for damage in damages if damage is not None]
    report.damages.extend(found_damages)
    for older, newer in pairwise(segments):
        newer.newest_ms = max(newer.newest_ms, older.newest_ms)
    return PartitionState(segments, checkpoint, next(iter(found_damages), None), lost, capacity)


def _recover_newest(
    disk: Disk, segment: Segment, checkpoint: Checkpoint, proved_end: Offset, settings: EngineSettings
) -> tuple[NewestEnd, Checkpoint]:
    """How the newest segment ends; a torn file is cut only after the checkpoint says how short it may be."""
    is_known = segment.base == checkpoint.newest_segment

    def before_cut(size: int) -> None:
        nonlocal checkpoint
        if is_known and size < checkpoint.reserved_bytes:
            checkpoint = replace(checkpoint, reserved_bytes=size)
            checkpoint.write(disk, segment.folder / names.CHECKPOINT)

    found = recover_newest(
        disk,
        segment,
        known_end=max(checkpoint.end, proved_end),
        clean_bytes=checkpoint.clean_bytes,
        reserved_bytes=checkpoint.reserved_bytes if is_known else 0,
        every_bytes=settings.index_every_bytes,
        before_cut=before_cut,
    )
    return found, checkpoint


def _segment_bases(disk: Disk, folder: Path) -> list[Offset]:
    """The segments that are there, in order; what is half written goes."""
    found = disk.list(folder)
    for name in found:
        if name.endswith(names.PART):
            disk.unlink(folder / name)
    return sorted(base for base in map(names.segment_base, found) if base is not None)


def _finish_trim(disk: Disk, folder: Path, bases: list[Offset], earliest: Offset) -> list[Offset]:
    """Remove the segments that a trim gave up before a crash kept it from removing them."""
    while len(bases) > 1 and bases[1] <= earliest:
        remove_segment(disk, folder, bases.pop(0))
    return bases


def remove_segment(disk: Disk, folder: Path, base: Offset) -> None:
    """Remove a segment's files, the cache first."""
    index = folder / names.index_name(base)
    if disk.exists(index):
        disk.unlink(index)
    disk.unlink(folder / names.segment_name(base))


def _missing(folder: Path, base: Offset, why: str) -> LogDamaged:
    return damaged(folder / names.segment_name(base), 0, base, f"the segment is missing: {why}")


def _half_mended(folder: Path, checkpoint: Checkpoint) -> LogDamaged:
    path = folder / names.CHECKPOINT
    return LogDamaged(
        f"{path} says that a repair which gave up {ranges_text(checkpoint.given_up)} was interrupted: run it again "
        "(`duramen log repair`)",
        file=str(path),
    )
