"""Waiting for the replicas of a table's only partition."""

from __future__ import annotations

from kit.cluster.in_process import TestCluster
from kit.deadlines import until
from log_tier.model.identifiers import Offset
from log_tier.model.table_ref import TableRef
from serving_tier.replica.replica import Replica

__all__ = ["level"]


async def level(cluster: TestCluster, table: TableRef, last: Offset) -> list[Replica]:
    """The three replicas, when each has applied `last`."""

    def is_level() -> bool:
        found = cluster.replicas(table, 0)
        return len(found) == 3 and all(each.applied >= last and each.state == "ready" for each in found)

    await until(is_level)
    return cluster.replicas(table, 0)
