"""Changing how much of its log a table keeps, for every way that leads there."""

from __future__ import annotations

from log_tier.catalog.catalog import Catalog
from log_tier.catalog.cluster_map import TableEntry
from log_tier.catalog.commands import SetRetention
from log_tier.model.errors import InvalidName, InvalidRequest
from log_tier.model.identifiers import SERVERS_TABLES, Offset
from log_tier.model.log import Log, Topic
from log_tier.model.retention import Retention, check_retention

__all__ = ["change_retention", "check_log_keeps", "check_not_servers"]


async def check_log_keeps(log: Log, topic: Topic, retention: Retention) -> None:
    """Raises `InvalidRequest` where this log cannot keep to one of the bounds. Removes nothing."""
    if retention.is_bounded:
        await log.retain(topic.partition(0), retention, below=Offset(0))


def check_not_servers(name: str) -> None:
    """Raises `InvalidName` for a table that servers alone write."""
    if name in SERVERS_TABLES:
        raise InvalidName(f"{name} is written by the servers alone: nobody can drop it, or change how long it stays")


async def change_retention(
    catalog: Catalog, log: Log, table: TableEntry, *, ms: int | None, size: int | None
) -> TableEntry:
    """Change a table's bounds; None: as it is. They hold from the next round of the nodes on, within a minute.

    Raises `InvalidRequest` for no bound at all, or one that this log cannot keep to, `InvalidName` for a table of the
    servers, and `CommandRejected` for a table
    over a topic of others.
    """
    check_not_servers(table.name)
    if ms is None and size is None:
        raise InvalidRequest("name what is to change: retention_ms, retention_bytes, or both (0: no bound)")
    retention = check_retention(
        Retention(table.retention_ms if ms is None else ms, table.retention_bytes if size is None else size)
    )
    if not table.adopted:
        await check_log_keeps(log, table.topic, retention)
    _, cluster = await catalog.submit(SetRetention(table.id, retention.ms, retention.bytes))
    return cluster.table(table.id)
