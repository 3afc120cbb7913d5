"""Requests and replies of the data plane, as values that belong to no protocol.

Each endpoint (gRPC, the Redis protocol) translates its messages to these values and back; the embedded database uses
them directly. A request is a list of parts, one per partition, and every part succeeds or fails by itself: a reply
holds, in the same order, a result or the error of that part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from log_tier.model.errors import LimitExceeded, Rejected
from log_tier.model.identifiers import NOTHING, Offset, Partition, PartitionId, TableId
from log_tier.model.kept_history import KeptHistory
from log_tier.model.partitioner import Partitioner, partition_of_range
from log_tier.model.retention import FOREVER, Retention
from log_tier.model.table_ref import TableRef

__all__ = [
    "PAGE_BYTES_MAX",
    "PARTS_MAX",
    "PAST_VERSIONS_MAX",
    "READ_KEYS_MAX",
    "READ_REPLY_BYTES_MAX",
    "SCAN_PAGE_FIRST",
    "SCAN_PAGE_MAX",
    "OutcomesPart",
    "PartitionDescription",
    "PastRead",
    "PastScan",
    "ReadPart",
    "ReadResult",
    "ScanRequest",
    "ScanResult",
    "ScanWalk",
    "TableDescription",
    "WatchEvent",
    "WriteOutcome",
    "WritePart",
    "WriteResult",
    "read_part_of",
    "read_result_of",
    "too_many_keys",
    "too_many_parts",
    "write_part_of",
    "write_result_of",
]

PARTS_MAX: Final = 10_000
"""A client joins its calls by partition, and a table has a thousand of those: ten tables in one request are plenty."""

READ_KEYS_MAX: Final = 10_000
"""A reply is held whole by both ends, and a thread that reads this many keys takes some 20 ms for it."""

PAST_VERSIONS_MAX: Final = 10_000
"""Versions of a key in one reply: a thread that reads so many takes some 60 ms for it."""

READ_REPLY_BYTES_MAX: Final = 32 * 1024 * 1024
"""What one reply may carry; both endpoints and their clients hold it whole. The largest value fits eight times."""

PAGE_BYTES_MAX: Final = 8 * 1024 * 1024
"""Keys and values of a scan's page, give or take its last entry: of one node's, and of one merged from several nodes'.
"""

SCAN_PAGE_FIRST: Final = 200
SCAN_PAGE_MAX: Final = 4000
"""Entries of a scan's first page, which comes fast, and of its largest."""


class PastRead(NamedTuple):
    """What is asked of the past of keys, of a table that keeps a history."""

    offset: Offset | None = None
    """As they were at this offset; None, and no time: as they are."""
    time_ms: int = 0
    """As they were at the last record that is not later, in ms since 1970; 0: `offset` says it."""
    versions: int = 0
    """Of one key: so many of its versions up to then, the newest first. 0: the values of the keys."""


class PastScan(NamedTuple):
    """Which state a scan of a table that keeps a history shows."""

    time_ms: int = 0
    """Each partition as it was at its last record that is not later, in ms since 1970; 0: at the offset that
    `ScanRequest.after` names for it."""
    compared: Offset | None = None
    """Of one partition: only the keys whose values differ from those at this offset, with both values."""


class ReadPart(NamedTuple):
    """Keys of one partition."""

    partition: PartitionId
    keys: Sequence[bytes]
    after: Offset = NOTHING
    """Answer from a state that holds this offset."""
    strong: bool = False
    """Ask the log for its end first, and wait for that."""
    lag_max_ms: int = 0
    """Answer only from a replica that was level with the log within this time; 0: no bound."""
    past: PastRead | None = None
    """None: what the keys have now."""


class ReadResult(NamedTuple):
    """What was there, column by column; one entry per key."""

    applied: Offset
    """The offset whose state was read."""
    values: Sequence[bytes | None]
    versions: Sequence[int]
    """The offset of each key's last write; -1 where the key is absent."""
    expiries: Sequence[int] | None = None
    """Milliseconds since 1970, 0 for never; None where no key of these expires."""
    times: Sequence[int] | None = None
    """Of the versions of one key, which are the rows then: when each was written, in ms since 1970, 0 where that is not
    known any more; `versions` are the offsets of the changes, and the value of a deletion is None."""


