"""Partitions as an observation has them, with the offsets that a test is about."""

from __future__ import annotations

from duramen.server.sight.observed import PartitionStatus

__all__ = ["seen_partition", "seen_partitions"]


def seen_partition(
    number: int, last: int, applied: int, *, table: str = "orders", state: str = "ready"
) -> PartitionStatus:
    """One partition, level or not."""
    return PartitionStatus(table, number, state, first=0, last=last, applied=applied, lag_s=0.0, ready=1)


def seen_partitions(count: int, last: int = 10, applied: int = 10) -> tuple[PartitionStatus, ...]:
    """So many partitions of one table, all alike."""
    return tuple(seen_partition(number, last, applied) for number in range(count))
