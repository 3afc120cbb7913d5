"""A period: what was counted of one minute, or one hour, of a partition. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, NamedTuple, Self

from log_tier.model.identifiers import Offset

__all__ = ["CHECKSUM_MASK", "HOUR", "MINUTE_MS", "PartitionTally", "Period", "merged", "new_period", "weight_of"]

MINUTE_MS: Final = 60_000

HOUR: Final = 60
"""Minutes of an hour."""

CHECKSUM_MASK: Final = (1 << 64) - 1


class Period(NamedTuple):
    """The batches of some minutes: which offsets, and a checksum over their checksums."""

    minute: int
    """The first minute, since 1970. An hour begins with a multiple of 60."""
    minutes: int
    """1 or 60."""
    first: Offset
    """The first offset that was counted."""
    last: Offset
    offsets: int
    """How many the batches occupy. Fewer than `first` to `last` where one is missing."""
    checksum: int
    """64 bits."""

    @property
    def is_dense(self) -> bool:
        """Is no offset missing between the first and the last one?"""
        return self.offsets == self.last - self.first + 1

    @property
    def numbers(self) -> tuple[Offset, Offset, int, int]:
        """What has to be equal at every tier, whatever the period is called."""
        return self.first, self.last, self.offsets, self.checksum

    def joined(self, later: Self) -> Self:
        """Both as one period with this one's name. `later` begins behind this one's last offset."""
        assert self.last < later.first, f"{later} does not follow {self}"
        return self._replace(
            last=later.last,
            offsets=self.offsets + later.offsets,
            checksum=(self.checksum + later.checksum) & CHECKSUM_MASK,
        )


class PartitionTally(NamedTuple):
    """What a tier has counted of one partition."""

    since: Offset
    """The first offset that is counted. What was counted before it is not kept any more, or was counted by nobody."""
    applied: Offset
    """The last offset that is counted; `since` - 1: nothing was."""
    periods: tuple[Period, ...]
    """In the order of their offsets, none empty."""


# A named tuple's own constructor is a Python function; this one is not, and every fold makes a period.
new_period: Final[Callable[[tuple[int, ...]], Period]] = partial(tuple.__new__, Period)


def weight_of(base_offset: int, stamp_checksum: int) -> int:
    """What a batch adds to a checksum, not yet reduced to 64 bits. The factor is odd, so nothing of 32 bits is lost."""
    return stamp_checksum * (2 * base_offset + 1)


def merged(periods: Iterable[Period], *, minute: int, minutes: int) -> Period | None:
    """Neighbouring periods as one, in the order of their offsets; None for none of them."""
    found: Period | None = None
    for period in periods:
        found = period if found is None else found.joined(period)
    return None if found is None else found._replace(minute=minute, minutes=minutes)
