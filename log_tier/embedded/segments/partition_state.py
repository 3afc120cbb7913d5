"""What a look at a partition's files found: its segments, its checkpoint, and what is wrong with them."""

from __future__ import annotations

from dataclasses import dataclass

from log_tier.embedded.segments.segment import Segment
from log_tier.embedded.storage.checkpoint import Checkpoint
from log_tier.model.errors import LogDamaged

__all__ = ["PartitionState"]


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition as its files show it, or as the summary of a clean close does."""

    segments: list[Segment]
    """Oldest first."""
    checkpoint: Checkpoint
    damage: LogDamaged | None = None
    """The damage for which the partition refuses appends; None: there is none."""
    lost: int = 0
    """How many offsets behind the last one that can be read are known to have been on stable storage, at least; 0: the
    damage does not lie there. With damage there, a reader gets it as its error at that offset."""
    capacity: int = 0
    """How much of the newest segment's file is preallocated; 0: nothing."""

    @property
    def indexed_bytes(self) -> int:
        """Position of the newest index entry."""
        index = self.segments[-1].index if self.segments else None
        return index.entry(-1)[1] if index else 0

    @property
    def newest_ms(self) -> int:
        """Timestamp of the last batch."""
        return self.segments[-1].newest_ms if self.segments else 0
