"""What a log did since it was opened."""

from __future__ import annotations

from dataclasses import dataclass

from log_tier.embedded.recovery.open_partition import RecoveryReport

__all__ = ["EngineStatistics"]


@dataclass(frozen=True, slots=True)
class EngineStatistics:
    """Counts since the open."""

    topics: int
    appends: int
    """Batches that were acknowledged."""
    commits: int
    """Rounds of the writer thread: appends over commits is how well they were grouped."""
    syncs: int
    """Partitions written, summed over commits; each cost one sync, or a few where its file grew."""
    bytes: int
    """Bytes of acknowledged batches."""
    tail_bytes: int
    """What the newest batches in memory take."""
    recovery: RecoveryReport
    """What opening found."""
