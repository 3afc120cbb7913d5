"""How far a table's retention may shorten the log of one partition. Pure.

The bounds by age and size say what may go (`log_tier.model.retention`). Here is what must stay whatever they say:

- what the newest verified snapshot behind the last barrier does not cover (I11): without one, everything;
- everything, while a job puts barriers into the log;
- what a replica that is alive has not applied;
- everything, while a job copies the partition, or replays it from an older snapshot: a job that shortens the log and
  one that reads it do not meet.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from log_tier.catalog.actions import COPIES_INDEX, Action
from log_tier.catalog.cluster_map import ClusterMap
from log_tier.catalog.jobs import Task
from log_tier.model.identifiers import Offset, PartitionId

__all__ = ["TrimLimit", "trim_limit"]

_NOTHING_GOES: Final = Offset(0)

_READS_THE_LOG: Final = COPIES_INDEX - {Action.SNAPSHOT}
"""Actions that begin with a copy and go on in the log behind it. A snapshot reads the index alone."""


class TrimLimit(NamedTuple):
    """The offset below which a partition's log may be trimmed, or the reason why no record may go."""

    below: Offset
    """Records at this offset and beyond stay; 0: all stay."""
    held_by: str
    """Why nothing may go; empty where something may."""


def trim_limit(cluster: ClusterMap, partition: PartitionId, applied: Iterable[Offset]) -> TrimLimit:
    """The limit of one partition. `applied`: the offset of each of its live replicas. O(tasks under way)."""
    table = cluster.table(partition.table)
    swapping = cluster.swapping(table)
    if swapping is not None:
        return TrimLimit(_NOTHING_GOES, f"job {swapping.id} ({swapping.kind}) puts barriers into it")
    newest = cluster.covering(partition)
    if newest is None:
        since = f" since version {table.live_version} went live" if table.last_swap >= 0 else ""
        return TrimLimit(
            _NOTHING_GOES, f"no verified snapshot of it is known{since}: take one (`duramen admin snapshot`)"
        )
    for job, _, task in cluster.unfinished_tasks():
        if _reads(task, partition):
            return TrimLimit(_NOTHING_GOES, f"job {job.id} ({job.kind}) reads it")
    for version in table.versions:
        if version.state in ("staging", "staged"):
            return TrimLimit(_NOTHING_GOES, f"version {version.number} is {version.state} and may need it")
    seen = min(applied, default=newest.offset)
    return TrimLimit(Offset(min(newest.offset, seen) + 1), "")


def _reads(task: Task, partition: PartitionId) -> bool:
    if task.action not in _READS_THE_LOG:
        return False
    if task.action == Action.COPY:  # its own place is the one that it writes to
        source = (task.arguments.get("source_table"), task.arguments.get("source_partition"))
        return source == partition
    return task.partition_id == partition
