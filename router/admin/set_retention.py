"""Change how much of its log a table keeps, and report what that comes to now."""

from __future__ import annotations

from typing import Final

from log_tier.catalog.catalog import Catalog
from log_tier.model.log import Log
from router.admin.planners.cluster_view import Situation
from router.admin.planners.upkeep import held_by
from router.data.catalog_tables import change_retention
from router.proto import admin_pb2 as pb

__all__ = ["set_retention"]

# One note says it for all: a table has up to 1,024 partitions.
_NOTES_MAX: Final = 5


async def set_retention(
    catalog: Catalog, log: Log, situation: Situation, *, table: str, ms: int | None, size: int | None
) -> pb.AdminRetention:
    """Change a table's bounds; None: as it is. They hold from the next round of the nodes on, within a minute.

    Raises `InvalidRequest` for no bound at all, or one that this log cannot keep to, `TableNotFound`, and
    `CommandRejected` for a table over a topic of others.
    """
    entry = situation.table(table)
    changed = await change_retention(catalog, log, entry, ms=ms, size=size)
    retention = changed.retention
    after = Situation(catalog.map.with_table(changed), situation.nodes)
    notes = [
        f"{entry.name}/{place.partition} keeps everything: {reason}"
        for place in entry.partition_ids()
        if (reason := held_by(after, place))
    ]
    if len(notes) > _NOTES_MAX:
        notes[_NOTES_MAX:] = [f"and {len(notes) - _NOTES_MAX} more partitions"]
    return pb.AdminRetention(table=entry.name, retention_ms=retention.ms, retention_bytes=retention.bytes, notes=notes)