class WritePart(NamedTuple):
    """One encoded batch for one partition."""

    partition: PartitionId
    batch: bytes
    outcomes: bool = False
    """Wait until it is applied and return what became of its records: for conditions, updates and retries."""
    gathered: bool = False
    """The sender has gathered what wants to be written now: see `Log.append_many`. Known in this process only."""


class WriteOutcome(NamedTuple):
    """What became of one record that did not simply take effect."""

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
    """The part wanted outcomes, and they are not known yet: ask `outcomes` for them."""


# A named tuple's own constructor is a Python function, and a request makes some of these. `tuple.__new__` is none: it
# takes all columns, in their order.
_Columns = tuple[Any, ...]
read_part_of: Final[Callable[[_Columns], ReadPart]] = partial(tuple.__new__, ReadPart)
read_result_of: Final[Callable[[_Columns], ReadResult]] = partial(tuple.__new__, ReadResult)
write_part_of: Final[Callable[[_Columns], WritePart]] = partial(tuple.__new__, WritePart)
write_result_of: Final[Callable[[_Columns], WriteResult]] = partial(tuple.__new__, WriteResult)


class OutcomesPart(NamedTuple):
    """Records that are in the log, and whose verdicts are wanted."""

    partition: PartitionId
    base_offset: Offset
    """The place that the log gave their batch."""
    timestamp_ms: int
    after: Offset
    """The batch's last offset: a replica that has applied it knows all verdicts."""

    @property
    def lag_max_ms(self) -> int:
        """A replica that has applied it may lag behind later offsets."""
        return 0


class TextSearch(NamedTuple):
    """What a search asks for."""

    index_name: str
    """Of a text index."""
    query: str
    number: int = 0
    """The index's number; 0: whichever has the name."""


class Highlight(NamedTuple):
    """A piece of a field's text in which words of a query are."""

    field: str
    text: str
    spans: Sequence[tuple[int, int]]
    """Where those words are in `text`: first character, and the one behind the last."""


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
    """Scan only these partitions; none: all of the table."""
    lag_max_ms: int = 0
    """As for `ReadPart`."""
    table_versions: Mapping[Partition, int] = field(default_factory=dict)
    """The versions of the table to read, of a scan that goes on: those that its first page was read in. A partition
    that is not named is read in its live one."""
    bytes_max: int = PAGE_BYTES_MAX
    """The keys and values of the page, give or take its last entry."""
    index: str = ""
    """The name of an ordered index: `start` and `end` are bounds of its entries, and the page has entries in place of
    keys, in their order. Empty: the table's keys."""
    index_number: int = 0
    """The index's number: one of that name that came later sorts by other fields. 0: whichever has the name."""
    past: PastScan | None = None
    """None: what the table has now."""
    search: TextSearch | None = None
    """The rows that a text index finds, the best first, in place of those of a range."""

    def needed(self, partition: Partition) -> Offset:
        """The offset that a replica of a partition must have applied."""
        after = self.after.get(partition, NOTHING)
        return after if self.past is None or self.past.compared is None else max(after, self.past.compared)

    def partitions_asked(self, partitions: int, partitioner: Partitioner) -> Sequence[Partition]:
        """The partitions of a table that can hold keys of the range: those that are named, or one where all of its keys
        begin with the fields that decide the partition, or all. Some 1 µs for a table `fields:N`.
        """
        if self.partitions or self.index or self.search is not None:
            return self.partitions or [Partition(number) for number in range(partitions)]
        only = partition_of_range(self.start, self.end, partitions, partitioner)
        return [only] if only is not None else [Partition(number) for number in range(partitions)]


