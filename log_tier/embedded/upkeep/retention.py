"""What retention gives up: a pure plan over facts about segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from log_tier.model.identifiers import Offset

__all__ = ["Retention", "SegmentFacts", "plan_trim"]


@dataclass(frozen=True, slots=True)
class Retention:
    """How much of a partition to keep. None: no bound."""

    age_ms: int | None = None
    """A segment goes once its newest record is older than this."""
    bytes_max: int | None = None
    """The oldest segments go while a partition holds more than this."""


class SegmentFacts(Protocol):
    """What the plan needs to know of a segment."""

    @property
    def base(self) -> Offset:
        """Its first offset."""
        ...

    @property
    def bytes(self) -> int:
        """Its size."""
        ...

    @property
    def newest_ms(self) -> int:
        """When its newest record was appended."""
        ...


def plan_trim(segments: Sequence[SegmentFacts], policy: Retention, *, now_ms: int, floor: Offset) -> Offset:
    """Below which offset a partition may be trimmed: always a segment's base, never above `floor`, O(segments).

    Segments go from the oldest on, without a gap; the newest one stays. `floor` is what the caller still needs: the
    offset after the newest verified snapshot's.
    """
    if not segments:
        return Offset(0)
    before = segments[0].base
    total = sum(segment.bytes for segment in segments)
    for segment, after in pairwise(segments):
        too_old = policy.age_ms is not None and now_ms - segment.newest_ms > policy.age_ms
        too_much = policy.bytes_max is not None and total > policy.bytes_max
        if after.base > floor or not (too_old or too_much):
            break
        total -= segment.bytes
        before = after.base
    return before
