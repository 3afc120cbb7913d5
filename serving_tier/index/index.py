"""The index: what a replica keeps of one partition, as a contract that two implementations fulfil.

`LmdbIndex` is the one that serves; `MemoryIndex` is a sorted dict, the model in tests. Both
take stored batches and give back entries; what the batches mean is defined in `serving_tier.fold.fold`, once.

Contract (`tests/kit/index/index_contract.py` runs it against both):

- X1 After `apply` returned, everything in the chunk is visible, and the applied offset names its last record; after it
  raised, nothing of the chunk is, and the same `apply` may be called again.
- X2 The state depends on the records alone, not on how they were cut into chunks, how often they were delivered, or
  when (I4). `digest()` is equal for two indexes at one offset.
- X3 A read sees the index at one applied offset. Where it matters, the answer carries that offset.
- X4 An expired entry is nowhere to be seen: not in reads, scans, counts or digests, and not by conditions or updates.
- X5 An entry of an ordered index is there if and only if its row is (I4): both are changed by one `apply`.
- X6 What can be read of the past of a table that keeps a history depends on the records and the applied offset alone,
  as X2 says of the present.

**Threads**: one thread at a time applies; any number read at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from log_tier.model.identifiers import Offset
from log_tier.rows.table_index import TableIndex
from log_tier.tally.period import PartitionTally
from serving_tier.fold.entry import NEVER, LiveEntry
from serving_tier.fold.producers import PRODUCERS_MAX, ProducerState
from serving_tier.fold.verdicts import RESULTS_MAX, VERDICTS_MAX, Outcome

__all__ = [
    "FOUND_BYTES_MAX",
    "Applied",
    "Found",
    "Index",
    "IndexLimits",
    "IndexStatistics",
    "PastPage",
    "PastPoint",
    "ScanPage",
    "StoredVersion",
]


FOUND_BYTES_MAX: Final = 32 * 1024 * 1024
"""The bytes of the values that one read of several keys has, unless its caller names another limit."""


class Applied(NamedTuple):
    """The result of one `apply`."""

    applied: Offset
    """The index holds everything up to here."""
    log_time_ms: int
    """The largest timestamp up to here."""
    records: int
    """Records folded: not the skipped ones, and not the duplicates."""
    rejected: int
    duplicates: int
    void: int
    """Rejected records that no table can hold; `rejected` counts them too."""


class Found(NamedTuple):
    """What a read of several keys found, column by column; one entry per key, in the order asked."""

    applied: Offset
    values: list[bytes | None]
    """None: absent."""
    versions: list[int]
    """The offset of the last write; -1: absent."""
    expiries: list[int] | None
    """Milliseconds since 1970, 0 for never; None where no key of these expires."""


class PastPoint(NamedTuple):
    """At which state an index is to be read."""

    offset: Offset | None = None
    """None: at the newest one, or at that of a time."""
    time_ms: int = 0
    """At the last state of the log that is not later, in ms since 1970; 0: `offset` says it."""


class StoredVersion(NamedTuple):
    """One version of a key."""

    offset: Offset
    """Of the change that made it."""
    stored: bytes | None
    """None: the key was deleted."""
    log_time_ms: int
    """Of the change; 0 where that was before what a history by age keeps."""


class ScanPage(NamedTuple):
    """A piece of a scan, column by column. The next one starts at the last key + b"\\x00", or, in reverse, ends at the
    last key.
    """

    keys: Sequence[bytes]
    values: Sequence[bytes]
    versions: Sequence[int]
    expiries: Sequence[int] | None
    """Milliseconds since 1970, 0 for never; None where nothing of these expires."""
    more: bool
    """There is at least one more live entry in the range."""
    applied: Offset

    @property
    def reached(self) -> bytes:
        """It ends at its last key: see `PastPage.reached`."""
        return b""

    @property
    def entries(self) -> list[tuple[bytes, LiveEntry]]:
        """Row by row."""
        expiries = self.expiries or [NEVER] * len(self.keys)
        rows = zip(self.keys, self.values, self.versions, expiries, strict=True)
        return [(key, LiveEntry(value, Offset(version), expiry)) for key, value, version, expiry in rows]


class PastPage(NamedTuple):
    """A piece of a scan of the past, or of a comparison of two states, column by column."""

    keys: Sequence[bytes]
    values: Sequence[bytes]
    """In a comparison empty where the key is absent."""
    versions: Sequence[int]
    """In a comparison -1 where the key is absent."""
    more: bool
    """There may be more in the range."""
    applied: Offset
    """The offset whose state was read."""
    reached: bytes = b""
    """Where `more`: the next one starts at this key + b"\\x00", or, in reverse, ends at it. It may lie behind the last
    key, and be there without one: many keys in turn had nothing in that state."""
    before: Sequence[bytes] = ()
    """In a comparison: what each key has in the other state, empty where it is absent there."""
    before_versions: Sequence[int] = ()
    """In a comparison: -1 where the key is absent in the other state."""


class IndexStatistics(NamedTuple):
    """Sizes, for people and dashboards. Entries may count expired ones that are not yet removed."""

    applied: Offset
    log_time_ms: int
    entries: int
    producers: int
    verdicts: int
    results: int
    expiries: int
    bytes_used: int
    """Bytes of the file that hold something; 0 where there is no file."""
    void: int
    """Records so far that no table can hold: foreign producers' mistakes."""


