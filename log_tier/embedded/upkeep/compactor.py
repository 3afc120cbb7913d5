"""Carrying out a compaction: sealed segments are rewritten, one at a time, whole or not at all.

A new file is written under a temporary name, synced, and renamed over the old one. What goes is decided for all
segments before the first is rewritten, and they are rewritten from the oldest on. So a crash leaves some segments
compacted and the newer ones not yet, and that is right too: a delete never goes before the older records that it
removes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from log_tier.embedded.segments.partition_log import PartitionLog
from log_tier.embedded.segments.segment import Segment, read_runs
from log_tier.embedded.segments.sparse_index import SparseIndex
from log_tier.embedded.storage import names
from log_tier.embedded.upkeep.compaction import CompactionPlan, shrink_batch
from log_tier.model.batch import decode_batch
from log_tier.model.batch_header import BatchHeader, place_of, split_batches
from log_tier.model.identifiers import Offset

__all__ = ["compact_partition"]


def compact_partition(
    partition: PartitionLog,
    below: Offset,
    *,
    now_ms: int,
    tombstone_ms: int,
    in_writer: Callable[[Callable[[], None]], None],
) -> int:
    """Drop what later records below `below` made void, in sealed segments that lie wholly below it; return how many.

    The checkpoint says first below which offset no state can be had any more. `in_writer`: as for `trim_partition`.
    Reads those segments twice, once for headers and once whole, and a third time where one changes. Raises `LogDamaged`
    where one of them cannot be read, `OSError` where a new one cannot be written; nothing is lost by either.
    """
    if len(partition.segments) > 1:
        partition.wake()
    partition.check_writable()
    with partition.lock:
        segments = [segment for segment in partition.segments[:-1] if segment.end <= below]
    if not segments:
        return 0
    place = place_of(partition.id)
    plan = CompactionPlan(now_ms=now_ms, tombstone_ms=tombstone_ms, from_start=segments[0].base == 0)
    for segment in segments:
        for header, _ in _batches(partition, segment):
            plan.survey(header)
    for segment in reversed(segments):
        # A segment's batches are held whole while they are judged from the last to the first.
        for _, batch in reversed(list(_batches(partition, segment))):
            plan.judge(decode_batch(batch, place))
    bases = [segment.base for segment in segments]
    changed = sorted({bisect_right(bases, offset) - 1 for offset in plan.changed()})
    if changed and partition.checkpoint.compacted < segments[-1].end:
        in_writer(lambda: partition.save_checkpoint(compacted=segments[-1].end))
    dropped = sum(_rewrite(partition, segments[number], plan) for number in changed)
    partition.tail.hide_below(segments[-1].end)
    return dropped


def _batches(partition: PartitionLog, segment: Segment) -> Iterator[tuple[BatchHeader, bytes]]:
    for _, run in read_runs(partition.disk, segment, partition.checkpoint.may_lack):
        if run.damage is not None:
            raise run.damage
        yield from zip((header for _, header in run.batches), split_batches(run.data), strict=True)


def _rewrite(partition: PartitionLog, segment: Segment, plan: CompactionPlan) -> int:
    """Replace a segment by one without what the plan drops; return how many records that were."""
    disk = partition.disk
    part = segment.path.with_name(segment.path.name + names.PART)
    try:
        smaller, dropped = _write_smaller(partition, segment, plan, part)
    except OSError:
        with suppress(OSError):  # it may not have been made; what is left is removed at the next open
            disk.unlink(part)
        raise
    if disk.exists(segment.index_path):
        disk.unlink(segment.index_path)
    with partition.naming:  # a reader that opens the file by its name has the facts that go with it
        disk.rename(part, segment.path)
        with partition.lock:
            partition.segments[partition.segments.index(segment)] = smaller
    disk.sync_folder(partition.folder)
    partition.index_writer.rewrite(smaller)
    return dropped


def _write_smaller(partition: PartitionLog, segment: Segment, plan: CompactionPlan, part: Path) -> tuple[Segment, int]:
    index, position, indexed, dropped = SparseIndex(), 0, 0, 0
    place = place_of(partition.id)
    file = partition.disk.open(part, write=True, create=True)
    try:
        file.truncate(0)
        for header, batch in _batches(partition, segment):
            may_go = header.base_offset + header.span != segment.end and not plan.needs_shell(header)
            mask = plan.kept(header)
            if mask is not None:
                dropped += mask.count(0)
                if may_go and 1 not in mask:
                    continue
                batch = shrink_batch(decode_batch(batch, place), mask, place)
            elif may_go and not header.records:
                # A shell of an earlier compaction, whose producer has written since.
                continue
            if position - indexed >= partition.settings.index_every_bytes:
                index.add(header.base_offset, position)
                indexed = position
            file.pwrite((batch,), position)
            position += len(batch)
        file.fdatasync()
    finally:
        file.close()
    return Segment(partition.folder, segment.base, segment.end, position, segment.newest_ms, index), dropped
