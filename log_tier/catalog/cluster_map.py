"""The map: the cluster as the catalog's log says it should be. Immutable; a change makes a new one.

It is small (a few kilobytes per hundred partitions), so that every process, clients included, can hold it whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, Self

from log_tier.catalog.actions import CHANGES_HOLDERS
from log_tier.catalog.decisions import Decisions
from log_tier.catalog.jobs import Job, Task
from log_tier.concurrency.persistent_map import PersistentMap
from log_tier.model.errors import TableNotFound
from log_tier.model.identifiers import FIRST, NOTHING, Offset, Partition, PartitionId, TableId, partition_id
from log_tier.model.log import Topic
from log_tier.model.partitioner import Partitioner
from log_tier.model.retention import Retention
from log_tier.model.table_ref import TableRef
from log_tier.rows.definition import TableDefinition, says_form
from log_tier.tally.audit_note import AuditNote
from log_tier.trust.users import TrustState

__all__ = [
    "EMPTY",
    "AddressOf",
    "Assignment",
    "ClusterMap",
    "NodeEntry",
    "ReplicaRole",
    "SnapshotEntry",
    "TableEntry",
    "TableFacts",
    "VersionEntry",
    "VersionState",
    "address_for_clients",
    "address_for_servers",
]

ReplicaRole = Literal["joining", "member", "leaving"]
VersionState = Literal["staging", "staged", "live", "kept"]
EMPTY: Final = "empty:"
"""URL prefix of a version that starts empty. The prefix alone means that the version starts at the log's end."""


class Assignment(NamedTuple):
    """One replica of a partition."""

    node: str
    role: ReplicaRole
    """`joining`: it bootstraps and is not read yet. `leaving`: it is read until the move that takes it away is done."""


@dataclass(frozen=True, slots=True)
class NodeEntry:
    """A serving node that has registered."""

    id: str
    address: str
    """host:port of its gRPC server; empty for a node inside a program that serves nobody else."""
    identity: str
    """Drawn once for its data folder: two folders are two nodes, whatever they call themselves."""
    draining: bool = False
    """The node gets no new replicas."""
    peer_address: str = ""
    """host:port where it asks its callers for certificates; empty if it has no such port."""


AddressOf = Callable[[NodeEntry], str]
"""Where this process calls a node: host:port; empty for a node that serves nobody else."""


def address_for_clients(entry: NodeEntry) -> str:
    """Where callers need no certificate."""
    return entry.address


def address_for_servers(entry: NodeEntry) -> str:
    """Where callers show one, as servers of a cluster with certificates do; the other one where there is none."""
    return entry.peer_address or entry.address


