"""Work that took long: what a part did lately that a caller may have felt, kept to divide slow calls by. Pure.

A part compares the time that it has measured anyway with `least_s`, in its own lines, and notes what took longer. Work
below that is nobody's explanation and leaves no trace.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import inf
from typing import Final, Generic, Literal, NamedTuple, Protocol, TypeVar

from log_tier.model.identifiers import Offset, PartitionId

__all__ = ["LONG_KEPT_MAX", "PLACES_KEPT_MAX", "LongCommit", "LongRequest", "LongWork", "RequestKind", "places_of"]

LONG_KEPT_MAX: Final = 256
"""Works of one part. A slow call looks at them when it ends, so older ones explain nothing any more."""

PLACES_KEPT_MAX: Final = 256
"""Partitions of one request. A gathered one may have thousands; calls of those beyond are not divided."""

RequestKind = Literal["read", "write", "outcomes", "scan"]


class LongCommit(NamedTuple):
    """A commit of the log that took long to be stable. Seconds of the monotonic clock."""

    began_s: float
    ended_s: float


class LongRequest(NamedTuple):
    """A request of the data plane that took long. It may have carried the calls of many callers."""

    kind: RequestKind
    began_s: float
    ended_s: float
    places: Sequence[PartitionId]
    """The first partitions that it was about."""
    waited_s: float
    """Of that time: for replicas to apply an offset."""
    offset: Offset | None = None
    """A write: the first one that the log gave. A read: the first one that had to be waited for."""


class _Part(Protocol):
    @property
    def partition(self) -> PartitionId: ...


def places_of(parts: Sequence[_Part]) -> Sequence[PartitionId]:
    """The first partitions of a request."""
    return [part.partition for part in parts[:PLACES_KEPT_MAX]]


W = TypeVar("W", LongCommit, LongRequest)


class LongWork(Generic[W]):
    """What one part did lately that took long. One thread notes at a time; any thread may look."""

    __slots__ = ("_kept", "least_s")

    def __init__(self) -> None:
        self.least_s = inf
        """What takes at least so long is noted; infinite: nothing, as long as nobody wants to know."""
        self._kept: deque[W] = deque(maxlen=LONG_KEPT_MAX)

    def note(self, work: W) -> None:
        """Keep it; the oldest one makes room. O(1)."""
        self._kept.append(work)

    def since(self, when_s: float) -> list[W]:
        """What has ended then or later, in that order. O(kept)."""
        return [work for work in self._kept.copy() if work.ended_s >= when_s]
