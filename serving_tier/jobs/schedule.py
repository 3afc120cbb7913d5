"""When a partition's next snapshot is due. Pure: the clock is an argument.

Every holder of a partition watches the same list of known snapshots, in the catalog. The first one takes the next
snapshot when the newest was known for `every_s`; the second waits a quarter longer, and so on: so one of them takes it,
nobody has to say who, and where the first one is away the second one does it.

The age counts from when this node first saw the snapshot, on its monotonic clock. A node whose wall clock is wrong
takes its snapshots at the right distance all the same; one that was just started waits a whole interval.
"""

from __future__ import annotations

from typing import Final

from log_tier.model.identifiers import NOTHING, Offset, PartitionId

__all__ = ["SnapshotSchedule"]

# How much longer the next in line waits: long enough for a snapshot to be taken and made known.
_RANK_SHARE: Final = 0.25


class SnapshotSchedule:
    """Remembers when each partition's newest snapshot was first seen. One for each node."""

    def __init__(self, every_s: float) -> None:
        assert every_s > 0, f"a snapshot every {every_s} s"
        self._every_s = every_s
        self._seen: dict[PartitionId, tuple[Offset, float]] = {}

    def is_due(self, name: PartitionId, *, newest: Offset, applied: Offset, rank: int, now_s: float) -> bool:
        """Is it this node's turn? `newest`: the offset of the newest known snapshot, -1 where there is none."""
        seen = self._seen.get(name)
        if seen is None or seen[0] != newest:
            seen = self._seen[name] = (newest, now_s)
        if applied <= newest or applied == NOTHING:
            return False  # it would hold nothing new
        return now_s - seen[1] >= self._every_s * (1 + _RANK_SHARE * rank)

    def forget(self, name: PartitionId) -> None:
        """Forget a partition, as if this node had not seen its newest snapshot yet. Harmless where none is known."""
        self._seen.pop(name, None)
