"""A ring of observations over a span of time, at most one for each step of it. Pure.

A row has the numbers of all partitions at one time, in arrays: 17 bytes for each, whatever their values. What was not
observed has no row.
"""

from __future__ import annotations

import math
from array import array
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

__all__ = ["ROW_BYTES", "STATES", "HistoryRing", "HistoryRow", "PartitionNames", "ServerSample"]

STATES: Final = ("ready", "behind", "replaying", "bootstrapping", "closed", "stopped", "lost", "unknown")
"""The states of partitions, the worst last; a row has their places here. What a node of a later version may say on top
of them is unknown."""

ROW_BYTES: Final = 17
"""Of one partition in one row: two offsets of 8 bytes and a state. A row whose partitions differ from those of the row
before it has 8 more, for their names."""

PartitionNames = tuple[tuple[str, int], ...]
"""Tables and partitions. Two rows with the same object may be compared number by number; no offset falls between
them."""


@dataclass(frozen=True, slots=True)
class ServerSample:
    """The server itself at one time; None: not known."""

    sync_p99_s: float | None = None
    """99 of 100 commits took no longer."""
    queue_age_s: float | None = None
    disk_free_bytes: int | None = None
    ready: bool | None = None

    def worst(self, later: ServerSample) -> ServerSample:
        """Both, as one sample: the slowest of what may pass quickly, the last of what does not."""
        return ServerSample(
            sync_p99_s=_largest(self.sync_p99_s, later.sync_p99_s),
            queue_age_s=_largest(self.queue_age_s, later.queue_age_s),
            disk_free_bytes=self.disk_free_bytes if later.disk_free_bytes is None else later.disk_free_bytes,
            ready=later.ready if self.ready is None else self.ready and later.ready is not False,
        )


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """One observation. Invariant: `last`, `applied` and `states` have one number for each of `names`."""

    at_s: float
    """Seconds of a clock that never goes back."""
    names: PartitionNames
    last: array[int]
    """The newest offset on stable storage of each partition."""
    applied: array[int]
    states: bytes
    """Places in `STATES`: the worst that was seen in the step."""
    server: ServerSample


class HistoryRing:
    """Rows of the last `span_s` seconds, of each step the last one. `record` takes rows in the order of their times.

    Invariant: at most `span_s / step_s + 1` rows, no two of them in one step.
    """

    def __init__(self, *, step_s: int, span_s: int) -> None:
        """`step_s`: seconds of each step."""
        self.span_s = span_s
        self.step_s = step_s
        self._rows: deque[HistoryRow] = deque()

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self._rows)

    @property
    def held_bytes(self) -> int:
        """Bytes of the partitions' numbers. O(rows)."""
        return sum(ROW_BYTES * len(row.names) for row in self._rows)

    def record(self, row: HistoryRow) -> None:
        """Add the newest row; one of the same step becomes one with it. Amortized O(partitions)."""
        rows = self._rows
        if rows:
            assert row.at_s >= rows[-1].at_s, f"a row of {row.at_s} s follows one of {rows[-1].at_s} s"
            if self._step(rows[-1]) == self._step(row):
                row = _one(rows.pop(), row)
        rows.append(row)
        while row.at_s - rows[0].at_s > self.span_s:
            rows.popleft()

    def restore(self, rows: Iterable[HistoryRow]) -> int:
        """Put rows before those that are here, in the order of their times, and return how many had room: of the span,
        and of a step that nothing is known of. O(rows).
        """
        newest = self._rows[-1].at_s if self._rows else -math.inf
        first = self._step(self._rows[0]) if self._rows else math.inf
        older: deque[HistoryRow] = deque()
        for row in rows:
            if self._step(row) >= first or newest - row.at_s > self.span_s:
                continue
            if older and self._step(older[-1]) == self._step(row):
                row = _one(older.pop(), row)
            older.append(row)
        self._rows = older + self._rows
        return len(older)

    def after(self, at_s: float) -> list[HistoryRow]:
        """The rows of steps that began after `at_s`, without the newest, to which later rows may be added. O(rows)."""
        return [row for row in list(self._rows)[:-1] if self._step(row) * self.step_s > at_s]

    def begins_s(self, since_s: float) -> float:
        """The time of the first row from `since_s` on; infinite: there is none. O(rows)."""
        return next((row.at_s for row in self._rows if row.at_s >= since_s), math.inf)

    def set_step(self, step_s: int) -> None:
        """Have steps of another length. Of what is there, the last row of each longer step stays. O(rows)."""
        self.step_s = step_s
        last_of = {self._step(row): row for row in self._rows}
        self._rows = deque(last_of.values())

    def points(self, since_s: float, until_s: float, step_s: int) -> list[list[HistoryRow]]:
        """The rows of each step from that of `since_s` to that of `until_s`; an empty one was not observed. O(rows +
        steps), some 0.3 µs each.
        """
        begin, end = int(since_s // step_s), int(until_s // step_s)
        found: list[list[HistoryRow]] = [[] for _ in range(begin, end + 1)]
        for row in self._rows:
            place = int(row.at_s // step_s) - begin
            if 0 <= place < len(found):
                found[place].append(row)
        return found

    def _step(self, row: HistoryRow) -> int:
        return int(row.at_s // self.step_s)


def _one(earlier: HistoryRow, later: HistoryRow) -> HistoryRow:
    """Two rows of one step: the offsets of the later one, the worst states of both."""
    states = bytes(map(max, earlier.states, later.states)) if earlier.names is later.names else later.states
    return replace(later, states=states, server=earlier.server.worst(later.server))


def _largest(one: float | None, other: float | None) -> float | None:
    return max((each for each in (one, other) if each is not None), default=None)
