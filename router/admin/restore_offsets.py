"""To which offset of each partition a table is restored: those of a token, or of a time."""

from __future__ import annotations

from collections.abc import Mapping

from log_tier.catalog.cluster_map import TableEntry
from log_tier.model.errors import InvalidRequest
from log_tier.model.identifiers import Offset, Partition
from log_tier.model.log import Log
from log_tier.model.tokens import Token
from router.admin.answers.log_times import newest_time, offset_at_time
from router.admin.planners.cluster_view import Situation
from router.admin.planners.restore import check_restorable
from router.admin.verbs import RestoreTable

__all__ = ["restore_offsets"]


async def restore_offsets(
    situation: Situation, log: Log, table: TableEntry, change: RestoreTable
) -> Mapping[Partition, Offset]:
    """The offset to which each partition is restored. Raises if one of them cannot be restored to it (any more)."""
    if bool(change.token) == (change.time_ms is not None):
        raise InvalidRequest("a table is restored at a token or at a time: give one of them")
    bounds = await log.all_bounds(table.id)
    found: dict[Partition, Offset] = {}
    time_ms = change.time_ms
    if change.token:
        found.update(Token.parse(change.token).offsets(table.id, table_name=table.name))
        strange = [partition for partition in found if partition >= table.partitions]
        if strange or not found:
            raise InvalidRequest(f"the token names no offset of table {table.name} that could be restored")
        for partition, offset in found.items():
            check_restorable(situation, table.partition(partition), offset, bounds[partition])
        time_ms = 0
        if len(found) < table.partitions:
            time_ms = await newest_time(situation, log, table, found, bounds)
    assert time_ms is not None, "a restore names a token or a time"
    for place in table.partition_ids():
        if place.partition not in found:
            offset = await offset_at_time(log, place, time_ms)
            check_restorable(situation, place, offset, bounds[place.partition], time_ms=time_ms)
            found[place.partition] = offset
    return found
