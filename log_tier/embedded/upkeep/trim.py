"""Giving up the oldest segments of a partition."""

from __future__ import annotations

from collections.abc import Callable

from log_tier.embedded.recovery.open_partition import remove_segment
from log_tier.embedded.segments.partition_log import PartitionLog
from log_tier.model.identifiers import Offset
from log_tier.model.retention import Retention, SegmentFacts, retained_from

__all__ = ["retain_partition", "trim_partition"]


def retain_partition(
    partition: PartitionLog,
    retention: Retention,
    *,
    now_ms: int,
    below: Offset,
    in_writer: Callable[[Callable[[], None]], None],
) -> Offset:
    """Remove the segments that the bounds let go; return the earliest offset left. As `trim_partition`."""
    partition.check_readable()
    with partition.lock:
        facts = [SegmentFacts(each.end, each.bytes, each.newest_ms) for each in partition.segments]
    before = retained_from(facts, retention, now_ms=now_ms, below=below)
    return trim_partition(partition, Offset(0) if before is None else before, in_writer=in_writer)


def trim_partition(
    partition: PartitionLog, before: Offset, *, in_writer: Callable[[Callable[[], None]], None]
) -> Offset:
    """Remove the segments that lie wholly below `before`, never the newest; return the earliest offset left.

    The checkpoint records the removal before the files go: after a crash in between, the next open removes the rest,
    and notices files that vanished in any other way as missing. Raises `OSError`.
    """
    partition.check_readable()
    if len(partition.segments) > 1:
        partition.wake()
    with partition.lock:
        segments = partition.segments
        keep = 0
        while keep + 1 < len(segments) and segments[keep + 1].base <= before:
            keep += 1
        if keep == 0:
            return segments[0].base if segments else Offset(0)
        earliest = segments[keep].base
    # The writer thread writes checkpoints too, when it begins a segment.
    in_writer(lambda: partition.save_checkpoint(earliest=earliest))
    with partition.naming, partition.lock:  # a reader that has found one of them has opened it
        given_up = partition.segments[:keep]
        del partition.segments[:keep]
    for segment in given_up:
        remove_segment(partition.disk, partition.folder, segment.base)
    partition.disk.sync_folder(partition.folder)
    return earliest