@dataclass(frozen=True, slots=True)
class VersionEntry:
    """A version of a table's content that its replicas have, or are fetching."""

    number: int
    state: VersionState
    """`staging`: replicas fetch it. `staged`: all of them were level with it. `kept`: it was live before."""
    url: str = ""
    """Where it was built; empty for what was folded from the log alone."""
    made_ms: int = 0
    """The catalog's log time when it came; for people."""
    holders: tuple[tuple[str, ...], ...] = ()
    """By partition: the nodes that reported to be level with the version."""

    @property
    def begins_empty(self) -> bool:
        """Did the version start empty instead of from a build?"""
        return self.url.startswith(EMPTY)


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A table and who holds it."""

    id: TableId
    name: str
    partitions: int
    replicas: int
    """How many each partition should have."""
    assignments: tuple[tuple[Assignment, ...], ...]
    """By partition, in the order in which they came; the first one does what only one should do."""
    partitioner: Partitioner = "slot"
    adopted: bool = False
    """The topic belongs to another program: Duramen neither deletes nor trims nor compacts it."""
    over: str = ""
    """The name of the adopted topic, for people."""
    starts: tuple[Offset, ...] = ()
    """Where the table begins, by partition: the earliest offset of its topic when it was made. Empty: all at 0."""
    versions: tuple[VersionEntry, ...] = ()
    """The versions by number, rising. Empty: the first one, folded from the log, is the only one there ever was."""
    last_version: int = 1
    """The highest number that was given; numbers are not used again."""
    last_swap: int = -1
    """The job whose barriers made the live version live: the last swap, rollback or clearing that is done. -1: none."""
    retention_ms: int = 0
    """Each partition's log keeps its records so long; 0: for ever."""
    retention_bytes: int = 0
    """Each partition's log keeps so many bytes; 0: all."""
    definition: TableDefinition | None = None
    """What its keys and values are; None: bytes."""
    audits: tuple[AuditNote, ...] = ()
    """What was found of its exports, and of clients' sessions; the newest is last."""
    made_ms: int = 0
    """The catalog's log time when it was made; for people. 0: not known, by the map of an older server."""

    @property
    def retention(self) -> Retention:
        """The bounds by age and size of each partition's log."""
        return Retention(self.retention_ms, self.retention_bytes)

    @property
    def live_version(self) -> int:
        """The number of the version that is read."""
        return next((version.number for version in self.versions if version.state == "live"), 1)

    def version(self, number: int) -> VersionEntry | None:
        """A version by its number; None where it is not there (any more)."""
        return next((version for version in self.versions if version.number == number), None)

    def has_ended(self, number: int) -> bool:
        """Was there a version of that number, which is no more? It never comes back: numbers are given once."""
        return number <= self.last_version and number not in ({each.number for each in self.versions} or {1})

    @property
    def topic(self) -> Topic:
        """The table's log, under the table's name."""
        return Topic(self.id, self.name, self.partitions)

    @property
    def ref(self) -> TableRef:
        """The table's id, name, partitions and partitioner, as callers need them."""
        return TableRef(self.id, self.name, self.partitions, self.partitioner, self.over, says_form(self.definition))

    def partition(self, number: int) -> PartitionId:
        """The identity of one of its partitions."""
        return partition_id(self.id, number)

    def partition_ids(self) -> Iterator[PartitionId]:
        """The identities of its partitions, by number."""
        return map(self.partition, range(self.partitions))

    def start(self, partition: Partition) -> Offset:
        """The first offset that belongs to the table: a fold from there is complete."""
        return self.starts[partition] if self.starts else FIRST

    def holders(self) -> Iterator[str]:
        """The nodes of all its replicas, those that leave not counted."""
        return (replica.node for assigned in self.assignments for replica in assigned if replica.role != "leaving")

    def readable(self, partition: Partition) -> tuple[str, ...]:
        """The nodes whose replica may be read."""
        return tuple(replica.node for replica in self.assignments[partition] if replica.role != "joining")


@dataclass(frozen=True, slots=True)
class SnapshotEntry:
    """A snapshot that was verified before it was made known."""

    id: str
    table: TableId
    partition: Partition
    offset: Offset
    """The last offset that it holds."""
    log_time_ms: int
    """The partition's log time at that offset."""
    keys: int
    bytes: int
    path: str
    """Below the snapshot store's root."""
    node: str
    """The node that took the snapshot."""
    version: int = 1
    """Which version of the table it is."""
    swap: int = -1
    """The job of the last barrier that it holds. -1: it holds none, or an earlier Duramen took it and did not say."""

    @property
    def partition_id(self) -> PartitionId:
        """The partition whose index the snapshot holds."""
        return partition_id(self.table, self.partition)


_facts_of: Final = attrgetter("assignments", "name", "definition")


