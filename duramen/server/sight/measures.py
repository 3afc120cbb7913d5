"""What a server has measured of its own work: a value, read from the histograms of its parts. Pure."""

from __future__ import annotations

from typing import NamedTuple

from log_tier.measures.histogram import HistogramCounts

__all__ = ["Measures"]


class Measures(NamedTuple):
    """One histogram for each kind of work; None: this role does none of it. Seconds but for `commit_bytes`."""

    commit_s: HistogramCounts | None = None
    commit_bytes: HistogramCounts | None = None
    reads: HistogramCounts | None = None
    waits: HistogramCounts | None = None
    writes: HistogramCounts | None = None
    scans: HistogramCounts | None = None
    applies: HistogramCounts | None = None
    snapshots: HistogramCounts | None = None
