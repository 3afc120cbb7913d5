"""Results of calls: entries, acknowledged writes, changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, NamedTuple, TypeVar

from log_tier.model.identifiers import Offset, Partition, TableId
from log_tier.model.partitioner import Partitioner
from log_tier.model.record import Operation
from log_tier.model.tokens import Token
from serving_tier.fold.numbers import Number

__all__ = ["Before", "Change", "Done", "Entry", "KeyDifference", "KeyVersion", "ManyDone", "Number", "TableInfo"]

K = TypeVar("K")
V = TypeVar("V")


class Entry(NamedTuple):
    """A key's value, version and expiry."""

    value: bytes
    version: Offset
    """The offset of the last write: pass it to `if_version=`."""
    expires_at_ms: int
    """Milliseconds since 1970; 0: never."""


class Done(NamedTuple):
    """An acknowledged write: it is on stable storage."""

    table_id: TableId
    partition: Partition
    offset: Offset
    """The record's place in the log, and the key's version until the next write: pass it to `if_version=`. If the
    write was sent twice, this is the offset of the copy that took effect."""
    value: Number | None = None
    """After `update`: the new value; after an append: the new length."""

    @property
    def token(self) -> str:
        """Pass it to `after=` of a read, in this or any other process: that read sees this write."""
        return str(Token.of(self.table_id, self.partition, self.offset))


class ManyDone(NamedTuple):
    """Several acknowledged writes: all are on stable storage."""

    table_id: TableId
    records: int
    offsets: Mapping[Partition, Offset]
    """The last offset in each partition that was written to."""

    @property
    def token(self) -> str:
        """Pass it to `after=` of a read: it sees all of these writes."""
        return str(Token({self.table_id: self.offsets}))


@dataclass(frozen=True, slots=True)
class Change:
    """One accepted record of a table's log."""

    table_id: TableId
    partition: Partition
    offset: Offset
    timestamp_ms: int
    """When the log appended it, in milliseconds since 1970."""
    operation: Operation
    key: bytes
    value: bytes | None
    """The value of a put, or the operand of an update; None for a delete. For a BARRIER (the table went over to another
    version of its content, or to another definition), the barrier as JSON."""
    shown: Mapping[Partition, Offset]
    """The offsets of all partitions that the watch had shown before this run of changes."""
    before: bytes | None = None
    """Of a table that keeps a history: the value that the key had until this change, of an atomic group until the
    group; None: it had none, or `before_is_kept` is false. It is asked for when the change has come."""
    before_is_kept: bool = False
    """Is `before` known? Not where the table keeps no history, where its history begins later, as it does for a version
    that was swapped in after the change, or where the record is a BARRIER."""

    @property
    def token(self) -> str:
        """Pass it to `watch(after=…)`: that watch begins with the next change."""
        return str(Token({self.table_id: {**self.shown, self.partition: self.offset}}))


class Before(NamedTuple):
    """What a change replaced."""

    value: bytes | None
    """None: nothing, or it is not known."""
    is_kept: bool
    """Is it known? Not where the table keeps no history, or none of so long ago."""


@dataclass(frozen=True, slots=True)
class KeyVersion(Generic[V]):
    """One version of a key, of a table that keeps a history."""

    table_id: TableId
    partition: Partition
    offset: Offset
    """Of the change that made it."""
    value: V | None
    """None: the key was deleted."""
    expires_at_ms: int
    """Milliseconds since 1970; 0: never."""
    time: datetime | None
    """When the log appended the change; None where that was before what a history by age keeps."""

    @property
    def token(self) -> str:
        """Pass it to `at=` of a read: the key had this version then."""
        return str(Token.of(self.table_id, self.partition, self.offset))


@dataclass(frozen=True, slots=True)
class KeyDifference(Generic[K, V]):
    """A key whose value is another one in two states of a table that keeps a history."""

    key: K
    """Of rows and of keys with fields, the tuple of its fields."""
    before: V | None
    """Its value in the first state; None: it was not there."""
    after: V | None
    """Its value in the second state; None: it was not there."""


class TableInfo(NamedTuple):
    """A table's name and shape."""

    id: TableId
    name: str
    partitions: int
    partitioner: Partitioner = "slot"
    over: str = ""
    """The existing topic that is its log (`over=`); empty if Duramen made the topic."""
