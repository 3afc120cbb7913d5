"""A server that knows everything that one may know of itself, as values."""

from __future__ import annotations

from collections.abc import Sequence

from duramen.server.sight.measures import Measures
from duramen.server.sight.observed import (
    CertificateExpiry,
    ConnectionCounts,
    DiskSpace,
    LogFacts,
    LogServerSeen,
    NodeSeen,
    Observed,
    PartitionStatus,
)
from log_tier.measures.histogram import BYTES, SECONDS, Histogram
from log_tier.measures.work_counts import DeliveryCounts, RespCounts

__all__ = ["measured_whole", "observed_whole"]

_LOG_CERTIFICATE = CertificateExpiry("log", "server", 3_000_000_500)


def observed_whole(tables: Sequence[str] = ("flights",), partitions: int = 2) -> Observed:
    """A server that knows everything that one may know."""
    return Observed(
        role="single",
        name="n1",
        version="0.1.0",
        pid=1,
        now_ms=1_000_000,
        uptime_s=3.5,
        catalog_version=7,
        partitions=tuple(
            PartitionStatus(table, number, "ready", first=0, last=9, applied=7, lag_s=0.25, ready=1)
            for table in tables
            for number in range(partitions)
        ),
        nodes=(NodeSeen("n1", "a:1", True, "", 2, 5 << 40, 6 << 40), NodeSeen("n2", "a:2", False, "gone", 3, 7, 8)),
        log=LogFacts(1, 2, 3, 4, 5, 6, None, queue_age_s=0.5, sync_p99_s=0.004),
        log_server=LogServerSeen("a:3", True, "", 1, 3 << 40, 4 << 40, None, (_LOG_CERTIFICATE,)),
        disk=DiskSpace("/data", 10 << 40, 20 << 40),
        memory_bytes=123,
        certificates=(CertificateExpiry("server", "server", 2_000_000_500),),
        connections=ConnectionCounts(1, 2, 3),
    )


def measured_whole() -> Measures:
    """Three values of each kind of work."""
    seconds, sizes = Histogram(SECONDS), Histogram(BYTES)
    for value in (0.0002, 0.02, 99.0):
        seconds.observe(value)
        sizes.observe(value)
    histograms = [name for name in Measures._fields if name not in ("watched", "resp")]
    return Measures(
        **{name: sizes.read() if name == "commit_bytes" else seconds.read() for name in histograms},
        watched=DeliveryCounts(2, 1000),
        resp=RespCounts(5, 50, 1, 4000, 3000, readers=2, readers_running=2, reader_commands=9000, reader_ends=0),
    )
