"""By what a server reaches the table of its history."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

from log_tier.catalog.service import ServerRole
from log_tier.model.identifiers import HISTORY_TABLE, PartitionId
from log_tier.model.log import Appended
from router.data.local_data import LocalData
from router.data.seam import Connection

__all__ = ["AppendsBatches", "HistorySources", "history_sources"]


class AppendsBatches(Protocol):
    """A log."""

    async def append(self, partition: PartitionId, batch: bytes) -> Appended:
        """Append one encoded batch to a partition; return when it is on stable storage."""
        ...


class HistorySources(NamedTuple):
    """By what a server reaches the table."""

    log: AppendsBatches
    connect: Callable[[], Awaitable[Connection]]
    """A way to the data, which stays its owner's."""
    series: str
    """Whose rows: `node/n1`, `router/router`."""


def history_sources(
    role: ServerRole,
    name: str,
    log: AppendsBatches,
    data: Connection,
    near: Callable[[], Awaitable[Connection]] | None = None,
) -> HistorySources:
    """By what a role reaches the table. `near`: how a node reads a table that it does not hold."""

    async def connect() -> Connection:
        if near is None or not isinstance(data, LocalData):
            return data
        table = data.catalog.map.named(HISTORY_TABLE)
        is_here = table is None or any(assigned.node == name for assigned in table.assignments[0])
        # Only where it must: a node that reads elsewhere follows the status of all others from then on.
        return data if is_here else await near()

    return HistorySources(log, connect, f"{role}/{name}")