class TableFacts(NamedTuple):
    """What follows from a map's tables. The map keeps it, so that no command goes through thousands of tables."""

    tables: PersistentMap[TableId, TableEntry]
    """The tables from which the facts were derived."""
    names: PersistentMap[str, TableId]
    loads: Mapping[str, int]
    """Replicas by node, those that leave not counted."""
    defined: Mapping[TableId, TableDefinition] = MappingProxyType({})
    """What is in the tables that do not hold bytes."""

    @classmethod
    def of(cls, tables: PersistentMap[TableId, TableEntry]) -> Self:
        """O(replicas)."""
        loads: Counter[str] = Counter()
        for table in tables.values():
            loads.update(table.holders())
        defined = {table.id: table.definition for table in tables.values() if table.definition is not None}
        return cls(tables, PersistentMap((table.name, table.id) for table in tables.values()), loads, defined)

    def with_table(self, table: TableEntry) -> Self:
        """The facts of these tables and one more, or of these with another entry of one. O(its replicas + nodes)."""
        before = self.tables.get(table.id)
        if before is not None and _facts_of(before) == _facts_of(table):
            return self._replace(tables=self.tables.with_entry(table.id, table))
        facts = self if before is None else self.without_table(before)
        loads = dict(facts.loads)
        for node in table.holders():
            loads[node] = loads.get(node, 0) + 1
        tables = self.tables.with_entry(table.id, table)  # at its place, if it has one
        defined = facts.defined if table.definition is None else {**facts.defined, table.id: table.definition}
        return type(self)(tables, facts.names.with_entry(table.name, table.id), loads, defined)

    def without_table(self, table: TableEntry) -> Self:
        """The facts of these tables but one. O(its replicas + nodes)."""
        loads = Counter(self.loads)
        loads.subtract(table.holders())
        defined = {each: definition for each, definition in self.defined.items() if each != table.id}
        return type(self)(self.tables.without(table.id), self.names.without(table.name), loads, defined)


