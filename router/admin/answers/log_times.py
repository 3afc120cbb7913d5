"""Which offset a time is: the log stamps every batch, and its stamps never fall within a partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final

from log_tier.catalog.cluster_map import TableEntry
from log_tier.model.batch_header import BatchHeader, read_header
from log_tier.model.identifiers import Offset, Partition, PartitionId
from log_tier.model.log import Bounds, Log
from router.admin.planners.cluster_view import Situation

__all__ = ["header_at", "newest_time", "offset_at_time"]

# A probe wants one header; a log gives at least one whole batch.
_PROBE_BYTES: Final = 4096


async def header_at(log: Log, partition: PartitionId, offset: Offset) -> BatchHeader | None:
    """The header of the first stored batch that reaches `offset`; None behind the log's end.

    Raises as `Log.read` does. One read of a batch.
    """
    reader: Any = log.read(partition, offset, follow=False, chunk_bytes=_PROBE_BYTES)
    async with aclosing(reader) as chunks:
        async for chunk in chunks:
            return read_header(chunk.data)
    return None


async def offset_at_time(log: Log, partition: PartitionId, time_ms: int) -> Offset:
    """The last offset that was written at `time_ms` (ms since 1970) or before; the one below the log's earliest where
    all that is left is younger.

    By halves: some log2(offsets) reads of one batch each. Raises as `Log.read` does, `OffsetTrimmed` where the log is
    being trimmed under it.
    """
    low, high, *_ = await log.bounds(partition)
    found = Offset(low - 1)
    while low <= high:
        middle = Offset((low + high) // 2)
        header = await header_at(log, partition, middle)
        if header is None or header.timestamp_ms > time_ms:
            # Where compaction left a gap at `middle`, the batch begins beyond it, and nothing lies between.
            high = Offset(min(middle, header.base_offset if header is not None else middle) - 1)
        else:
            found = Offset(min(header.last_offset, high))
            low = Offset(found + 1)
    return found


async def newest_time(
    situation: Situation,
    log: Log,
    table: TableEntry,
    offsets: Mapping[Partition, Offset],
    bounds: Sequence[Bounds],
) -> int:
    """When the newest of these records was written; one that was trimmed counts by its snapshot."""
    times = [0]
    for partition, offset in offsets.items():
        if offset < bounds[partition].earliest:  # a snapshot has that offset, or there is nothing
            known = situation.cluster.snapshots_of(table.partition(partition))
            times.extend(snapshot.log_time_ms for snapshot in known if snapshot.offset == offset)
            continue
        header = await header_at(log, table.partition(partition), offset)
        if header is not None:
            times.append(header.timestamp_ms)
    return max(times)
