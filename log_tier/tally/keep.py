"""What is kept of a tally: an hour of minutes, then a day of hours. Pure, and judged by the log's own time.

The newest minute decides, not a clock: two replicas at one offset keep the same periods. A partition that nobody writes
to keeps what it has.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import groupby
from typing import Final, NamedTuple

from log_tier.model.identifiers import Offset
from log_tier.tally.period import HOUR, Period, merged

__all__ = ["HOURS_KEPT", "MINUTES_KEPT", "PERIODS_MAX", "Kept"]

MINUTES_KEPT: Final = 60
"""Minutes before the newest one that are kept singly."""

HOURS_KEPT: Final = 24
"""Hours before the newest minute's hour that are kept."""

# One hour is in part folded and in part not.
PERIODS_MAX: Final = MINUTES_KEPT + HOURS_KEPT + 2

_HEAD: Final = struct.Struct("<qI")
_PERIOD: Final = struct.Struct("<IIqqQQ")


class Kept(NamedTuple):
    """The periods of a tally that came to their end."""

    since: Offset
    """The first offset that is counted in them, or in the minute under way."""
    periods: tuple[Period, ...] = ()

    def with_closed(self, closed: Sequence[Period], *, newest: int) -> Kept:
        """Add minutes that came to their end; `newest` is the minute under way. O(periods kept)."""
        since, ripe, minutes = self.since, [], []
        for period in (*self.periods, *closed):
            if period.minute // HOUR < newest // HOUR - HOURS_KEPT:
                since = Offset(period.last + 1)
            elif period.minutes == HOUR or period.minute < newest - MINUTES_KEPT:
                ripe.append(period)
            else:
                minutes.append(period)
        hours = [
            merged(of_hour, minute=hour * HOUR, minutes=HOUR)
            for hour, of_hour in groupby(ripe, key=lambda period: period.minute // HOUR)
        ]
        return Kept(since, (*(hour for hour in hours if hour is not None), *minutes))

    def pack(self) -> bytes:
        """The row `tally` of `meta` in an index: 12 bytes, and 40 for each period."""
        rows = [_PERIOD.pack(*period) for period in self.periods]
        return b"".join((_HEAD.pack(self.since, len(rows)), *rows))

    @classmethod
    def unpack(cls, row: bytes) -> Kept:
        """Read the row `tally`. Raises `struct.error` for a row of another size."""
        since, count = _HEAD.unpack_from(row)
        if count > PERIODS_MAX or len(row) != _HEAD.size + count * _PERIOD.size:
            raise struct.error(f"a tally of {count} periods has {len(row)} bytes")
        return cls(
            Offset(since),
            tuple(
                Period(minute, minutes, Offset(first), Offset(last), offsets, checksum)
                for minute, minutes, first, last, offsets, checksum in _PERIOD.iter_unpack(row[_HEAD.size :])
            ),
        )
