"""Lists about the partitions of one table, from messages: as long as a table can have partitions, and no longer."""

from __future__ import annotations

from collections.abc import Sequence

from log_tier.model.errors import LimitExceeded
from log_tier.model.identifiers import PARTITIONS_MAX, Offset, Partition
from router.proto import keyvalue_pb2 as kv

__all__ = ["check_length", "offsets_from", "partitions_from"]


def partitions_from(numbers: Sequence[int]) -> tuple[Partition, ...]:
    """The named partitions, each once. Raises `LimitExceeded`."""
    check_length(numbers)
    return tuple(Partition(number) for number in dict.fromkeys(numbers))


def offsets_from(entries: Sequence[kv.PartitionOffset]) -> dict[Partition, Offset]:
    """An offset for each partition that is named. Raises `LimitExceeded`."""
    check_length(entries)
    return {Partition(entry.partition): Offset(entry.offset) for entry in entries}


def check_length(entries: Sequence[object]) -> None:
    """Raises `LimitExceeded` where more is named than a table has partitions. O(1)."""
    if len(entries) > PARTITIONS_MAX:
        raise LimitExceeded(
            f"the request names {len(entries)} partitions, a table has at most {PARTITIONS_MAX}: name each once",
            limit=PARTITIONS_MAX,
            size=len(entries),
        )
