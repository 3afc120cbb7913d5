"""What calls return: entries, what became of writes, changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from log_tier.model.identifiers import Offset, Partition, TableId
from log_tier.model.partitioner import Partitioner
from log_tier.model.record import Operation
from log_tier.model.tokens import Token

__all__ = ["Change", "Done", "Entry", "ManyDone", "Number", "TableInfo"]

Number = int | float


class Entry(NamedTuple):
    """A key's value and where it comes from."""

    value: bytes
    version: Offset
    """The offset of the last write: give it to `if_version=`."""
    expires_at_ms: int
    """Milliseconds since 1970; 0: never."""


class Done(NamedTuple):
    """A write that is on stable storage."""

    table_id: TableId
    partition: Partition
    offset: Offset
    """Its place in the log, and the key's version from then on: give it to `if_version=`. Of a write that had to be
    sent again, the place of the copy that counts."""
    value: Number | None = None
    """After `update`: the new value; after an append: the new length."""

    @property
    def token(self) -> str:
        """Give it to `after=`, here or in any other process: that read sees this write."""
        return str(Token.of(self.table_id, self.partition, self.offset))


class ManyDone(NamedTuple):
    """Several writes that are on stable storage."""

    table_id: TableId
    records: int
    offsets: Mapping[Partition, Offset]
    """The last offset in each partition that was written to."""

    @property
    def token(self) -> str:
        """A read with this token sees all of them."""
        return str(Token({self.table_id: self.offsets}))


@dataclass(frozen=True, slots=True)
class Change:
    """One accepted record of a table's log."""

    table_id: TableId
    partition: Partition
    offset: Offset
    timestamp_ms: int
    """When the log took it."""
    operation: Operation
    key: bytes
    value: bytes | None
    """The value put, or the operand of an update as it was written; None for a delete. Of a BARRIER, which says that
    the table went over to another version of its content: what the log says of it, as JSON."""
    before: Mapping[Partition, Offset]
    """What the watch had shown of all partitions when it came to this run of changes."""

    @property
    def token(self) -> str:
        """A watch `after` this token goes on with the next change."""
        return str(Token({self.table_id: {**self.before, self.partition: self.offset}}))


class TableInfo(NamedTuple):
    """A table's name and shape."""

    id: TableId
    name: str
    partitions: int
    partitioner: Partitioner = "slot"
    over: str = ""
    """The topic of others that it lies over; empty where its topic is its own."""
