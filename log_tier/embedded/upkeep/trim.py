"""Giving up the oldest segments of a partition."""

from __future__ import annotations

from collections.abc import Callable

from log_tier.embedded.recovery.open_partition import remove_segment
from log_tier.embedded.segments.partition_log import PartitionLog
from log_tier.model.identifiers import Offset

__all__ = ["trim_partition"]


def trim_partition(
    partition: PartitionLog, before: Offset, *, in_writer: Callable[[Callable[[], None]], None]
) -> Offset:
    """Remove the segments that lie wholly below `before`, never the newest; return the earliest offset left.

    First it is written down that they are given up, then they go: a crash in between is finished at the next open, and
    files that vanish in any other way are noticed as missing. Raises `OSError`.
    """
    partition.check_readable()
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
    with partition.lock:
        given_up = partition.segments[:keep]
        del partition.segments[:keep]
    for segment in given_up:
        remove_segment(partition.disk, partition.folder, segment.base)
    partition.disk.sync_folder(partition.folder)
    return earliest
