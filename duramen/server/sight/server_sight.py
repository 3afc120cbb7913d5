"""From a running server to what was observed of it: replicas, log, disk, memory, certificates."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from duramen.server.sight.log_watch import LogWatch
from duramen.server.sight.measures import Measures
from duramen.server.sight.observed import (
    AuditSeen,
    CertificateExpiry,
    ConnectionCounts,
    DiskSpace,
    LogFacts,
    LogPlace,
    NodeSeen,
    Observed,
    PartitionStatus,
    SightRole,
)
from duramen.server.sight.status_document import StatusDocument, status_of_server, status_to_json
from duramen.server.wiring.server_certificates import ServerCertificates
from log_tier.access.current import CALLER
from log_tier.access.shown_tables import shown_rights
from log_tier.catalog.catalog import Maps
from log_tier.catalog.cluster_map import TableEntry
from log_tier.concurrency.clocks import SYSTEM_CLOCK, Clock
from log_tier.concurrency.sized_work import Turn, run_sized
from log_tier.concurrency.threads import in_own_thread
from log_tier.embedded import EmbeddedLog
from log_tier.measures.call_times import CallTimes
from log_tier.measures.histogram import Histogram
from log_tier.measures.sync_times import SyncTimes
from log_tier.measures.work_counts import RespCounts
from log_tier.model.errors import CertificateInvalid, Damaged, DuramenError
from log_tier.model.identifiers import NOTHING, PartitionId
from log_tier.model.log import Bounds, Log
from log_tier.remote.remote_log import RemoteLog
from log_tier.rpc.messages.stream_bound import StreamBound
from log_tier.tally.audit_note import noted_of
from log_tier.tally.proof import NO_PROOF
from router.membership.views import Membership, NodeView, ReplicaView
from serving_tier.node.hosting import Hosting
from serving_tier.node.node_load import Load
from serving_tier.service.replica_status import ReplicaStatus, Sizes, status_of, status_of_pending

__all__ = ["ServerSight", "SightSources"]

# A look at a replica costs as much as so many keys of a read, and so does its line of JSON.
_LOOK_ITEMS: Final = 6
_LINE_ITEMS: Final = 6

_FRESH_S: Final = 0.5
"""A probe asks every second or so, and anybody who reaches the port may ask without end."""

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class SightSources:
    """The parts of a server that know something of it. None: this role has no such part."""

    role: SightRole
    name: str
    bound: StreamBound
    log: Log
    maps: Maps | None = None
    """The cluster's map. Without it no partition is observed, whose table would have no name."""
    hosting: Hosting | None = None
    load: Load | None = None
    membership: Membership | None = None
    folder: Path | None = None
    """The data folder, whose disk counts."""
    certificates: ServerCertificates | None = None
    times: CallTimes | None = None
    """How long clients' requests take here."""
    snapshots: Histogram | None = None
    """How long snapshots take here."""
    log_watch: LogWatch | None = None
    """What asks the log's server how it is, where that is another process."""


