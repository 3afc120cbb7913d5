"""A table's state as this process knows it: the log's bounds, and how far the replicas here are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from log_tier.catalog.cluster_map import TableEntry
from log_tier.concurrency.sized_work import Turn
from log_tier.model.errors import DuramenError, NotHosted
from log_tier.model.identifiers import NOTHING, PartitionId
from log_tier.model.log import Bounds
from router.data.requests import PartitionDescription, TableDescription
from serving_tier.node.node import Node

__all__ = ["describe_table"]

# A partition costs as much as so many keys: two reads of its index.
_PARTITION_ITEMS: Final = 10


async def describe_table(node: Node, table: TableEntry, bounds: Sequence[Bounds]) -> TableDescription:
    """A description; `bounds`: of each partition's log. Some 30 µs a partition, over as many turns as that takes."""
    found: list[PartitionDescription] = []
    turn = Turn()
    for partition in table.partition_ids():
        found.append(_described(node, table, partition, bounds[partition.partition]))
        if turn.is_full(_PARTITION_ITEMS):
            await turn.end()
    return TableDescription(table.ref, found, table.retention)


def _described(node: Node, table: TableEntry, partition: PartitionId, bounds: Bounds) -> PartitionDescription:
    number = partition.partition
    holders = tuple(replica.node for replica in table.assignments[number])
    try:
        replica = node.replica(partition)
        statistics = replica.index.statistics()
        return PartitionDescription(
            number,
            bounds.earliest,
            bounds.latest,
            replica.index.applied,
            replica.index.count(),
            statistics.bytes_used,
            replica.state,
            replica.failure.message if replica.failure else "",
            holders,
        )
    except NotHosted as error:
        return PartitionDescription(
            number, bounds.earliest, bounds.latest, NOTHING, 0, 0, "elsewhere", error.message, holders
        )
    except DuramenError as error:
        return PartitionDescription(
            number, bounds.earliest, bounds.latest, NOTHING, 0, 0, "stopped", error.message, holders
        )
