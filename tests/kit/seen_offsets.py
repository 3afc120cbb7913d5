"""What a session has seen, as the direct reads look at it."""

from __future__ import annotations

from log_tier.model.identifiers import NOTHING, Offset, Partition
from log_tier.model.table_ref import TableRef

__all__ = ["SeenOffsets"]


class SeenOffsets:
    """Called with a table, its live list by partition."""

    def __init__(self) -> None:
        self.offsets: dict[str, list[Offset]] = {}

    def __call__(self, table: TableRef) -> list[Offset]:
        return self.offsets.setdefault(table.id, [NOTHING] * table.partitions)

    def saw(self, table: TableRef, partition: Partition, offset: Offset) -> None:
        """It rises only."""
        self(table)[partition] = max(self(table)[partition], offset)