class ServerSight:
    """Observes one server. Belongs to its event loop."""

    def __init__(self, sources: SightSources, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._sources = sources
        self._clock = clock
        self._started_s = clock.monotonic_s()
        self._observing = asyncio.Lock()
        self._sync_times = SyncTimes()
        self._recent: Observed | None = None
        self._observed_s = 0.0
        """When that look at `_recent` began."""
        self.resp: Callable[[], RespCounts] | None = None
        """What its endpoint of the Redis protocol has counted; None: it has none."""

    async def status_json(self, *, lately: bool = False) -> bytes:
        """The document for the caller of the present task's call. `lately`: of up to half a second ago is as good.
        Some 10 µs for each partition, in turns of the loop; a stat of the disk, in a thread.
        """
        status = await self.status(lately=lately)
        return await run_sized(_LINE_ITEMS * len(status.observed.partitions), lambda: status_to_json(status))

    async def status(self, *, lately: bool = False) -> StatusDocument:
        """The document as a value. `lately`: as `status_json`."""
        observed = await (self.observed_lately() if lately else self._observed_now())
        shows = self.shows()
        return await run_sized(len(observed.partitions), lambda: status_of_server(observed, shows))

    def shows(self) -> Callable[[str], bool] | None:
        """Which tables are shown to the caller of the present task's call, by the grants of now; None: all."""
        maps = self._sources.maps
        rights = None if maps is None else shown_rights(maps.map.trust, CALLER.get())
        return None if rights is None else rights.sees

    def uptime_s(self) -> float:
        """Seconds since the server began, on a clock that never goes back."""
        return self._clock.monotonic_s() - self._started_s

    def now_ms(self) -> int:
        """The server's wall clock, milliseconds since 1970."""
        return self._clock.wall_ms()

    def measures(self) -> Measures:
        """What the parts of this server have measured so far. Some 20 µs."""
        sources = self._sources
        log = sources.log.statistics() if isinstance(sources.log, EmbeddedLog) else None
        times, hosting = sources.times, sources.hosting
        return Measures(
            commit_s=None if log is None else log.commit_s,
            commit_bytes=None if log is None else log.commit_bytes,
            reads=None if times is None else times.reads.read(),
            waits=None if times is None else times.waits.read(),
            writes=None if times is None else times.writes.read(),
            scans=None if times is None else times.scans.read(),
            applies=None if hosting is None else hosting.node.apply_s.read(),
            snapshots=None if sources.snapshots is None else sources.snapshots.read(),
            watches=None if hosting is None else hosting.node.deliveries.taken_s.read(),
            watched=None if hosting is None else hosting.node.deliveries.counts(),
            resp=None if self.resp is None else self.resp(),
        )

    async def observed_lately(self) -> Observed:
        """What was seen less than `_FRESH_S` ago: to be asked more often than that costs nothing but the answers."""
        async with self._observing:
            if self._recent is None or self._clock.monotonic_s() - self._observed_s >= _FRESH_S:
                return await self._observed_now()
            return self._recent

    async def _observed_now(self) -> Observed:
        """What is to be known now; whom a recent look will do sees no less afterwards."""
        began_s = self._clock.monotonic_s()
        observed = await self.observe()
        if self._recent is None or began_s >= self._observed_s:
            self._recent, self._observed_s = observed, began_s
        return observed

    async def observe(self) -> Observed:
        """What is to be known now."""
        sources = self._sources
        partitions = await self._partitions()
        disk, memory, certificates = await in_own_thread(lambda: _of_files(sources), name="duramen-status")
        return Observed(
            role=sources.role,
            name=sources.name,
            version=_release(),
            pid=os.getpid(),
            now_ms=self._clock.wall_ms(),
            uptime_s=self.uptime_s(),
            catalog_version=None if sources.maps is None else sources.maps.map.version,
            partitions=tuple(partitions),
            nodes=tuple(_nodes(sources.membership)),
            log=self._log_facts(),
            log_place=_log_place(sources.log),
            log_server=None if sources.log_watch is None else sources.log_watch.seen,
            disk=disk,
            memory_bytes=memory,
            certificates=certificates,
            connections=ConnectionCounts(
                streams=len(sources.bound),
                streams_max=sources.bound.most,
                requests=None if sources.load is None else sources.load.under_way,
            ),
        )

    def _log_facts(self) -> LogFacts | None:
        log = self._sources.log
        if not isinstance(log, EmbeddedLog):
            return None
        counts = log.statistics()
        return LogFacts(
            queued_batches=counts.queued,
            queued_bytes=counts.queued_bytes,
            appends=counts.appends,
            bytes=counts.bytes,
            commits=counts.commits,
            syncs=counts.syncs,
            stopped=counts.stopped,
            queue_age_s=round(counts.queue_age_s, 6),
            damages=len(counts.recovery.damages),
            sync_p99_s=self._sync_times.p99(self.uptime_s(), counts.commit_s),
        )

    async def _partitions(self) -> list[PartitionStatus]:
        """By table and partition. A table that the map does not have any more is left out."""
        if self._sources.maps is None:
            return []
        tables = self._sources.maps.map.tables
        found: list[PartitionStatus] = []
        turn = Turn()
        for name, look in self._looks():
            entry = tables.get(name.table)
            if entry is not None:
                found.append(look(entry, name))
            if turn.is_full(_LOOK_ITEMS):
                await turn.end()
        found.sort(key=lambda each: (each.table, each.partition))
        return found

    def _looks(self) -> Iterator[tuple[PartitionId, Callable[[TableEntry, PartitionId], PartitionStatus]]]:
        sources = self._sources
        if sources.hosting is not None:
            hosting = sources.hosting
            node = hosting.node
            for name in list(dict.fromkeys((*node.hosted(), *hosting.pending, *node.refusals))):
                yield name, self._hosted
        elif sources.membership is not None and sources.maps is not None:
            views = dict(sources.membership.nodes())
            for entry in list(sources.maps.map.tables.values()):
                for name in entry.partition_ids():
                    yield name, lambda table, partition: _best(table, partition, views)

    def _hosted(self, table: TableEntry, name: PartitionId) -> PartitionStatus:
        hosting = self._sources.hosting
        assert hosting is not None, f"{name} is looked at where nothing is hosted"
        status = _status_here(hosting, name)
        bounds = _bounds_here(self._sources.log, name)
        return PartitionStatus(
            table=table.name,
            partition=name.partition,
            state=status.state,
            first=None if bounds is None else bounds.earliest,
            last=status.latest if bounds is None else max(bounds.latest, status.latest),
            applied=status.applied,
            lag_s=status.lag_ms / 1000,
            reason=status.reason,
            ready=int(status.state == "ready"),
            damaged=_is_damaged(hosting, name),
            proven=status.proven,
            differs=status.differs,
            audits=_audits(table, name),
        )


@cache
def _release() -> str:
    """The release of Duramen that is installed."""
    from importlib.metadata import version  # with a parser of e-mail

    return version("duramen")


def _status_here(hosting: Hosting, name: PartitionId) -> ReplicaStatus:
    """The status of a replica that this node has, or should have; of one that has just gone: that it is opened."""
    replica = hosting.node.hosted().get(name)
    if replica is not None:
        return status_of(replica, Sizes(), hosting.node.proofs.get(name, NO_PROOF))
    pending, refusal = hosting.pending.get(name), hosting.node.refusals.get(name)
    if pending is None and refusal is None:
        return ReplicaStatus(NOTHING, NOTHING, 0, "bootstrapping", "", 0, 0, "", 0)
    return status_of_pending(pending, refusal)


def _is_damaged(hosting: Hosting, name: PartitionId) -> bool:
    replica = hosting.node.hosted().get(name)
    return isinstance(hosting.node.refusals.get(name) if replica is None else replica.failure, Damaged)


def _bounds_here(log: Log, name: PartitionId) -> Bounds | None:
    """The bounds of a partition of a log in this process; None elsewhere, and where it refuses."""
    if not isinstance(log, EmbeddedLog):
        return None
    with suppress(DuramenError):
        return log.bounds_now(name)
    return None


def _best(table: TableEntry, name: PartitionId, views: dict[str, NodeView]) -> PartitionStatus:
    """A partition by what the nodes that answer report of it."""
    found: list[ReplicaView] = []
    for assigned in table.assignments[name.partition]:
        view = views.get(assigned.node)
        replica = view.replicas.get(name) if view is not None and view.alive else None
        if replica is not None:
            found.append(replica)
    differing = (
        f"{node}: {view.replicas[name].differs}"
        for node, view in sorted(views.items())
        if view.alive and name in view.replicas and view.replicas[name].differs
    )
    best = max(found, key=lambda each: (each.state == "ready", each.state == "behind", each.applied), default=None)
    return PartitionStatus(
        table=table.name,
        partition=name.partition,
        state="lost" if best is None else str(best.state),
        first=None,
        last=max((each.latest for each in found), default=NOTHING),
        applied=NOTHING if best is None else best.applied,
        lag_s=0.0 if best is None else best.lag_ms / 1000,
        reason="none of its nodes answers" if best is None else best.reason,
        ready=sum(each.state == "ready" for each in found),
        wanted=table.replicas,
        proven=min((each.proven for each in found), default=NOTHING),
        differs=next(differing, ""),
        audits=_audits(table, name),
    )


def _audits(table: TableEntry, name: PartitionId) -> tuple[AuditSeen, ...]:
    if not table.audits:
        return ()
    return tuple(
        AuditSeen(note.tier, note.name, part.rows, part.until, part.verdict, part.reason, part.checked_ms)
        for note, part in noted_of(table.audits, name.partition)
    )


def _nodes(membership: Membership | None) -> Iterator[NodeSeen]:
    if membership is not None:
        for node, view in sorted(membership.nodes().items()):
            reason, skew_s = "" if view.alive else view.reason, round(view.clock_skew_ms / 1000)
            size = view.disk_free + view.disk_used
            disk = (view.disk_free, size) if size else (None, None)
            yield NodeSeen(node, view.address, view.alive, reason, skew_s, *disk)


def _log_place(log: Log) -> LogPlace:
    if isinstance(log, EmbeddedLog):
        return "here"
    return "server" if isinstance(log, RemoteLog) else "kafka"  # `open_log` knows no fourth


def _of_files(sources: SightSources) -> tuple[DiskSpace | None, int | None, tuple[CertificateExpiry, ...]]:
    """What the file system says. Blocks."""
    disk = None
    if sources.folder is not None:
        with suppress(OSError):
            usage = shutil.disk_usage(sources.folder)
            disk = DiskSpace(str(sources.folder.absolute()), usage.free, usage.total)
    memory = None
    with suppress(OSError, ValueError, IndexError):  # no Linux
        memory = int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES
    return disk, memory, tuple(_expiries(sources.certificates))


def _expiries(certificates: ServerCertificates | None) -> Iterator[CertificateExpiry]:
    if certificates is None:
        return
    from duramen.certificates.facts import facts_of
    from duramen.certificates.pem import parse_certificates

    for file in (certificates.ca, certificates.files.certificate):
        with suppress(OSError, CertificateInvalid):  # the server goes on with what it has read, and logs why
            for each in parse_certificates(file.read_bytes(), file)[:1]:
                facts = facts_of(each, file)
                yield CertificateExpiry(facts.name, facts.kind, int(facts.valid_to.timestamp() * 1000))
