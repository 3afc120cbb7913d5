"""What a partition's files hold and lack: of the damaged log everything, of the copy what is near the holes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from log_tier.embedded.recovery.open_partition import RecoveryReport, look_at_partition
from log_tier.embedded.repair.facts import (
    BatchRun,
    CopyFacts,
    CopySegment,
    FoundBatch,
    Hole,
    Known,
    PartitionFacts,
    digest_of,
    end_of,
)
from log_tier.embedded.repair.segment_walk import NO_END, Gone, damage_in_words, walk_segment
from log_tier.embedded.segments.partition_state import PartitionState
from log_tier.embedded.segments.segment import Segment
from log_tier.embedded.segments.sparse_index import SparseIndex
from log_tier.embedded.storage.checkpoint import Checkpoint
from log_tier.embedded.storage.disk import Disk
from log_tier.embedded.storage.settings import EngineSettings
from log_tier.embedded.verification.segments import index_fault
from log_tier.model.identifiers import Offset, OffsetRange

__all__ = ["PartitionSurvey", "StaleIndex", "copy_range", "survey_copy", "survey_partition"]


class StaleIndex(NamedTuple):
    """The sparse index of a whole sealed segment, which is missing or wrong."""

    segment: Segment
    why: str
    entries: SparseIndex
    """What belongs into it."""


@dataclass(frozen=True, slots=True)
class PartitionSurvey:
    """What a partition's files hold, and which of its caches are wrong."""

    facts: PartitionFacts
    checkpoint: Checkpoint
    stale: list[StaleIndex] = field(default_factory=list)


def survey_partition(
    disk: Disk,
    folder: Path,
    name: str,
    settings: EngineSettings,
    *,
    proved_end: Offset,
    is_trim_known: bool,
    surely_compacted: Offset | None,
) -> PartitionSurvey:
    """Read a partition as the next start would find it; `disk` takes what recovery changes. Reads every byte.

    `is_trim_known`: does its checkpoint say where it begins? `surely_compacted`: of a checkpoint that was made anew,
    how far it was compacted at least. Raises `OSError`, `UnknownFormat`.
    """
    state = look_at_partition(folder, disk, settings, report=RecoveryReport(), proved_end=proved_end)
    items, stale, tail, at = _read(disk, state, settings)
    if stale and state.segments and stale[-1].segment is state.segments[-1] and state.damage is not None:
        # It is no proof of anything. Without it the partition may be whole.
        disk.unlink(stale[-1].segment.index_path)
        state = look_at_partition(folder, disk, settings, report=RecoveryReport(), proved_end=proved_end)
        items, others, tail, at = _read(disk, state, settings)
        stale = [*others, stale[-1]]
    has_newest = bool(state.segments) and state.segments[-1].base >= state.checkpoint.newest_segment
    known = _known_end(disk, state, proved_end)
    newest = state.segments[-1].base if has_newest else None
    end = max(at, known, Offset(at + 1) if state.lost and (not has_newest or state.segments[-1].end == at) else at)
    if end > at or any(isinstance(item, Hole) and item.segment == newest is not None for item in items):
        # Of a damaged newest file nothing may show where it ended: a copy does.
        why = "" if state.damage is None else damage_in_words(state.damage)
        is_newer = tail is not None and tail.is_newer
        is_doubtful = known <= at and not is_newer
        open_end = Hole(at, end, newest, why or "the log has lost its end", True, is_newer, is_doubtful)
        items.append(open_end)
    checkpoint = state.checkpoint
    if surely_compacted is not None:
        checkpoint = _with_compaction(checkpoint, items, surely_compacted)
    is_trimmed = checkpoint.earliest > 0 or not is_trim_known
    facts = PartitionFacts(name, items, _known_of(checkpoint), is_trimmed, end)
    return PartitionSurvey(facts, checkpoint, stale)


