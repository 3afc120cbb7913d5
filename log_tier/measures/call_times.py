"""How long the requests of clients took, at the part of a server that carries them out."""

from __future__ import annotations

from log_tier.measures.histogram import SECONDS, Histogram

__all__ = ["CallTimes"]


class CallTimes:
    """One histogram for each kind of request, in seconds. A request may carry the calls of many callers."""

    __slots__ = ("reads", "scans", "waits", "writes")

    def __init__(self) -> None:
        self.reads = Histogram(SECONDS)
        """Requests for keys, until all of them were answered or had failed."""
        self.waits = Histogram(SECONDS)
        """The time that those among them waited for replicas; only those that had to."""
        self.writes = Histogram(SECONDS)
        """Requests to write, until all was on stable storage or had failed; without waiting for verdicts."""
        self.scans = Histogram(SECONDS)
        """Pages of scans."""
