"""The status document and what a server has measured, as metrics for Prometheus. Pure.

The library writes the text; which metrics there are is here alone, and docs/OPERATIONS.md lists them. A partition has
at most ten series and so has a node: nothing is per key, per connection or per user.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, exposition
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from duramen.server.sight.measures import Measures
from duramen.server.sight.observed import (
    CertificateExpiry,
    LogFacts,
    LogServerSeen,
    NodeSeen,
    Observed,
    PartitionStatus,
)
from duramen.server.sight.status_document import StatusDocument
from duramen.server.sight.troubles import TROUBLE_KINDS
from log_tier.measures.histogram import HistogramCounts
from log_tier.measures.work_counts import RespCounts

__all__ = ["SERIES_MAX", "MetricsText", "metrics_to_text"]

SERIES_MAX: Final = 10
"""Of one partition, and of one node."""

_OPENMETRICS: Final = "application/openmetrics-text"


class MetricsText(NamedTuple):
    """All metrics of a server."""

    body: bytes
    content_type: str


def metrics_to_text(status: StatusDocument, measures: Measures, accepted: str = "") -> MetricsText:
    """The metrics in the form that the header `Accept` asks for: OpenMetrics, or else Prometheus' text. O(partitions),
    some 0.15 ms each.
    """
    # Of a request's own, so that no other server of this process, and nothing of the library's, is in it.
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Status(status, measures))
    if _OPENMETRICS in accepted.lower():
        body = openmetrics.generate_latest(registry)  # type: ignore[no-untyped-call]
        return MetricsText(body, f"{_OPENMETRICS}; version=1.0.0; charset=utf-8")
    return MetricsText(exposition.generate_latest(registry), "text/plain; version=0.0.4; charset=utf-8")


class _Status(Collector):
    """One look at a server, as the library wants it."""

    def __init__(self, status: StatusDocument, measures: Measures) -> None:
        self._status = status
        self._measures = measures

    def describe(self) -> Sequence[Metric]:
        """No names in advance: nothing else is in the registry."""
        return ()

    def collect(self) -> Iterator[Metric]:
        observed = self._status.observed
        yield from _of_the_server(self._status)
        if observed.log is not None:
            yield from _of_the_log(observed.log)
        if observed.log_server is not None:
            yield from _of_the_logs_server(observed.log_server)
        yield from _of_partitions(observed)
        yield from _of_nodes(observed.nodes)
        yield from _of_work(self._measures)


def _of_the_server(status: StatusDocument) -> Iterator[Metric]:
    observed = status.observed
    about = {"role": observed.role, "name": observed.name, "version": observed.version}
    yield InfoMetricFamily("duramen_build", "What this server is; always 1.", value=about)
    yield _gauge("duramen_ready", "1: it answers everything that it should; 0: it does not.", status.ready)
    there = {each.kind for each in status.troubles}
    yield _labelled(
        "duramen_trouble",
        "1: `duramen status` reports such a trouble.",
        ("kind",),
        [((kind,), float(kind in there)) for kind in TROUBLE_KINDS],
    )
    yield _gauge("duramen_uptime_seconds", "Time since the server began.", observed.uptime_s)
    if observed.catalog_version is not None:
        known = "The newest command of the catalog that it knows."
        yield _gauge("duramen_catalog_version", known, observed.catalog_version)
    if observed.memory_bytes is not None:
        about_memory = "Memory of the process that is in use, pages of index files included."
        yield _gauge("duramen_memory_resident_bytes", about_memory, observed.memory_bytes)
    if observed.disk is not None:
        yield _gauge("duramen_disk_free_bytes", "Free space of the data folder's disk.", observed.disk.free_bytes)
        yield _gauge("duramen_disk_size_bytes", "The size of that disk.", observed.disk.full_bytes)
    if observed.connections is not None:
        counts = observed.connections
        yield _gauge("duramen_streams", "Streams of gRPC that are open.", counts.streams)
        yield _gauge("duramen_streams_max", "How many may be open.", counts.streams_max)
        if counts.requests is not None:
            yield _gauge("duramen_requests_under_way", "Reads and writes under way over gRPC.", counts.requests)
    yield from _expiries("duramen_certificate_expiry_timestamp_seconds", observed.certificates)


def _expiries(metric: str, certificates: Sequence[CertificateExpiry]) -> Iterator[Metric]:
    ends = {(each.name, each.kind): each.expires_ms / 1000 for each in certificates}
    if ends:
        about = "When the certificate expires, in seconds since 1970."
        yield _labelled(metric, about, ("name", "kind"), list(ends.items()))


def _of_the_log(log: LogFacts) -> Iterator[Metric]:
    yield _gauge("duramen_log_writable", "1: the log takes appends; 0: it acknowledges nothing more.", not log.stopped)
    yield _gauge("duramen_log_damages", "Places of damage that opening the log has found.", log.damages)
    yield _gauge("duramen_log_queued_batches", "Batches that wait for the disk.", log.queued_batches)
    yield _gauge("duramen_log_queued_bytes", "Bytes of batches that wait for the disk.", log.queued_bytes)
    yield _gauge("duramen_log_queue_age_seconds", "How long the oldest of them has waited.", log.queue_age_s)
    yield CounterMetricFamily("duramen_log_appends", "Batches that were acknowledged.", log.appends)
    yield CounterMetricFamily("duramen_log_appended_bytes", "Bytes of acknowledged batches.", log.bytes)
    yield CounterMetricFamily("duramen_log_commits", "Commits: groups of batches.", log.commits)
    yield CounterMetricFamily("duramen_log_syncs", "Syncs that made commits stable.", log.syncs)


def _of_the_logs_server(server: LogServerSeen) -> Iterator[Metric]:
    """The log of another process. What one that is silent said last is not how it is now, but of its certificates."""
    yield _gauge("duramen_log_server_up", "1: the log's server, another process, answers this one.", server.alive)
    yield from _expiries("duramen_log_server_certificate_expiry_timestamp_seconds", server.certificates)
    if not server.alive:
        return
    writable = "1: its log takes appends; 0: it acknowledges nothing more."
    yield _gauge("duramen_log_server_writable", writable, server.stopped is None)
    skew = "Its wall clock minus that of this server, in whole seconds."
    yield _gauge("duramen_log_server_clock_skew_seconds", skew, server.clock_skew_s)
    if server.disk_free_bytes is not None and server.disk_full_bytes is not None:
        yield _gauge("duramen_log_server_disk_free_bytes", "Free space of its log's disk.", server.disk_free_bytes)
        yield _gauge("duramen_log_server_disk_size_bytes", "The size of that disk.", server.disk_full_bytes)


_NODE_GAUGES: Final[tuple[tuple[str, str, Callable[[NodeSeen], float | None]], ...]] = (
    ("up", "1: the node answers this router.", lambda each: float(each.alive)),
    (
        "clock_skew_seconds",
        "Its wall clock minus the router's, in whole seconds.",
        lambda each: each.clock_skew_s if each.alive else None,
    ),
    (
        "disk_free_bytes",
        "Free space of its data folder's disk.",
        lambda each: each.disk_free_bytes if each.alive else None,
    ),
    ("disk_size_bytes", "The size of that disk.", lambda each: each.disk_full_bytes if each.alive else None),
)


def _of_nodes(nodes: Sequence[NodeSeen]) -> Iterator[Metric]:
    """As a router sees them. What a lost node said last is not how it is now."""
    for name, text, value_of in _NODE_GAUGES:
        found = [((each.node,), float(value)) for each in nodes if (value := value_of(each)) is not None]
        if found:
            yield _labelled(f"duramen_node_{name}", text, ("node",), found)


_PARTITION_GAUGES: Final[tuple[tuple[str, str, Callable[[PartitionStatus], float | None]], ...]] = (
    ("readable", "1: it is read here; at a router: at a node at least.", lambda each: float(each.is_readable)),
    ("damaged", "1: its replica here stopped because of damage.", lambda each: float(each.damaged)),
    (
        "different",
        "1: it, or a watch of it, is not what the log holds; or an audit found that an export or a session is not.",
        lambda each: float(bool(each.differs or each.audited_differently)),
    ),
    ("first_offset", "The earliest offset that the log has.", lambda each: each.first),
    ("last_offset", "The newest offset on stable storage; -1: nothing yet.", lambda each: each.last),
    ("applied_offset", "The newest offset that reads see.", lambda each: each.applied),
    ("lag_records", "Records of the log that are not applied.", lambda each: each.lag_records),
    ("lag_seconds", "How long it has not been level with the log.", lambda each: each.lag_s),
    ("ready_replicas", "Replicas that are ready, of those that this server knows.", lambda each: each.ready),
    ("wanted_replicas", "How many there should be; 1 at a node.", lambda each: each.wanted),
)


def _of_partitions(observed: Observed) -> Iterator[Metric]:
    for name, text, value_of in _PARTITION_GAUGES:
        found = [
            ((each.table, str(each.partition)), float(value))
            for each in observed.partitions
            if (value := value_of(each)) is not None
        ]
        if found:
            yield _labelled(f"duramen_partition_{name}", text, ("table", "partition"), found)


def _of_work(measures: Measures) -> Iterator[Metric]:
    named = (
        ("duramen_write_seconds", "Requests to write, until all is stable.", measures.writes),
        ("duramen_read_seconds", "Requests for keys, until all are answered.", measures.reads),
        ("duramen_read_wait_seconds", "Waits for replicas, of reads that had to wait.", measures.waits),
        ("duramen_scan_seconds", "Pages of scans.", measures.scans),
        ("duramen_log_commit_seconds", "Commits: write and sync.", measures.commit_s),
        ("duramen_log_commit_size_bytes", "Bytes of a commit.", measures.commit_bytes),
        ("duramen_apply_seconds", "Turns of the thread that folds the log into indexes.", measures.applies),
        ("duramen_watch_seconds", "Chunks of watches, until their subscriber took them.", measures.watches),
        ("duramen_snapshot_seconds", "Snapshots, until they were stored and read back.", measures.snapshots),
    )
    for name, text, counts in named:
        if counts is not None:
            yield _histogram(name, text, counts)
    if measures.watched is not None:
        yield _gauge("duramen_watches", "Watches that are open here.", measures.watched.open)
        passed = "Offsets of the log that were passed on to watches."
        yield CounterMetricFamily("duramen_watched_offsets", passed, measures.watched.offsets)
    if measures.resp is not None:
        yield from _of_resp(measures.resp)


def _of_resp(counts: RespCounts) -> Iterator[Metric]:
    yield _gauge("duramen_resp_connections", "Connections of the Redis protocol that are open.", counts.connections)
    opened = "Connections of the Redis protocol that were opened."
    yield CounterMetricFamily("duramen_resp_connections_opened", opened, counts.connections_taken)
    refused = "Of them, those that were refused because there were too many."
    yield CounterMetricFamily("duramen_resp_connections_refused", refused, counts.connections_refused)
    commands = CounterMetricFamily(
        "duramen_resp_commands", "Commands of the Redis protocol that were answered.", labels=("process",)
    )
    commands.add_metric(("server",), counts.commands)
    if counts.readers:
        commands.add_metric(("readers",), counts.reader_commands)
    yield commands
    at_once = "Reads, and runs of them, that the server answered at once from an index."
    yield CounterMetricFamily("duramen_resp_direct_reads", at_once, counts.direct_reads)
    if counts.readers:
        yield _gauge("duramen_resp_readers", "Reader processes that there should be.", counts.readers)
        yield _gauge("duramen_resp_readers_running", "Reader processes that run.", counts.readers_running)
        ends = "Reader processes that ended by themselves."
        yield CounterMetricFamily("duramen_resp_reader_ends", ends, counts.reader_ends)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, float(value))


def _labelled(
    name: str, text: str, labels: Sequence[str], found: Sequence[tuple[tuple[str, ...], float]]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=labels)
    for values, value in found:
        family.add_metric(values, value)
    return family


def _histogram(name: str, text: str, counts: HistogramCounts) -> Metric:
    bounds = [*map(floatToGoString, counts.bounds), "+Inf"]
    return HistogramMetricFamily(name, text, list(zip(bounds, counts.counts, strict=True)), counts.total)