def _read(
    disk: Disk, state: PartitionState, settings: EngineSettings
) -> tuple[list[BatchRun | Hole], list[StaleIndex], Gone | None, Offset]:
    """All runs and holes but an open one, wrong indexes, what ends the newest file, and the offset after all."""
    checkpoint, segments = state.checkpoint, state.segments
    items: list[BatchRun | Hole] = []
    stale: list[StaleIndex] = []
    at, tail = checkpoint.earliest, None
    if segments and segments[0].base > at:
        items.append(Hole(at, segments[0].base, None, "the oldest segment is missing"))
    for segment, end in _with_ends(state):
        places: dict[int, int] = {}
        own, tail = _items_of(disk, segment, end, checkpoint.compacted, places)
        at = max([segment.base, *(_end(each) for each in own)])
        items += own
        if end == NO_END:
            stale += _foreign(disk, segment, places, own, checkpoint)
        elif not any(isinstance(each, Hole) for each in own):
            stale += _stale(disk, segment, places, settings.index_every_bytes)
    return items, stale, tail, max(at, checkpoint.newest_segment)


def copy_range(facts: PartitionFacts, compacted: Offset) -> tuple[Offset, Offset] | None:
    """From which offset up to which one the copy is needed: the batches around each hole, and everything compacted if a
    hole lies there. None: nothing is needed.
    """
    firsts: list[Offset] = []
    ends: list[Offset] = []
    for number, item in enumerate(facts.items):
        if isinstance(item, Hole):
            near = [*facts.items[max(0, number - 1) : number], *facts.items[number + 1 : number + 2]]
            firsts += [item.first, *(each.last.base_offset for each in near if isinstance(each, BatchRun))]
            ends += [NO_END if item.is_open else item.end]
            ends += [end_of(each.first) for each in near if isinstance(each, BatchRun)]
    if not firsts:
        return None
    first, end = min(firsts), max(ends)
    limit = max(facts.known.compacted, compacted)
    return (Offset(0), max(end, limit)) if min(hole.first for hole in facts.holes) < limit else (first, end)


def survey_copy(disk: Disk, folder: Path, settings: EngineSettings, facts: PartitionFacts) -> CopyFacts | None:
    """The copy's batches near the holes; None where it has nothing of this partition. `disk` takes what recovery would
    change in it. Reads whole segments. Raises `OSError`, `UnknownFormat`.
    """
    if not disk.exists(folder):
        return None
    state = look_at_partition(folder, disk, settings, report=RecoveryReport())
    segments, earliest = state.segments, state.checkpoint.earliest
    compacted = state.checkpoint.compacted
    needed = copy_range(facts, compacted)
    found: list[CopySegment] = []
    at = segments[0].base if segments else earliest
    for segment, end in _with_ends(state):
        if needed is not None and segment.base < needed[1] and end > needed[0]:
            found.append(_copied(disk, segment, end, compacted))
            at = max([at, *(each.end for each in found[-1].damaged), *(end_of(b.header) for b in found[-1].batches)])
        else:
            at = max(at, segment.end)
    if segments and segments[0].base > earliest:
        lost = OffsetRange(earliest, Offset(segments[0].base - 1))
        found.insert(0, CopySegment(earliest, (), (lost,)))
    return CopyFacts(found, earliest, at, _known_of(state.checkpoint))


def _with_ends(state: PartitionState) -> Iterator[tuple[Segment, Offset]]:
    """Each file with the offset below which its batches lie."""
    segments, newest = state.segments, state.checkpoint.newest_segment
    for segment, after in pairwise(segments):
        yield segment, after.base
    if segments:
        yield segments[-1], NO_END if segments[-1].base >= newest else newest


def _copied(disk: Disk, segment: Segment, end: Offset, compacted: Offset) -> CopySegment:
    batches: list[FoundBatch] = []
    damaged: list[OffsetRange] = []
    at = segment.base
    for found in walk_segment(disk, segment, end, compacted):
        if isinstance(found, FoundBatch):
            batches.append(found)
            at = end_of(found.header)
        elif found.end is not None and found.end > found.first:
            damaged.append(OffsetRange(found.first, Offset(found.end - 1)))
    if end != NO_END and at < end:
        damaged.append(OffsetRange(at, Offset(end - 1)))
    return CopySegment(segment.base, batches, damaged)


