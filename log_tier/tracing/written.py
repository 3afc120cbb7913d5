"""Who wrote what, of the writes that are traced: in memory, for those who read the log soon after."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Final, NamedTuple

from log_tier.tracing.span import Span

__all__ = ["WRITES_MAX", "TracedWrite", "WrittenTraces"]

WRITES_MAX: Final = 512
"""Batches. Followers read what was written a moment ago: one behind which so many traced ones came is no longer looked
for. Each has up to `CALLERS_MAX` spans, which take a kilobyte each."""


class TracedWrite(NamedTuple):
    """A batch in the log."""

    first: int
    """Its first offset."""
    last: int
    callers: tuple[Span, ...]
    """What wrote it. They may have ended: spans go below them all the same."""


class WrittenTraces:
    """The last traced writes of one log. One thread at a time notes, any thread looks."""

    def __init__(self) -> None:
        self.of: dict[Hashable, tuple[TracedWrite, ...]] = {}
        """By partition. Who reads a chunk looks here first, so that what nobody traces costs no call."""
        self._order: deque[Hashable] = deque()
        """The partition of each write, the oldest first."""

    def note(self, partition: Hashable, write: TracedWrite) -> None:
        """Call it before anybody can read the batch."""
        self.of[partition] = (*self.of.get(partition, ()), write)
        self._order.append(partition)
        if len(self._order) > WRITES_MAX:
            oldest = self._order.popleft()
            if left := self.of[oldest][1:]:
                self.of[oldest] = left
            else:
                del self.of[oldest]

    def between(self, partition: Hashable, first: int, last: int) -> tuple[TracedWrite, ...]:
        """The traced writes among these offsets, in their order."""
        writes = self.of.get(partition, ())
        return tuple([write for write in writes if write.first <= last and write.last >= first])