class IndexLimits(NamedTuple):
    """How much an index remembers in addition to its entries. All replicas of a table need the same limits."""

    producers: int = PRODUCERS_MAX
    verdicts: int = VERDICTS_MAX
    results: int = RESULTS_MAX


class Index(Protocol):
    """One partition's index."""

    @property
    def applied(self) -> Offset:
        """The last offset that was folded; `NOTHING` before the first."""
        ...

    @property
    def log_time_ms(self) -> int:
        """The largest timestamp that was folded; 0 before the first."""
        ...

    @property
    def verdicts_from(self) -> Offset:
        """Rejections below this offset are forgotten, and missing in `outcomes`."""
        ...

    def apply(self, chunk: bytes) -> Applied:
        """Fold a run of whole stored batches, in one transaction together with the applied offset.

        Records at or below the applied offset are skipped, gaps of offsets are stepped over. Raises `BatchRefused`
        for bytes that are no batches, `UnknownFormat` for what a newer version wrote, `DiskFull`, `IndexDamaged`.
        """
        ...

    def get(self, key: bytes) -> LiveEntry | None:
        """One entry. Raises `InvalidKey` for an empty key."""
        ...

    def get_value(self, key: bytes) -> bytes | None:
        """One entry's value: the shortest way there is."""
        ...

    def get_many(self, keys: Sequence[bytes], *, bytes_max: int = FOUND_BYTES_MAX) -> Found:
        """Several entries, all read at one applied offset.

        Raises `LimitExceeded` as soon as they have more than `bytes_max` bytes together, before the rest is read: a key
        may be named any number of times.
        """
        ...

    def scan(
        self, start: bytes, end: bytes | None, *, reverse: bool = False, limit: int = 1000, bytes_max: int = 1 << 20
    ) -> ScanPage:
        """Entries with `start` <= key < `end` (None: to the last key), in key order or in reverse.

        At most `limit` of them, and no more after keys and values together reached `bytes_max`.
        """
        ...

    def find(
        self,
        index: TableIndex,
        start: bytes,
        end: bytes | None,
        *,
        reverse: bool = False,
        limit: int = 1000,
        bytes_max: int = 1 << 20,
    ) -> ScanPage:
        """The rows whose entries in an ordered index are `start` <= entry < `end`, in the order of the entries or in
        reverse: as `scan`, with entries in place of keys. An entry is the elements of the index's fields, then the
        row's key.

        Raises `InvalidRequest` where the table's definition, as far as it was folded, has no such index.
        """
        ...

    def get_past(self, keys: Sequence[bytes], point: PastPoint, *, bytes_max: int = FOUND_BYTES_MAX) -> Found:
        """Several entries as they were at one offset, which `Found.applied` names: what `get_many` answered then.

        Raises `HistoryGone`, with the first offset that is kept, for a state that is not, `InvalidRequest` for a table
        that keeps no history, and `LimitExceeded` as `get_many`.
        """
        ...

    def versions(
        self, key: bytes, point: PastPoint, *, limit: int, bytes_max: int = FOUND_BYTES_MAX
    ) -> tuple[Offset, list[StoredVersion]]:
        """At most `limit` changes of a key up to a state of the past, the newest first, and the offset of that state.
        The last of all is what the key had where the history begins. Raises as `get_past`.
        """
        ...

    def scan_past(
        self,
        start: bytes,
        end: bytes | None,
        point: PastPoint,
        *,
        compared: PastPoint | None = None,
        reverse: bool = False,
        limit: int = 1000,
        bytes_max: int = 1 << 20,
    ) -> PastPage:
        """What `scan` answered in a state of the past; `compared`: only keys whose values differ from those in that
        other state, with both. A page may have fewer entries than there are: `PastPage.reached`.

        Raises as `get_past`; where a history keeps a number of changes, for a key of which the state is not kept.
        """
        ...

    def outcomes(self, first: Offset, last: Offset) -> dict[Offset, Outcome]:
        """What is known about the offsets `first` to `last`, inclusive: rejections, duplicates, updates' results.

        An offset that is not in the answer took effect, unless its outcome is already forgotten (`verdicts_from`,
        `RESULTS_MAX`).
        """
        ...

    def producer(self, producer_id: int) -> ProducerState | None:
        """The last batch of a producer that took effect."""
        ...

    def count(self) -> int:
        """The number of live keys. O(1), and O(expired entries that are not yet removed)."""
        ...

    def next_expiry_ms(self) -> int | None:
        """A log time that no entry's expiry comes before; None where nothing expires. O(log n).

        It can be earlier than the earliest expiry (an entry with an expiry was overwritten), never later.
        """
        ...

    def digest(self) -> str:
        """32 hex digits over every live key, value, version and expiry. O(n): reads everything."""
        ...

    def tally(self) -> PartitionTally:
        """What was counted of the batches that were folded here, minute by minute (`log_tier.tally`)."""
        ...

    def statistics(self) -> IndexStatistics:
        """Sizes."""
        ...

    def close(self, *, clean: bool = True) -> None:
        """Let go of everything; `clean` makes what was applied durable and says so. Idempotent."""
        ...
