"""Comparing what tiers counted. Pure: the log's pieces and the replicas' tallies in, one comparison a minute out.

Replicas are asked first and the log after them, so the log is counted at least as far as each of them. Its pieces end
where a replica's count begins or ends (`cuts`). So every replica is compared with exactly the offsets that it counted,
and nobody has to wait for anybody.

What is not compared is said: offsets below `lowest`, which a trim or a compaction may have removed from the log, or
changed there, since a replica counted them. A minute that one replica has folded to its hour is compared as that hour.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from log_tier.model.identifiers import Offset
from log_tier.tally.period import HOUR, MINUTE_MS, PartitionTally, Period, merged

__all__ = [
    "Comparison",
    "ReplicaCount",
    "compare",
    "cuts",
    "difference_text",
    "from_offset",
    "log_time_at",
    "window_of",
]

CountVerdict = Literal["equal", "different", "not compared"]


class ReplicaCount(NamedTuple):
    """What one replica counted of a minute, or of an hour, and what the log holds of the same offsets."""

    verdict: CountVerdict
    counted: Period | None
    """None: nothing, although the log has something there."""
    written: Period | None
    """None: the log has nothing there, or it was not compared."""


class Comparison(NamedTuple):
    """A minute, or an hour, at all tiers."""

    minute: int
    minutes: int
    written: Period | None
    """All that the log holds of it, as far as it was counted."""
    replicas: dict[str, ReplicaCount]

    @property
    def verdict(self) -> CountVerdict:
        """`different` if any replica is, `not compared` if none was compared."""
        verdicts = {replica.verdict for replica in self.replicas.values()}
        if "different" in verdicts:
            return "different"
        return "equal" if "equal" in verdicts else "not compared"


def window_of(tally: PartitionTally, since_minute: int) -> PartitionTally:
    """The part of a tally that reaches into the minutes from `since_minute` on."""
    begin = tally.since
    for at, period in enumerate(tally.periods):
        if period.minute + period.minutes > since_minute:
            return PartitionTally(begin, tally.applied, tally.periods[at:])
        begin = Offset(period.last + 1)
    return PartitionTally(begin, tally.applied, ())


def from_offset(tally: PartitionTally, start: Offset, *, whole: bool = False) -> PartitionTally:
    """The periods of a tally that reach to `start` or beyond it. The first one may begin before it, unless `whole`."""
    if start <= tally.since:
        return tally
    for at, period in enumerate(tally.periods):
        if (period.first if whole else period.last) >= start:
            return PartitionTally(period.first, tally.applied, tally.periods[at:])
    return PartitionTally(Offset(tally.applied + 1), tally.applied, ())


def cuts(tallies: Iterable[PartitionTally]) -> list[Offset]:
    """The offsets behind which the log's pieces have to end, to be compared with these tallies."""
    return sorted({offset for tally in tallies for offset in (Offset(tally.since - 1), tally.applied)})


def log_time_at(tallies: Iterable[PartitionTally], start: Offset) -> int:
    """The log time before `start` in ms, no later than it is, as far as those who counted there know it: what the log's
    timestamps fall below, as Kafka's may, counts in that minute.
    """
    minutes = (period.minute for tally in tallies for period in tally.periods if period.first <= start)
    return max(minutes, default=0) * MINUTE_MS


def compare(pieces: Sequence[Period], tallies: Mapping[str, PartitionTally], *, lowest: Offset) -> list[Comparison]:
    """Compare the tallies, by replica, with the log's pieces, which begin at the lowest `since` of them or at `lowest`.

    In the order of time. O(pieces × replicas).
    """
    hours = {period.minute for tally in tallies.values() for period in tally.periods if period.minutes == HOUR}
    written = _named(pieces, hours)
    counted = {replica: _named(tally.periods, hours) for replica, tally in tallies.items()}
    names = sorted({name for named in (written, *counted.values()) for name in named})
    found: list[Comparison] = []
    for minute, minutes in names:
        of_log = written.get((minute, minutes), [])
        replicas: dict[str, ReplicaCount] = {}
        for replica, tally in tallies.items():
            own = merged(counted[replica].get((minute, minutes), []), minute=minute, minutes=minutes)
            theirs = [piece for piece in of_log if piece.first >= tally.since and piece.last <= tally.applied]
            expected = merged(theirs, minute=minute, minutes=minutes)
            if own is not None and own.first < lowest:
                replicas[replica] = ReplicaCount("not compared", own, None)
            elif own is not None or expected is not None:
                is_equal = own is not None and expected is not None and own.numbers == expected.numbers
                replicas[replica] = ReplicaCount("equal" if is_equal else "different", own, expected)
        found.append(Comparison(minute, minutes, merged(of_log, minute=minute, minutes=minutes), replicas))
    return found


def difference_text(count: ReplicaCount, run: tuple[Offset, Offset] | None, doing: str) -> tuple[Offset, Offset, str]:
    """The offsets between which a count differs from the log, and a sentence about them.

    `run`: the batches that explain it (`log_tier.tally.missing`); `doing`: what the tier does, such as "folded".
    """
    periods = [period for period in (count.written, count.counted) if period is not None]
    first, last = run or (min(period.first for period in periods), max(period.last for period in periods))
    more = count.counted is not None and count.written is not None and count.counted.offsets > count.written.offsets
    if run is not None:
        what = f"were {doing} twice here" if more else f"are in the log and were not {doing} here"
        return first, last, f"offsets {first} to {last} {what}"
    if count.written is None:
        return first, last, f"offsets {first} to {last} were {doing} here and are not in the log"
    return first, last, f"offsets {first} to {last}: other batches than the log's were {doing} here"


def _named(periods: Iterable[Period], hours: set[int]) -> dict[tuple[int, int], list[Period]]:
    """Periods by the minute, or the hour, under which they are compared."""
    found: dict[tuple[int, int], list[Period]] = {}
    for period in periods:
        hour = period.minute // HOUR * HOUR
        found.setdefault((hour, HOUR) if hour in hours else (period.minute, 1), []).append(period)
    return found
