"""Counts of a log's work since it was opened."""

from __future__ import annotations

from dataclasses import dataclass

from log_tier.embedded.recovery.open_partition import RecoveryReport
from log_tier.measures.histogram import HistogramCounts

__all__ = ["EngineStatistics"]


@dataclass(frozen=True, slots=True)
class EngineStatistics:
    """Counts since the open."""

    topics: int
    appends: int
    """Batches that were acknowledged."""
    commits: int
    """Commits, in the writer thread or in a caller's: appends over commits is how well appends were grouped."""
    syncs: int
    """Syncs that made commits stable: of a segment, or of the journal. Syncs of files that grow are not counted."""
    bytes: int
    """Bytes of acknowledged batches."""
    tail_bytes: int
    """Bytes of memory that the newest batches take."""
    queued: int
    """Batches that wait for the disk now, `queued_bytes` in all."""
    queued_bytes: int
    queue_age_s: float
    """How long the oldest of them has waited, in seconds; 0.0: none waits."""
    commit_s: HistogramCounts
    """How long commits took, in seconds: from the first write until all is stable."""
    commit_bytes: HistogramCounts
    """How large they were."""
    stopped: str | None
    """Why the log acknowledges nothing more; None: it does."""
    recovery: RecoveryReport
    """The findings of recovery when the log was opened."""
