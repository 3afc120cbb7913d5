"""Requests and replies of the data plane, as values that belong to no protocol.

Each endpoint (gRPC, the Redis protocol) translates its messages to these values and back; the embedded database uses
them directly. A request is a list of parts, one per partition, and every part succeeds or fails by itself: a reply
holds, in the same order, a result or the error of that part.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from log_tier.model.errors import DuramenError, Rejected
from log_tier.model.identifiers import NOTHING, Offset, Partition, TableId
from log_tier.model.table_ref import TableRef

__all__ = [
    "READ_REPLY_BYTES_MAX",
    "Connection",
    "OutcomesPart",
    "PartitionDescription",
    "ReadPart",
    "ReadResult",
    "ScanRequest",
    "ScanResult",
    "TableDescription",
    "WatchEvent",
    "WriteOutcome",
    "WritePart",
    "WriteResult",
]

READ_REPLY_BYTES_MAX: Final = 32 * 1024 * 1024
"""What one reply may carry; both endpoints and their clients hold it whole. The largest value fits eight times."""


class ReadPart(NamedTuple):
    """Keys of one partition."""

    table_id: TableId
    partition: Partition
    keys: Sequence[bytes]
    after: Offset = NOTHING
    """Answer from a state that holds this offset."""
    strong: bool = False
    """Ask the log for its end first, and wait for that."""
    lag_max_ms: int = 0
    """Answer only from a replica that was level with the log within this time; 0: no bound."""


class ReadResult(NamedTuple):
    """What was there, column by column; one entry per key."""

    applied: Offset
    """The offset whose state was read."""
    values: Sequence[bytes | None]
    versions: Sequence[int]
    """The offset of each key's last write; -1 where the key is absent."""
    expiries: Sequence[int] | None = None
    """Milliseconds since 1970, 0 for never; None where no key of these expires."""


class WritePart(NamedTuple):
    """One encoded batch for one partition."""

    table_id: TableId
    partition: Partition
    batch: bytes
    outcomes: bool = False
    """Wait until it is applied and tell what became of its records: for conditions, updates and retries."""
    gathered: bool = False
    """The sender has gathered what wants to be written now: see `Log.append_many`. Known in this process only."""


class WriteOutcome(NamedTuple):
    """What became of one record, where there is something to tell."""

    record: int
    """Its place in the batch."""
    rejected: Rejected | None = None
    result: bytes | None = None
    """After an update: the new value (a number's text), or the new length after an append."""
    original: Offset = NOTHING
    """A retry's record: the offset at which it had taken effect before."""


class WriteResult(NamedTuple):
    """The place a batch got. It is on stable storage."""

    base_offset: Offset
    timestamp_ms: int
    outcomes: Sequence[WriteOutcome] = ()
    pending: bool = False
    """What became of its records was asked, and is not known yet: ask `outcomes`."""


class OutcomesPart(NamedTuple):
    """Records that are in the log, and whose verdicts are wanted."""

    table_id: TableId
    partition: Partition
    base_offset: Offset
    """The place that the log gave their batch."""
    timestamp_ms: int
    span: int
    """How many offsets the batch occupies."""

    @property
    def after(self) -> Offset:
        """The batch's last offset: a replica that has applied it knows all verdicts."""
        return Offset(self.base_offset + self.span - 1)

    @property
    def lag_max_ms(self) -> int:
        """A replica that has applied it may lag behind later offsets."""
        return 0


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """One page of a table in key order, over all its partitions."""

    table_id: TableId
    start: bytes = b""
    """Inclusive."""
    end: bytes | None = None
    """Exclusive; None: to the end of the table."""
    reverse: bool = False
    limit: int = 1000
    after: Mapping[Partition, Offset] = field(default_factory=dict)
    strong: bool = False
    partitions: Sequence[Partition] = ()
    """Only these; none: all of the table."""
    lag_max_ms: int = 0
    """As for `ReadPart`."""
    table_versions: Mapping[Partition, int] = field(default_factory=dict)
    """The versions of the table to read, of a scan that goes on: those that its first page was read in. A partition
    that is not named is read in its live one."""


