"""When a partition's next snapshot is due. Pure: the clock is an argument.

Every holder of a partition watches the same list of known snapshots, in the catalog. The first one takes the next
snapshot when the newest was known for `every_s`; the second waits a quarter longer, and so on: so one of them takes it,
nobody has to say who, and where the first one is away the second one does it.

A snapshot of before a swap, a rollback or a clearing cannot restore the table alone. The next one is due at once: after
a rollback, the content may be in the replicas and nowhere else.

The age counts from when this node first saw the snapshot, on its monotonic clock. A node whose wall clock is wrong
takes its snapshots at the right distance all the same; one that was just started waits a whole interval.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from log_tier.model.identifiers import NOTHING, Offset, PartitionId

__all__ = ["SnapshotSchedule"]

# How much longer the next in line waits: long enough for a snapshot to be taken and made known.
_RANK_SHARE: Final = 0.25


class SnapshotSchedule:
    """Remembers when each partition's newest snapshot was first seen. One for each node, which calls `keep`."""

    def __init__(self, every_s: float) -> None:
        assert every_s > 0, f"a snapshot every {every_s} s"
        self._every_s = every_s
        self._failed: set[PartitionId] = set()
        """Partitions whose last snapshot by this node has failed."""
        self._seen: dict[PartitionId, tuple[Offset, bool, float]] = {}

    def is_due(
        self, name: PartitionId, *, newest: Offset, applied: Offset, rank: int, now_s: float, overtaken: bool = False
    ) -> bool:
        """Is it this node's turn? `newest`: the offset of the newest known snapshot, -1 where there is none.
        `overtaken`: another version went live behind it, so the first holder takes the next one at once.
        """
        overtaken = overtaken and name not in self._failed
        seen = self._seen.get(name)
        if seen is None or seen[:2] != (newest, overtaken):
            seen = self._seen[name] = (newest, overtaken, now_s)
        if applied <= newest or applied == NOTHING:
            return False  # it would hold nothing new
        return now_s - seen[2] >= self._every_s * ((0 if overtaken else 1) + _RANK_SHARE * rank)

    def forget(self, name: PartitionId) -> None:
        """Forget a partition whose snapshot has failed, as if this node had not seen its newest one yet: the next try
        is after an interval. Harmless where none is known.
        """
        self._seen.pop(name, None)
        self._failed.add(name)

    def taken(self, name: PartitionId) -> None:
        """This node has taken a snapshot of a partition."""
        self._failed.discard(name)

    def keep(self, hosted: Container[PartitionId]) -> None:
        """Forget the partitions that are not among `hosted`: tables come and go. O(partitions)."""
        self._seen = {name: seen for name, seen in self._seen.items() if name in hosted}
        self._failed = {name for name in self._failed if name in hosted}
