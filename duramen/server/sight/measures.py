"""What a server has measured and counted of its own work: a value, read from its parts. Pure."""

from __future__ import annotations

from typing import NamedTuple

from log_tier.measures.histogram import HistogramCounts
from log_tier.measures.work_counts import DeliveryCounts, RespCounts

__all__ = ["Measures"]


class Measures(NamedTuple):
    """One histogram for each kind of work, in seconds but for `commit_bytes`, and what else is counted; None: this role
    does none of it.
    """

    commit_s: HistogramCounts | None = None
    commit_bytes: HistogramCounts | None = None
    reads: HistogramCounts | None = None
    waits: HistogramCounts | None = None
    writes: HistogramCounts | None = None
    scans: HistogramCounts | None = None
    applies: HistogramCounts | None = None
    snapshots: HistogramCounts | None = None
    watches: HistogramCounts | None = None
    watched: DeliveryCounts | None = None
    resp: RespCounts | None = None
