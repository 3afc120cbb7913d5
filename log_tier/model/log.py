"""The seam between the log tier and everything above it: what a log engine must do, and nothing about how.

A `Log` holds **topics**: named, partitioned, durable, totally ordered per partition. It takes finished batches and
gives back what it took, stamped with its place. It never looks at what keys or values mean.

Contract (`tests/kit/log/log_contract.py` runs it against every engine):

- L1 `append` returns only after the batch is on stable storage; appends of one caller to one partition, awaited one
  after the other, get rising offsets; offsets of a partition have no gap at the time of writing.
- L2 The record at an offset never changes until compaction or retention removes it.
- L3 `read` yields stored batches in order, as they were appended; first the one that holds the offset asked for, or
  what it holds from there on. It never yields a batch that is not on stable storage, so a reader cannot see what a
  crash could take back.
- L4 A topic that was deleted is gone for its readers and writers (`TableNotFound`), and its id never comes back.
- L5 After any error the log either goes on, or says that it stopped (`LogStopped`) and never acknowledges again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import NOTHING, Offset, PartitionId, TableId, partition_id
from log_tier.model.moves import MoveFeed
from log_tier.model.retention import Retention
from log_tier.tracing.written import TracedWrite

__all__ = ["Appended", "Bounds", "LocalLog", "Log", "ReadChunk", "Topic"]


@dataclass(frozen=True, slots=True)
class Topic:
    """A partitioned log, under a name that may be reused and an id that may not."""

    id: TableId
    name: str
    partitions: int

    def partition(self, number: int) -> PartitionId:
        """The identity of one of its partitions."""
        return partition_id(self.id, number)


class Appended(NamedTuple):
    """The place that the log gave a batch: its first offset, its time and its last offset."""

    base_offset: Offset
    timestamp_ms: int
    """The partition's log time at the append."""
    last_offset: Offset


class Bounds(NamedTuple):
    """What a partition holds: offsets `earliest` to `latest`, both inclusive; `latest == earliest - 1` when empty."""

    earliest: Offset
    latest: Offset
    unsettled: int = 0
    """How many offsets beyond `latest` are written and cannot be read yet, behind an open transaction of Kafka's."""
    newest_ms: int = 0
    """The timestamp of the newest batch, where the engine knows it without a read; 0: it does not."""
    lost: int = 0
    """How many offsets beyond `latest`, at least, are known to have been on stable storage and cannot be read. A
    follower meets `LogDamaged` there. 0: none."""
    compacted: Offset = Offset(0)
    """Records below it may have been dropped by a compaction: a fold of what is left has the right state from offset
    `compacted - 1` on, and at no offset before. 0: every state can be had."""
    given_up: Offset = NOTHING
    """The first offset that was given up in a repair of this log, with `mended`; -1 or 0 with `mended` 0: none."""
    mended: Offset = NOTHING
    """The record with which the last such repair ended."""
    cleaned: bool = False
    """Kafka's cleaner drops records of this topic: what one reader has read, another one may find no more."""

    @property
    def is_untouched(self) -> bool:
        """Was no record ever here, as far as the log knows?"""
        return self[:2] == (0, NOTHING) and not self.unsettled and not self.lost and self.mended <= 0

    def may_hold_given_up(self, applied: Offset) -> bool:
        """May an index hold records that the log has given up since? One that was folded of the log as it is now has
        `applied` in between only while it is built.
        """
        return 0 <= self.given_up <= applied < self.mended

    def carries(self, applied: Offset) -> bool:
        """May an index that has applied this go on here? One from within the compacted part may not: it would miss the
        deletes that are gone together with what they deleted. One with `NOTHING` holds nothing to delete.
        """
        return applied + 1 >= self.earliest and (applied == NOTHING or applied + 1 >= self.compacted)

    def leads(self, applied: Offset, until: Offset) -> bool:
        """Does a fold that begins behind `applied` have the right state at `until`, as far as compaction goes?"""
        begins = applied == NOTHING or applied + 1 >= self.compacted
        return applied >= until or (begins and until + 1 >= self.compacted)


class ReadChunk(NamedTuple):
    """Some whole stored batches, in order."""

    data: bytes
    """One or more stored batches, end to end; `log_tier.model.batch_header.split_batches` cuts them."""
    latest: Offset
    """The partition's latest offset when the chunk was read: how far behind the reader is."""
    resumed: bool = False
    """The connection to the log was lost before this chunk: the log may have been put back from a copy since."""
    compacted: Offset = Offset(0)
    """As `Bounds.compacted`, when the chunk was read or later."""
    traced: Sequence[TracedWrite] = ()
    """Which of these batches were written by calls that are traced, as far as the log still knows."""


