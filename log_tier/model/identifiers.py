"""The names of things: small types that keep an offset from being passed where a partition belongs.

One convention holds everywhere in Duramen: **offsets are inclusive**. `latest` is the offset of the last record that
was written, `applied` the offset of the last record that was folded, a token's entry the last offset that was seen.
"Nothing yet" is therefore `NOTHING` = -1, and the next offset to be written is `latest + 1`.

Ranges of offsets are written `5-7 12`: what a repair finds missing, and what an operator gives up.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple, NewType, Self

from log_tier.model.errors import InvalidName, InvalidRequest

__all__ = [
    "ANYTHING",
    "AUDIT_TABLE",
    "FIRST",
    "HISTORY_TABLE",
    "NAME_LENGTH_MAX",
    "NOTHING",
    "PARTITIONS_MAX",
    "RANGES_MAX",
    "REPLICAS_MAX",
    "RESERVED_PREFIX",
    "SERVERS_TABLES",
    "Offset",
    "OffsetRange",
    "Partition",
    "PartitionId",
    "PartitionName",
    "TableId",
    "check_adopted_name",
    "check_name",
    "merged_ranges",
    "parse_range",
    "parse_ranges",
    "partition_id",
    "partition_id_from_bytes",
    "ranges_text",
    "ranges_without",
    "table_id_from_bytes",
    "table_id_to_bytes",
]

Offset = NewType("Offset", int)
"""A record's number in its partition, from 0; -1 (`NOTHING`) means "before the first record"."""

Partition = NewType("Partition", int)
"""A partition's number inside its table, from 0."""

TableId = NewType("TableId", str)
"""128 random bits as 22 characters of URL-safe base64 (the form in which Kafka prints topic ids). Never reused."""


class PartitionId(NamedTuple):
    """One partition of one table: what the log, a node and the data plane are called with.

    Making one costs some six times what a plain pair does. So code that serves a partition keeps one, and
    `partition_id` and `partition_id_from_bytes` remember those that they made.
    """

    table: TableId
    partition: Partition

    def __str__(self) -> str:
        return f"{self.table}/{self.partition}"


class PartitionName(str):
    """How messages name a partition: `table/partition`, as text that knows both. Log lines in JSON have both."""

    __slots__ = ("number", "table")

    table: str
    number: int

    def __new__(cls, table: str, partition: int) -> Self:
        name = super().__new__(cls, f"{table}/{partition}")
        name.table, name.number = table, partition
        return name


FIRST: Final = Offset(0)
"""Where a partition begins, unless it is an adopted topic's."""

NOTHING: Final = Offset(-1)

ANYTHING: Final = Offset(-2)
"""The offset of a read that takes an index as it is (level `eventual`). A new session reads with `NOTHING`."""

# A partition costs two files, an LMDB environment and a follower: past a thousand in one table the cost is real and the
# gain is not. Redis Cluster and Venice live with fewer.
PARTITIONS_MAX: Final = 1024

# Beyond this many copies of the same data, the caller has mistaken one number for another.
REPLICAS_MAX: Final = 64

RESERVED_PREFIX: Final = "_duramen"
"""Tables and topics whose names begin so are Duramen's own."""

AUDIT_TABLE: Final = "_duramen_audit"
"""The table of the audit, which the servers make and write."""

HISTORY_TABLE: Final = "_duramen_history"
"""The table of what servers were like in the last week, which they make and write."""

SERVERS_TABLES: Final = frozenset({AUDIT_TABLE, HISTORY_TABLE})
"""Tables that callers may read, and neither make, write, change nor drop."""

# Names become parts of topic names in Kafka (249 at most, with a prefix) and of lines in a terminal.
NAME_LENGTH_MAX: Final = 120

# Every message names its tables by 16 bytes, everything inside by text. With this many ids at hand, some 300 bytes
# each, a request converts none; a process that uses more tables converts some again, for 1.5 us each.
_TABLE_IDS_KEPT: Final = 4096

# The same for partitions: a node serves some thousands.
_PARTITION_IDS_KEPT: Final = 16_384

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")

# What Kafka allows as a topic's name: an adopted topic may have any such name.
_ADOPTED_NAME = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,249}")


def check_name(name: str, *, what: str = "table") -> str:
    """Return `name` if it can name a table or a topic; raise `InvalidName` saying what is allowed otherwise."""
    if not isinstance(name, str):
        raise InvalidName(f"a {what} name is text, this is {type(name).__name__}")
    if not _NAME.fullmatch(name) or len(name) > NAME_LENGTH_MAX:
        raise InvalidName(
            f"{name!r} cannot name a {what}: use 1 to {NAME_LENGTH_MAX} letters, digits, '_', '-' or '.', "
            "and start with a letter, a digit or '_'"
        )
    return name


