"""What an operator may choose about the embedded engine; every number comes with its reason."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from log_tier.concurrency.clocks import SYSTEM_CLOCK
from log_tier.concurrency.workers import THREADS, Workers
from log_tier.model.batch_header import BATCH_BYTES_MAX

__all__ = [
    "PREALLOCATION_BYTES_MIN",
    "PREALLOCATION_FACTOR",
    "TOPICS_MAX",
    "ClockMs",
    "EngineSettings",
    "Entropy",
]

# One folder and one small file each, all read when the log opens: ten thousand take about a second.
TOPICS_MAX: Final = 10_000

# A segment's file grows from here, fourfold to 1 MiB and then by doubling to its full size: five thousand tables of one
# record reserve 80 MiB, and a busy one pays for nine growths in the life of a segment.
PREALLOCATION_BYTES_MIN: Final = 16 << 10
PREALLOCATION_FACTOR: Final = 4

ClockMs = Callable[[], int]
"""Milliseconds since 1970. May jump; a partition's log time never falls all the same."""

Entropy = Callable[[int], bytes]
"""Draws the given number of random bytes."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Sizes and bounds of an embedded log."""

    segment_bytes: int = 64 << 20
    """Full size of a segment. Retention and compaction work on whole segments: smaller ones free space sooner and cost
    more files. A batch larger than this gets a segment of its own."""
    index_every_bytes: int = 64 << 10
    """Distance of two entries of the sparse index: what a cold read scans before it finds its offset."""
    journal_bytes: int = 16 << 20
    """Bytes for frames in each of the two journal files. A busy server fills one in about a second, in which the
    segments of the other one are synced; reading both at open takes some 20 ms."""
    queue_bytes_max: int = 64 << 20
    """Bytes that may wait for the writer thread: four of the largest batches, a tenth of a second of a fast disk."""
    queue_batches_max: int = 16_384
    """Batches that may wait: at two syncs a millisecond and one batch each, several seconds."""
    tail_bytes_max: int = 32 << 20
    """Newest batches kept in memory over all partitions, so that followers read without the disk."""
    tombstone_ms: int = 7 * 86_400_000
    """Age under which compaction keeps a delete that nothing older needs any more: a replica that is restored from a
    younger snapshot still learns of the delete."""
    open_segments_max: int = 0
    """Segment files that stay open for writing; 0: this log's share of the process' limit
    (`log_tier.concurrency.descriptors`)."""
    summary_partitions_min: int = 256
    """A clean close of fewer partitions leaves no summary: the next open looks at the files of all of them, some 0.3 ms
    each, and finds what is wrong before anybody uses them."""
    quick_commit_s: float = 0.0005
    """A commit that takes no longer is quick; while all are, a caller may make one in its own thread. Half a
    millisecond is what an event loop spends on some dozens of requests anyway. 0: no commit is quick."""
    random_bytes: Entropy = os.urandom
    """Draws topic ids."""
    workers: Workers = THREADS
    """Supplies the writer's thread, and the threads that sync and close files."""
    stopwatch_s: Callable[[], float] = SYSTEM_CLOCK.monotonic_s
    """The clock that times commits, in seconds."""

    def __post_init__(self) -> None:
        if not 1 << 10 <= self.segment_bytes <= 1 << 31:
            raise ValueError(f"segment_bytes is {self.segment_bytes}; 1 KiB to 2 GiB are possible")
        if self.queue_bytes_max < BATCH_BYTES_MAX:
            raise ValueError(f"queue_bytes_max is {self.queue_bytes_max}; one batch may have {BATCH_BYTES_MAX} bytes")
        if min(self.index_every_bytes, self.queue_batches_max, self.tombstone_ms) < 1 or self.tail_bytes_max < 0:
            raise ValueError("index_every_bytes, queue_batches_max and tombstone_ms are 1 or more, tail_bytes_max 0")