@runtime_checkable
class LocalLog(Protocol):
    """The additional methods of a log in this process."""

    moves: MoveFeed
    """The partitions of which `bounds_now` answers something else than before, or refuses to. An append is noted before
    it returns, and before a look at the bounds can see it."""

    def bounds_now(self, partition: PartitionId) -> Bounds:
        """`Log.bounds` without a turn of the event loop. Some 1 µs, from any thread."""
        ...


class Log(Protocol):
    """A log engine. Everything is async; nothing here blocks the event loop for more than a millisecond."""

    async def create_topic(self, name: str, *, partitions: int) -> Topic:
        """Create a topic. Raises `TableExists`, `InvalidName`, `LimitExceeded`."""
        ...

    async def delete_topic(self, topic: TableId) -> None:
        """Delete a topic and its records. Raises `TableNotFound`."""
        ...

    async def adopt_topic(self, name: str) -> Topic:
        """An existing topic that others write, under its own name. Every call for one topic gives the same id.

        It can be read and written like any other, and may begin at an offset above 0; this log never deletes, trims or
        compacts it, and `topics` does not list it. Raises `TableNotFound` where there is no such topic,
        `InvalidRequest` where this engine has no topics of others.
        """
        ...

    async def topics(self) -> list[Topic]:
        """All topics that were created here, by name."""
        ...

    async def append(self, partition: PartitionId, batch: bytes) -> Appended:
        """Append one encoded batch; return when it is on stable storage.

        Raises `BatchRefused` or `UnknownFormat` (nothing written), `TableNotFound`, `DiskFull`, `Overloaded`,
        `LogStopped`, `LogDamaged`; `WriteUnknown` where it is not known whether the batch was written, because no reply
        came or a sync failed.
        """
        ...

    def append_many(
        self, parts: Sequence[tuple[PartitionId, bytes]], *, gathered: bool = False
    ) -> Awaitable[list[Appended | DuramenError]]:
        """Append batches, usually of several partitions, together; each succeeds or fails by itself, in its place.

        The same promise as `append` for each of them, at the cost of one commit where the engine can share it.
        `gathered`: everything that wants to be written now is in it. An engine on a quick disk may then commit in the
        caller's thread, and return a future that is done.
        """
        ...

    def read(
        self, partition: PartitionId, start: Offset, *, follow: bool, chunk_bytes: int = 1 << 20
    ) -> AsyncGenerator[ReadChunk, None]:
        """Yield stored batches from the one that holds `start`, in chunks of about `chunk_bytes`.

        With `follow` it waits for more at the end, else it stops there. `start` may be one past the latest.
        Raises `OffsetTrimmed`, `TokenAhead`, `TableNotFound`, `LogDamaged`. Close it with `aclose()`.
        """
        ...

    async def bounds(self, partition: PartitionId) -> Bounds:
        """The earliest and latest offset that can be read. Raises `TableNotFound`."""
        ...

    async def all_bounds(self, topic: TableId) -> list[Bounds]:
        """The bounds of every partition, by partition, in one question. Raises `TableNotFound`."""
        ...

    async def trim(self, partition: PartitionId, before: Offset) -> Offset:
        """Allow the removal of records below `before`; return the earliest offset that is left.

        Engines remove whole segments, so some records below `before` may stay.
        """
        ...

    async def retain(self, partition: PartitionId, retention: Retention, *, below: Offset) -> Offset:
        """Remove the oldest records that these bounds let go, none at `below` or beyond; return the earliest offset
        that is left. See `log_tier.model.retention`. With `below` 0 it removes nothing and checks the bounds.

        Raises `InvalidRequest` where the engine cannot keep to one of the bounds.
        """
        ...

    async def compact(self, partition: PartitionId, below: Offset) -> int:
        """Drop records below `below` that later unconditional writes of their keys made void; return how many.

        A replica that folds what is left from the beginning reaches the same state as one that folded everything.
        Raises `InvalidRequest` where the engine cannot know what is void.
        """
        ...

    async def close(self) -> None:
        """Finish what was accepted, then let go of everything."""
        ...
