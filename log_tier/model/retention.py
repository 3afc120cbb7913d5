"""How much of a partition's log stays: bounds by age and by size, and the rule that turns them into an offset. Pure.

A log gives up whole segments, the oldest first. A segment goes where one of the bounds lets it go:

    age     its newest record is older than `ms`: no record goes before its time
    size    what is left without it has still `bytes` bytes: never less than that stays

The newest segment always stays, and so does everything from the offset `below` on: what no verified snapshot covers,
or a reader has yet to read, is not for these bounds to decide (I11). After Kafka's `retention.ms`, `retention.bytes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from log_tier.model.errors import InvalidRequest
from log_tier.model.identifiers import Offset

__all__ = ["BOUND_MAX", "FOREVER", "Retention", "SegmentFacts", "check_retention", "retained_from"]

BOUND_MAX: Final = (1 << 63) - 1
"""The largest bound: a message carries it as a signed 64-bit number."""


class Retention(NamedTuple):
    """The bounds of each partition of a table; 0: no bound of that kind."""

    ms: int = 0
    """How long records stay, in milliseconds by the log's clock."""
    bytes: int = 0
    """How many bytes of a partition's log stay at least."""

    @property
    def is_bounded(self) -> bool:
        """Whether anything may ever go."""
        return self.ms > 0 or self.bytes > 0


FOREVER: Final = Retention()


class SegmentFacts(NamedTuple):
    """A segment, as far as the rule needs to know it."""

    end: Offset
    """The offset after its last record."""
    bytes: int
    newest_ms: int
    """When its last record was written."""


def check_retention(retention: Retention) -> Retention:
    """The bounds themselves. Raises `InvalidRequest` for a negative one, or one that no message can carry."""
    for name, value in zip(("retention_ms", "retention_bytes"), retention, strict=True):
        if type(value) is not int or not 0 <= value <= BOUND_MAX:
            raise InvalidRequest(f"{name} is a whole number from 0 (no bound) to {BOUND_MAX}, not {value!r}")
    return retention


def retained_from(
    segments: Sequence[SegmentFacts], retention: Retention, *, now_ms: int, below: Offset
) -> Offset | None:
    """The first offset that stays, at the start of a segment; None where every segment stays. O(segments).

    `segments`: the oldest first, the newest included. Nothing at `below` or beyond goes.
    """
    left = sum(segment.bytes for segment in segments)
    found: Offset | None = None
    for segment in segments[:-1]:
        left -= segment.bytes
        is_old = 0 < retention.ms < now_ms - segment.newest_ms
        is_too_much = 0 < retention.bytes <= left
        if segment.end > below or not (is_old or is_too_much):
            break
        found = segment.end
    return found
