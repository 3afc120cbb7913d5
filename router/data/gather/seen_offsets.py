"""What the owner of a gatherer has seen: the offsets that its reads must contain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from log_tier.model.identifiers import NOTHING, Offset, Partition
from log_tier.model.table_ref import TableRef

__all__ = ["NoSession", "SeenOffsets"]


class SeenOffsets(Protocol):
    """Offsets by table and partition, which only rise. The Python client's session is one."""

    def offsets(self, table: TableRef) -> Sequence[Offset]:
        """What was seen of a table, by partition: read at each request, not changed here."""
        ...

    def saw(self, table: TableRef, partition: Partition, offset: Offset) -> None:
        """A reply came from a state that holds `offset`."""
        ...


class NoSession:
    """For a server whose callers carry what they have seen in their own tokens: it remembers nothing."""

    def offsets(self, table: TableRef) -> Sequence[Offset]:
        """No read has to contain anything but what it names."""
        return [NOTHING] * table.partitions

    def saw(self, table: TableRef, partition: Partition, offset: Offset) -> None:
        """Ignore the offset."""
