"""A table as its callers know it: which one it is, and where a key of it lives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from log_tier.model.identifiers import Partition, PartitionId, TableId, partition_id
from log_tier.model.partitioner import Partitioner, partition_function

__all__ = ["TableRef"]


@dataclass(frozen=True, slots=True)
class TableRef:
    """Enough to read and write a table, and never stale: none of it changes while the table lives."""

    id: TableId
    name: str
    partitions: int
    partitioner: Partitioner = "slot"
    over: str = ""
    """The name of the adopted topic; empty where the table has a topic of its own."""
    defined: bool = False
    """It has a definition (`log_tier.rows.definition`): what is in it are not just any bytes."""
    partition_of: Callable[[bytes], Partition] = field(init=False, repr=False, compare=False)
    """The partition of a key. A function of this table's own, because every call on a key begins with it."""

    def partition(self, number: int) -> PartitionId:
        """The identity of one of its partitions."""
        return partition_id(self.id, number)

    def __post_init__(self) -> None:
        object.__setattr__(self, "partition_of", partition_function(self.partitions, self.partitioner))