def check_adopted_name(name: str) -> str:
    """Return `name` if it can be the name of a topic of others; raise `InvalidName` otherwise."""
    if not isinstance(name, str):
        raise InvalidName(f"a topic's name is text, this is {type(name).__name__}")
    if not _ADOPTED_NAME.fullmatch(name):
        raise InvalidName(
            f"{name!r} cannot be a topic of others: Kafka's topics have names of 1 to 249 letters, digits, '_', '-' "
            "and '.'"
        )
    return name


@lru_cache(maxsize=_TABLE_IDS_KEPT)
def table_id_to_bytes(table_id: TableId) -> bytes:
    """The 16 bytes behind a table id. Raises `InvalidRequest` where the text is no table id."""
    try:
        raw = base64.urlsafe_b64decode(table_id + "==")
    except (binascii.Error, ValueError) as error:
        raise InvalidRequest(f"{table_id!r} is no table id: {error}") from error
    if len(raw) != 16:
        raise InvalidRequest(f"{table_id!r} is no table id: it holds {len(raw)} bytes, not 16")
    return raw


@lru_cache(maxsize=_TABLE_IDS_KEPT)
def table_id_from_bytes(raw: bytes) -> TableId:
    """The text of a table id from its 16 bytes."""
    if len(raw) != 16:
        raise InvalidRequest(f"a table id has 16 bytes, not {len(raw)}")
    return TableId(base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii"))


@lru_cache(maxsize=_PARTITION_IDS_KEPT)
def partition_id(table: TableId, partition: int) -> PartitionId:
    """The identity of a partition: the same object at each call, as long as the cache holds it."""
    return PartitionId(table, Partition(partition))


@lru_cache(maxsize=_PARTITION_IDS_KEPT)
def partition_id_from_bytes(table_id: bytes, partition: int) -> PartitionId:
    """The partition that a message names. Raises `InvalidRequest` where `table_id` is none."""
    return partition_id(table_id_from_bytes(table_id), partition)


# A checkpoint, which is at most 4 KiB, names the ranges that were given up: a range has up to 40 characters.
RANGES_MAX: Final = 64

_RANGE: Final = re.compile(r"(\d{1,19})(?:-(\d{1,19}))?", re.ASCII)


class OffsetRange(NamedTuple):
    """Offsets of one partition, both ends inclusive. Invariant: `first <= last`."""

    first: Offset
    last: Offset

    def __str__(self) -> str:
        return f"offset {self.first}" if self.first == self.last else f"offsets {self.first} to {self.last}"

    @property
    def text(self) -> str:
        """The range as it is typed: `5-7`, or `12` for a single offset."""
        return f"{self.first}" if self.first == self.last else f"{self.first}-{self.last}"

    @property
    def end(self) -> Offset:
        """The offset after the last one."""
        return Offset(self.last + 1)


def merged_ranges(ranges: Iterable[OffsetRange]) -> tuple[OffsetRange, ...]:
    """The same offsets as rising ranges that neither overlap nor touch."""
    found: list[OffsetRange] = []
    for each in sorted(ranges):
        if found and each.first <= found[-1].end:
            found[-1] = OffsetRange(found[-1].first, max(found[-1].last, each.last))
        else:
            found.append(each)
    return tuple(found)


def ranges_without(ranges: Iterable[OffsetRange], others: Iterable[OffsetRange]) -> tuple[OffsetRange, ...]:
    """The offsets of `ranges` that none of `others` has."""
    left: list[OffsetRange] = []
    removed = merged_ranges(others)
    for first, last in merged_ranges(ranges):
        for other in removed:
            if other.last < first or other.first > last:
                continue
            if other.first > first:
                left.append(OffsetRange(first, Offset(other.first - 1)))
            first = other.end
        if first <= last:
            left.append(OffsetRange(first, last))
    return tuple(left)


def parse_range(text: str) -> OffsetRange:
    """`5-7` or `12`. Raises `ValueError`."""
    found = _RANGE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no FIRST-LAST, like 5-7 or 12")
    first = int(found[1])
    last = first if found[2] is None else int(found[2])
    if last < first:
        raise ValueError(f"{text!r} ends before it begins")
    return OffsetRange(Offset(first), Offset(last))


def parse_ranges(text: str) -> tuple[OffsetRange, ...]:
    """What `ranges_text` wrote. Raises `ValueError`."""
    return merged_ranges(map(parse_range, text.split()))


def ranges_text(ranges: Iterable[OffsetRange]) -> str:
    """The ranges as one line, rising."""
    return " ".join(each.text for each in merged_ranges(ranges))
