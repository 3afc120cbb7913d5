"""What a server remembers: an hour finely and a week coarsely, in memory of a bounded size. Pure.

The more partitions there are, the longer are the steps, so that neither memory nor work grows without end. `GRAINS`
says how long. A grain of its own size holds at most 48 MB of partitions' numbers; an hour and a week of the server
itself take some 4 MB.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import eq, gt
from typing import Final, NamedTuple

from duramen.server.console.history_ring import STATES, HistoryRing, HistoryRow, PartitionNames, ServerSample
from duramen.server.sight.observed import PartitionStatus

__all__ = ["DAY_S", "GRAINS", "HOUR_S", "LOOKS_PER_S", "WEEK_S", "Grain", "ServerHistory", "grain_of"]

HOUR_S: Final = 3600
DAY_S: Final = 24 * HOUR_S
WEEK_S: Final = 7 * DAY_S

LOOKS_PER_S: Final = 200
"""Partitions that are looked at in a second while nobody else asks: some 10 µs each, 0.2 % of a processor."""


class Grain(NamedTuple):
    """How fine the history of a server is that has at most `partitions_max` partitions."""

    partitions_max: int
    fine_s: int
    """Seconds of a step of the last hour."""
    coarse_s: int
    """Seconds of a step of the last week."""


GRAINS: Final = (
    Grain(200, 1, 60),  # 3,600 + 10,080 rows: 233 kB for each partition
    Grain(1_000, 5, 300),  # 720 + 2,016 rows: 47 kB
    Grain(6_000, 30, 1_800),  # 120 + 336 rows: 8 kB
    Grain(60_000, 300, 18_000),  # 12 + 34 rows: 0.8 kB
)
"""By rising numbers of partitions. Beyond the last one, only its `partitions_max` first partitions are remembered."""

_PLACES: Final = {state: place for place, state in enumerate(STATES)}
_UNKNOWN: Final = _PLACES["unknown"]


def grain_of(partitions: int) -> Grain:
    """The grain of a server with so many partitions."""
    return next((each for each in GRAINS if partitions <= each.partitions_max), GRAINS[-1])


class ServerHistory:
    """One server's last hour and week. `record` is called with times of a clock that never goes back."""

    def __init__(self) -> None:
        """Empty, as a server is that has just started: what was before is not known."""
        self.grain = GRAINS[0]
        self.hour = HistoryRing(step_s=self.grain.fine_s, span_s=HOUR_S)
        self.week = HistoryRing(step_s=self.grain.coarse_s, span_s=WEEK_S)
        self._newest: HistoryRow | None = None
        self._since: dict[tuple[str, int], tuple[str, float | None]] = {}

    @property
    def held_bytes(self) -> int:
        """Bytes of the partitions' numbers. O(rows)."""
        return self.hour.held_bytes + self.week.held_bytes

    @property
    def partitions(self) -> int:
        """How many partitions the newest row has."""
        return 0 if self._newest is None else len(self._newest.names)

    def record(self, at_s: float, partitions: Sequence[PartitionStatus], server: ServerSample) -> None:
        """Remember an observation. O(partitions), some 0.5 µs each."""
        grain = grain_of(len(partitions))
        if grain != self.grain:
            self.grain = grain
            self.hour.set_step(grain.fine_s)
            self.week.set_step(grain.coarse_s)
        kept = partitions[: grain.partitions_max]
        last = array("q", (each.last for each in kept))
        row = HistoryRow(
            at_s,
            self._names(kept, last),
            last,
            array("q", (each.applied for each in kept)),
            bytes(_PLACES.get(each.state, _UNKNOWN) for each in kept),
            server,
        )
        self._remember_states(at_s, kept, row)
        self._newest = row
        self.hour.record(row)
        self.week.record(row)

    def state_since(self, table: str, partition: int) -> float | None:
        """When the partition came into its state, on the clock of `record`; None: before it was first looked at."""
        return self._since.get((table, partition), ("", None))[1]

    def ring(self, since_s: float, now_s: float) -> HistoryRing:
        """The finer ring of those that reach back to `since_s`, as far as anything is known."""
        if now_s - since_s > HOUR_S + self.hour.step_s:
            return self.week
        # The hour before a restart is in the week alone.
        is_longer = self.week.begins_s(since_s) < self.hour.begins_s(since_s) - self.week.step_s
        return self.week if is_longer else self.hour

    def restore(self, rows: Iterable[HistoryRow]) -> int:
        """Put what was before this server began into the week: rows in the order of their times, which are below zero.
        Returns how many had room. O(partitions of all rows).
        """
        shared: list[HistoryRow] = []
        for row in rows:
            before = shared[-1] if shared else None
            may_compare = before is not None and before.names == row.names and not any(map(gt, before.last, row.last))
            shared.append(replace(row, names=before.names if before is not None and may_compare else (*row.names,)))
        return self.week.restore(shared)

    def _names(self, partitions: Sequence[PartitionStatus], last: array[int]) -> PartitionNames:
        """The names of the row before, the very object, where its numbers may be compared with the new ones."""
        before = self._newest
        names = [(each.table, each.partition) for each in partitions]
        if before is None:
            return tuple(names)
        if len(names) == len(before.names) and all(map(eq, names, before.names)):
            return (*before.names,) if any(map(gt, before.last, last)) else before.names
        known = {each: each for each in before.names}
        return tuple(known.get(each, each) for each in names)

    def _remember_states(self, at_s: float, partitions: Sequence[PartitionStatus], row: HistoryRow) -> None:
        before = self._newest
        if before is not None and before.names is row.names and before.states == row.states:
            return
        known, first_s = self._since, None if before is None else at_s
        since: dict[tuple[str, int], tuple[str, float | None]] = {}
        for name, each in zip(row.names, partitions, strict=True):
            state, since_s = known.get(name, (each.state, first_s))
            since[name] = (each.state, since_s if state == each.state else at_s)
        self._since = since  # at once: another thread may read it