def _items_of(
    disk: Disk, segment: Segment, end: Offset, compacted: Offset, places: dict[int, int]
) -> tuple[list[BatchRun | Hole], Gone | None]:
    """A file's runs and holes, and the damage behind which nothing follows; fills in where each batch begins."""
    items: list[BatchRun | Hole] = []
    at, tail = segment.base, None
    for found in walk_segment(disk, segment, end, compacted):
        if isinstance(found, FoundBatch):
            places[found.header.base_offset] = found.position
            _add(items, segment.base, found, at)
            at = end_of(found.header)
        elif found.end is not None:
            items.append(Hole(found.first, found.end, segment.base, found.why, is_newer=found.is_newer))
            at = found.end
        else:
            tail = found
    if end != NO_END and (at < end or tail is not None):
        why = "the file ends here" if tail is None else tail.why
        items.append(Hole(at, end, segment.base, why, is_newer=tail is not None and tail.is_newer))
    return items, tail


def _add(items: list[BatchRun | Hole], base: Offset, found: FoundBatch, at: Offset) -> None:
    position, header = found
    is_compacted = header.base_offset > at or header.records < header.span
    last = items[-1] if items else None
    if isinstance(last, BatchRun):
        items[-1] = last._replace(
            end_position=position + header.length,
            last=header,
            digest=digest_of([header], last.digest),
            is_compacted=last.is_compacted or is_compacted,
        )
    else:
        digest = digest_of([header])
        items.append(BatchRun(base, position, position + header.length, header, header, digest, is_compacted))


def _known_of(checkpoint: Checkpoint) -> Known:
    each = checkpoint
    return Known(each.earliest, each.end, each.newest_segment, each.reserved_bytes, each.compacted, each.given_up)


def _end(item: BatchRun | Hole) -> Offset:
    return item.end if isinstance(item, Hole) else end_of(item.last)


def _known_end(disk: Disk, state: PartitionState, proved_end: Offset) -> Offset:
    """The end that the partition is known to have had, by more than the length of a file."""
    known = max(state.checkpoint.end, proved_end)
    if state.damage is None or not state.segments:
        return known
    index = state.segments[-1].load_index(disk)
    return Offset(max(known, index.entry(-1)[0] + 1 if len(index) else 0))


def _with_compaction(checkpoint: Checkpoint, items: Iterable[BatchRun | Hole], sure: Offset) -> Checkpoint:
    """A checkpoint that was lost may have named a compaction: what is left shows whether there was one at all."""
    runs = [each for each in items if isinstance(each, BatchRun)]
    return checkpoint if any(each.is_compacted for each in runs) else replace(checkpoint, compacted=sure)


def _foreign(
    disk: Disk, segment: Segment, places: dict[int, int], items: list[BatchRun | Hole], checkpoint: Checkpoint
) -> Iterator[StaleIndex]:
    """The index of the newest file, where an entry for a whole batch is not of this file, or is of an offset behind the
    end that a clean close has left.
    """
    index, last = segment.load_index(disk), items[-1] if items else None
    whole = [(each.first.base_offset, end_of(each.last)) for each in items if isinstance(each, BatchRun)]
    is_as_closed = isinstance(last, BatchRun) and (checkpoint.clean_bytes, checkpoint.end) == (
        last.end_position,
        end_of(last.last),
    )
    for offset, position in map(index.entry, range(len(index))):
        is_ours = places.get(offset) == position
        if not is_ours and (is_as_closed or any(first <= offset < end for first, end in whole)):
            why = f"no batch at byte {position} begins with offset {offset}"
            yield StaleIndex(segment, why, SparseIndex())
            return


def _stale(disk: Disk, segment: Segment, places: dict[int, int], every_bytes: int) -> Iterator[StaleIndex]:
    why, _ = index_fault(disk, segment.index_path, segment, places)
    if why:
        index, indexed = SparseIndex(), 0
        for offset, position in places.items():
            if position - indexed >= every_bytes:
                index.add(offset, position)
                indexed = position
        yield StaleIndex(segment, why, index)
