"""The batches that a commit has written to a partition's newest segment and not synced yet."""

from __future__ import annotations

from dataclasses import dataclass, field

from log_tier.embedded.segments.segment import Segment
from log_tier.model.identifiers import Offset

__all__ = ["Staged"]


@dataclass(slots=True)
class Staged:
    """Batches that lie in a segment's file and are not yet on stable storage."""

    segment: Segment
    position: int
    """Where they begin in the file."""
    end_position: int
    end: Offset
    """The offset after their last record."""
    timestamp_ms: int
    data: list[bytes] = field(default_factory=list)
    placed: list[tuple[int, int, bytes]] = field(default_factory=list)
    """Base offset, the offset after it, bytes: for the tail cache."""
    entries: list[tuple[int, int]] = field(default_factory=list)
    """Entries for the sparse index: offset, position."""
