"""What one observation of a server found, as values. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

__all__ = [
    "AuditSeen",
    "CertificateExpiry",
    "ConnectionCounts",
    "DiskSpace",
    "LogFacts",
    "LogPlace",
    "LogServerSeen",
    "NodeSeen",
    "Observed",
    "PartitionStatus",
    "SightRole",
]

LogPlace = Literal["here", "server", "kafka"]
"""In this process, at another server of Duramen, or at Kafka's brokers, who cannot be asked how they are."""

SightRole = Literal["single", "node", "router", "log"]


class AuditSeen(NamedTuple):
    """What somebody who audited an export or a session has found of a partition (`log_tier.tally.audit_note`)."""

    tier: str
    """export, session."""
    name: str
    rows: int
    until: int
    """The last offset that was compared."""
    verdict: str
    """equal, different, not compared."""
    reason: str
    checked_ms: int
    """When it was noted, by the catalog's log."""


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One partition: at a node its replica there, at a router the best of its replicas that answer."""

    table: str
    partition: int
    state: str
    """bootstrapping, replaying, ready, behind, stopped, and at a router lost."""
    first: int | None
    """The earliest offset that the log still has; None where the log is in another process."""
    last: int
    """The newest offset on stable storage, as far as this server knows; -1: nothing yet."""
    applied: int
    """The newest offset that reads see."""
    lag_s: float
    """How long it has not been level with the log."""
    reason: str = ""
    """Why it is not ready."""
    ready: int = 0
    """How many of its replicas that this server knows are ready."""
    wanted: int = 1
    """How many should be: 1 at a node."""
    damaged: bool = False
    """It stopped here because of damage; a router does not know."""
    proven: int = -1
    """Up to here what was folded was compared with what the log holds; at a router: at each node that answers."""
    differs: str = ""
    """The offsets at which it is not what the log holds, in words; empty: none were found."""
    audits: tuple[AuditSeen, ...] = ()
    """Of its exports and of clients' sessions: of each tier the newest, and all that differ."""

    @property
    def is_readable(self) -> bool:
        """Is it read, here or, at a router, at a node? One that is behind is."""
        return self.state in ("ready", "behind")

    @property
    def audited_differently(self) -> str:
        """Which export or session differs, and where; empty: none does."""
        different = (each for each in self.audits if each.verdict == "different")
        return next((f"{each.tier} {each.name}: {each.reason}" for each in different), "")

    @property
    def lag_records(self) -> int:
        """How many records are not applied."""
        return max(0, self.last - self.applied)

    @property
    def name(self) -> str:
        """The partition as commands write it."""
        return f"{self.table}/{self.partition}"


@dataclass(frozen=True, slots=True)
class LogFacts:
    """The log in this process."""

    queued_batches: int
    """Batches that wait for the disk."""
    queued_bytes: int
    appends: int
    """Acknowledged batches since the start; `bytes`: their bytes."""
    bytes: int
    commits: int
    syncs: int
    stopped: str | None
    """Why it acknowledges nothing more; None: it does."""
    queue_age_s: float = 0.0
    """How long the oldest batch that is not acknowledged has waited."""
    damages: int = 0
    """Places of damage that opening it has found."""
    sync_p99_s: float | None = None
    """What 99 of 100 commits of the last ten seconds did not exceed, write and sync; None: there was none."""


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """The file system of the data folder."""

    folder: str
    free_bytes: int
    full_bytes: int
    """The size of the whole file system."""


@dataclass(frozen=True, slots=True)
class CertificateExpiry:
    """One certificate of the folder of `--certs`."""

    name: str
    kind: str
    """ca, server or user."""
    expires_ms: int
    """Milliseconds since 1970: the last second at which it is valid."""


@dataclass(frozen=True, slots=True)
class ConnectionCounts:
    """What clients have open."""

    streams: int
    """Streams of gRPC: watches, maps, status, reads of logs. `streams_max`: how many there may be."""
    streams_max: int
    requests: int | None
    """Reads and writes under way over gRPC; None: this role does not count them."""


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """A serving node as a router sees it."""

    node: str
    address: str
    alive: bool
    reason: str
    """Why it counts as lost."""
    clock_skew_s: int = 0
    """Its wall clock minus that of the router, when it said something last. Whole seconds: less differs with
    each message.
    """
    disk_free_bytes: int | None = None
    disk_full_bytes: int | None = None
    """Of its data folder's file system, what is free and its size, by its status stream. None: it said nothing yet."""


@dataclass(frozen=True, slots=True)
class LogServerSeen:
    """The server that owns the log, in another process, as a router or a node sees it."""

    address: str
    alive: bool
    """Did it answer the last question? What follows is of the last time that it did."""
    reason: str
    """Why it did not."""
    clock_skew_s: int = 0
    """As of `NodeSeen`."""
    disk_free_bytes: int | None = None
    disk_full_bytes: int | None = None
    """As of `NodeSeen`, of the log's data folder."""
    stopped: str | None = None
    """Why it acknowledges nothing more; None: it does."""
    certificates: tuple[CertificateExpiry, ...] = ()
    """The CA's and its own. They hold while it is silent, and may be why it is."""
    queue_age_s: float | None = None
    queued_batches: int | None = None
    queued_bytes: int | None = None
    """As of `LogFacts`. None: an older server does not say."""
    sync_p99_s: float | None = None
    """As of `LogFacts`."""


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything that one observation found; a field without a value here is not known to this role."""

    role: SightRole
    name: str
    """A node's id, else the role."""
    version: str
    """The release of Duramen."""
    pid: int
    now_ms: int
    """The server's wall clock, milliseconds since 1970."""
    uptime_s: float
    catalog_version: int | None
    """Of the map that it follows; None: a log follows none."""
    partitions: tuple[PartitionStatus, ...] = ()
    nodes: tuple[NodeSeen, ...] = ()
    log: LogFacts | None = None
    log_place: LogPlace | None = None
    log_server: LogServerSeen | None = None
    """None as well: the log is in this process, or no server of Duramen, or was not asked yet."""
    disk: DiskSpace | None = None
    memory_bytes: int | None = None
    """Memory of the process that is in use, its pages of index files included."""
    certificates: tuple[CertificateExpiry, ...] = ()
    connections: ConnectionCounts | None = None

    @property
    def sync_p99_s(self) -> float | None:
        """Of the log, here or at its server; None: it is not known, or there was no commit lately."""
        if self.log is not None:
            return self.log.sync_p99_s
        return self.log_server.sync_p99_s if self.log_server is not None and self.log_server.alive else None

    @property
    def queue_age_s(self) -> float | None:
        """As `sync_p99_s`: how long the oldest batch that is not acknowledged has waited; None: it is not known."""
        if self.log is not None:
            return self.log.queue_age_s
        return self.log_server.queue_age_s if self.log_server is not None and self.log_server.alive else None