class ScanResult(NamedTuple):
    """A page. Where `more`, go on after `reached`, else after the last key (before it, in reverse)."""

    keys: Sequence[bytes]
    values: Sequence[bytes]
    versions: Sequence[int]
    more: bool
    applied: Mapping[Partition, Offset]
    table_versions: Mapping[Partition, int] = MappingProxyType({})
    """Which version of the table each partition was read in."""
    reached: bytes = b""
    """How far a page of the past has come, where it may have fewer entries than were asked for, or none."""
    before: Sequence[bytes] = ()
    """Of a comparison: what each key has in the other state. `values` and `before` are empty where a key is absent."""
    before_versions: Sequence[int] = ()
    """Of a comparison: -1 where the key is absent in the other state; `versions` has it in this one."""
    scores: Sequence[float] = ()
    """Of a search: of each row."""
    highlights: Sequence[Sequence[Highlight]] = ()
    """Of a search: where the words are in the fields of each row."""

    @property
    def end(self) -> bytes:
        """Where `more`: all up to this key is known. Empty: nothing is."""
        return self.reached or (self.keys[-1] if self.keys else b"")


class ScanWalk:
    """The requests for a scan's pages, one after the other: each page is at least as new as the one before it, and of
    the version of the table in which the first one was read. Of the past, each page is of the state of the first one.
    """

    __slots__ = ("_left", "_next")

    def __init__(self, first: ScanRequest, limit: int | None = None) -> None:
        """`first`: the whole range, its `limit` the size of the first page, which comes fast; later pages are larger.
        `limit`: of the whole scan; None: to the end of the range.
        """
        self._next, self._left = first, limit

    def request(self) -> ScanRequest | None:
        """The request for the next page; None where the range or the limit is exhausted."""
        asked = self._next
        if self._left == 0 or (asked.end is not None and asked.start >= asked.end):
            return None
        return asked if self._left is None else replace(asked, limit=min(asked.limit, self._left))

    def took(self, page: ScanResult) -> None:
        """Go on behind `page`, the answer to `request()`."""
        asked = self._next
        if self._left is not None:
            self._left -= len(page.keys)
        last = page.end
        if not page.more or not last:
            self._left = 0
            return
        self._next = replace(
            asked,
            start=asked.start if asked.reverse else last + b"\x00",
            end=last if asked.reverse else asked.end,
            limit=min(asked.limit * 4, SCAN_PAGE_MAX),
            after={**asked.after, **page.applied},
            strong=False,  # the first page has waited for the log's end
            table_versions=asked.table_versions or dict(page.table_versions),
            past=asked.past and asked.past._replace(time_ms=0),
        )


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
    """0 also for a user who may neither read the whole table nor administer it; `index_bytes` alike."""
    index_bytes: int
    state: str
    reason: str
    nodes: Sequence[str] = ()
    """The nodes that hold it."""

    def uncounted(self) -> PartitionDescription:
        """The same for somebody who may not know how much it holds."""
        return self._replace(keys=0, index_bytes=0)


@dataclass(frozen=True, slots=True)
class TableDescription:
    """A table and the state of its partitions."""

    table: TableRef
    partitions: Sequence[PartitionDescription]
    retention: Retention = FOREVER
    """How much of each partition's log stays: `ms` and `bytes`, 0 for no such bound."""
    keeps: KeptHistory | None = None
    """How much of what its keys had before stays, as text `30d`, `100` or `all`; None: nothing."""
    made_ms: int = 0
    """When it was made, by the catalog's log: milliseconds since 1970. 0: the server does not know it."""


def too_many_keys(keys: int) -> LimitExceeded:
    """The error for a read of more than `READ_KEYS_MAX` keys."""
    return LimitExceeded(
        f"a read asks for at most {READ_KEYS_MAX} keys, this one for {keys}: split it", limit=READ_KEYS_MAX, size=keys
    )


def too_many_parts(parts: Sequence[object]) -> LimitExceeded:
    """The error for a request with more than `PARTS_MAX` parts."""
    return LimitExceeded(
        f"a request has at most {PARTS_MAX} parts, this one {len(parts)}: split it", limit=PARTS_MAX, size=len(parts)
    )