class ScanResult(NamedTuple):
    """A page. Where `more`, go on after the last key (before it, in reverse)."""

    keys: Sequence[bytes]
    values: Sequence[bytes]
    versions: Sequence[int]
    more: bool
    applied: Mapping[Partition, Offset]
    table_versions: Mapping[Partition, int] = MappingProxyType({})
    """Which version of the table each partition was read in."""


class WatchEvent(NamedTuple):
    """Some batches of one partition, as stored, and which of their offsets changed nothing."""

    partition: Partition
    batches: bytes
    void_offsets: Sequence[int]
    latest: Offset
    positions: Mapping[Partition, Offset] | None = None
    """In the first event only (which holds no batches): the first offset that each partition's watch will show."""


class PartitionDescription(NamedTuple):
    """The state of one partition."""

    partition: Partition
    earliest: Offset
    latest: Offset
    applied: Offset
    keys: int
    index_bytes: int
    state: str
    reason: str
    nodes: Sequence[str] = ()
    """The nodes that hold it."""


@dataclass(frozen=True, slots=True)
class TableDescription:
    """A table and the state of its partitions."""

    table: TableRef
    partitions: Sequence[PartitionDescription]


class Connection(Protocol):
    """The way from a client to the data: `router.data.local_data.LocalData` in the same process, or gRPC to one
    elsewhere.

    `timeout` is in seconds and covers the call. Whole-call failures raise; a part's failure stands in its place.
    """

    async def read(
        self, parts: Sequence[ReadPart], *, timeout: float, patience: float = 0.0
    ) -> Sequence[ReadResult | DuramenError]:
        """Read keys. A part that must wait longer than `patience` seconds (0: than `timeout`) fails by itself."""
        ...

    async def write(
        self, parts: Sequence[WritePart], *, timeout: float, patience: float = 0.0
    ) -> Sequence[WriteResult | DuramenError]:
        """Append batches; each result means that the batch is on stable storage.

        Outcomes that are not known within `patience` seconds (0: within `timeout`) come as `pending`.
        """
        ...

    async def outcomes(self, parts: Sequence[OutcomesPart], *, timeout: float) -> Sequence[WriteResult | DuramenError]:
        """What became of batches that are in the log; `WriteUnknown` where that is not known in time."""
        ...

    async def scan(self, request: ScanRequest, *, timeout: float) -> ScanResult:
        """One page in key order."""
        ...

    def watch(
        self, table_id: TableId, start: Mapping[Partition, Offset], partitions: Sequence[Partition] = ()
    ) -> AsyncGenerator[WatchEvent, None]:
        """Follow a table's changes (of `partitions`, or of all); those without a start begin at the end.

        Ends only by `aclose` or an error.
        """
        ...

    async def producer(
        self, table_id: TableId, producer_id: int, *, timeout: float, partitions: Sequence[Partition] = ()
    ) -> Mapping[Partition, int]:
        """The last sequence of a producer that was applied, by partition (of `partitions`, or of all)."""
        ...

    async def create_table(
        self,
        name: str,
        *,
        partitions: int,
        replicas: int = 0,
        over: str = "",
        partitioner: str = "",
        timeout: float,
    ) -> TableRef:
        """Create a table; `replicas` of each partition, 0: one on each node, up to three.

        `over`: lay it over this existing topic of others, which says how many partitions it has (`partitions` is that
        number, or 0). `partitioner`: empty for `"murmur2"` over such a topic, else `"slot"`.
        """
        ...

    async def find_table(self, name: str, *, timeout: float) -> TableRef:
        """The table of that name."""
        ...

    async def list_tables(self, *, timeout: float) -> list[TableRef]:
        """All tables, by name."""
        ...

    async def describe_table(self, name: str, *, timeout: float) -> TableDescription:
        """A table and the state of its partitions."""
        ...

    async def drop_table(self, name: str, *, timeout: float) -> None:
        """Delete a table and its log."""
        ...

    async def close(self) -> None:
        """Let go of everything."""
        ...