@dataclass(frozen=True, slots=True)
class ClusterMap:
    """The cluster at one offset of the catalog's log."""

    version: Offset = NOTHING
    tables: PersistentMap[TableId, TableEntry] = field(default_factory=PersistentMap)
    nodes: Mapping[str, NodeEntry] = field(default_factory=dict)
    jobs: Mapping[int, Job] = field(default_factory=dict)
    """By id, rising: all running and failed jobs, and the last 100 that are done or aborted."""
    snapshots: PersistentMap[PartitionId, tuple[SnapshotEntry, ...]] = field(default_factory=PersistentMap)
    """The snapshots of each partition, the oldest first."""
    dropped: tuple[TableId, ...] = ()
    """The last tables that were dropped: a node may delete what it still has of them, and of no other unknown one."""
    schemas: PersistentMap[int, str] = field(default_factory=PersistentMap)
    """By number, from 1: every schema that a table here has had, as its canonical text. Numbers are not used again."""
    by_hand: tuple[str, ...] = ()
    """The kinds of jobs that no router begins by itself, of those in `AUTOMATIC`: an operator has switched them off."""
    decisions: Decisions = field(default_factory=Decisions)
    trust: TrustState = field(default_factory=TrustState)
    """Users and roles. Only who folds the catalog's log has them: they are in no map that is sent."""
    facts: TableFacts | None = field(default=None, compare=False, repr=False)
    """Facts about these tables, or about those of an earlier map: see `table_facts`."""

    def table_facts(self) -> TableFacts:
        """Of all tables at once. O(1) where `with_facts` or `with_table` made the map; else O(replicas), once."""
        facts = self.facts
        if facts is None or facts.tables is not self.tables:
            facts = TableFacts.of(self.tables)
            object.__setattr__(self, "facts", facts)  # a cache: the map stays the same
        return facts

    def with_facts(self, facts: TableFacts) -> ClusterMap:
        """The map with other tables."""
        return replace(self, tables=facts.tables, facts=facts)

    def with_table(self, table: TableEntry) -> ClusterMap:
        """The map with one table more, or with another entry of one. O(its replicas + nodes)."""
        return self.with_facts(self.table_facts().with_table(table))

    def table(self, table_id: TableId) -> TableEntry:
        """A table by its id. Raises `TableNotFound`."""
        found = self.tables.get(table_id)
        if found is None:
            raise TableNotFound(f"no table has the id {table_id}: it was dropped, or never was", table=table_id)
        return found

    def named(self, name: str) -> TableEntry | None:
        """A table by its name. O(1)."""
        table_id = self.table_facts().names.get(name)
        return None if table_id is None else self.tables[table_id]

    def name_of(self, partition: PartitionId) -> str:
        """A partition for people: `flights/3`. Raises `TableNotFound`."""
        return f"{self.table(partition.table).name}/{partition.partition}"

    def find(self, name: str) -> TableEntry:
        """A table by its name. Raises `TableNotFound`, which names up to ten of the tables. Once there are users it
        names none: not everybody may know of every table.
        """
        found = self.named(name)
        if found is None and self.trust.is_closed:
            raise TableNotFound(
                f"there is no table {name!r}; `duramen table list` has those that you may see", table=name
            )
        if found is None:
            known = ", ".join(sorted(table.name for table in self.tables.values())[:10]) or "none"
            raise TableNotFound(f"there is no table {name!r}; the tables are: {known}", table=name)
        return found

    def job_since(self, seen: int) -> str:
        """Why a job planned at version `seen` must not begin: another one has since; empty: none has. O(jobs)."""
        newest = max(self.jobs, default=NOTHING)
        if newest <= seen:
            return ""
        job = self.jobs[newest]
        begun = f"job {newest}, {job.kind} {job.subject}, has begun since"
        return f"the catalog changed, look again: the plan was made at version {seen} of it, and {begun}"

    def held_by(self, node: str) -> Iterator[tuple[TableEntry, Partition, ReplicaRole]]:
        """Every replica that a node should have. O(replicas)."""
        for table in self.tables.values():
            for number, assigned in enumerate(table.assignments):
                for replica in assigned:
                    if replica.node == node:
                        yield table, Partition(number), replica.role

    def unfinished_tasks(self, node: str | None = None) -> Iterator[tuple[Job, int, Task]]:
        """Tasks of running jobs that wait for a node (for `node`), with their number in the job."""
        for job in self.jobs.values():
            if job.state == "running":
                found = job.tasks.unfinished() if node is None else job.tasks.unfinished_of(node).items()
                for number, task in found:
                    yield job, number, task

    def snapshots_of(self, partition: PartitionId) -> tuple[SnapshotEntry, ...]:
        """The known snapshots of a partition, the oldest first."""
        return self.snapshots.get(partition, ())

    def changing(self) -> Iterator[tuple[Job, Task]]:
        """The tasks, not over, that change which nodes hold a partition, and their jobs. O(tasks)."""
        for job in self.jobs.values():
            if job.state in ("running", "failed"):
                for task in job.tasks:
                    if task.action in CHANGES_HOLDERS and task.state not in ("done", "aborted"):
                        yield job, task

    def covering(self, partition: PartitionId) -> SnapshotEntry | None:
        """The newest known snapshot from which the live version can be restored with nothing but the log behind it. The
        log must hold what follows it. None where there is none, and while barriers are being put into the log.

        It is of the live version and holds the last barrier. A restore from one of before that barrier meets it, and
        then needs a version that may be gone from where it was built, or that was built nowhere.
        """
        wanted = self._covered_by(partition.table)
        return next(
            (each for each in reversed(self.snapshots_of(partition)) if (each.version, each.swap) == wanted), None
        )

    def covers(self, snapshot: SnapshotEntry) -> bool:
        """Whether the live version can be restored from this snapshot with nothing but the log behind it (C5)."""
        return (snapshot.version, snapshot.swap) == self._covered_by(snapshot.table)

    def _covered_by(self, table_id: TableId) -> tuple[int, int] | None:
        """The version and the last barrier's job of a snapshot that covers a table's log; None: there is none now."""
        table = self.table(table_id)
        return None if self.swapping(table) is not None else (table.live_version, table.last_swap)

    def swapping(self, table: TableEntry) -> Job | None:
        """The job that may have put barriers into the logs of a table, and is not done. O(jobs) for a table with
        several versions, O(1) for others.
        """
        if len(table.versions) < 2:
            return None
        for job in self.jobs.values():
            if job.state in ("running", "failed") and job.arguments.get("table") == table.id and job.puts_barriers:
                return job
        return None
