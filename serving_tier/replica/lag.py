"""How far a replica is behind its log, in seconds, and whether that is near enough to be called ready. Pure.

Seconds are those of a clock that only runs forward (never the wall clock: a node whose clock is an hour wrong has the
same lag as any other), and come in as `now`. Two measures are kept, because two questions are asked:

    seconds(now)   since when it has not been level: since it first heard of an end of the log that it has not reached.
                   0 while it is level with all that it heard. Drives the state, and is what people see.
    stale(now)     how old its state can be at most: since the log was last *asked*, and the answer was reached. Never
                   0, and what a bounded read goes by.

A replica that cannot ask the log is not level with it: when no answer has come for `UNHEARD_S`, the lag counts from the
last one on, and what is heard later does not set it back to 0 until it is applied. A chunk of records names an end too,
but it may have waited in a buffer while the process was paused, so it is no answer to when.

Ends are kept as marks, ever sparser the further back they go: a replica that is an hour behind keeps some 250 of them.
Where two are joined the older time stays, so a lag is never made smaller.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from log_tier.model.identifiers import NOTHING, Offset

__all__ = ["UNHEARD_S", "Lag", "LagBounds", "LastLook", "lag_event"]

# The log is asked every second and given a second to answer; after two nothing is known any more.
UNHEARD_S: Final = 2.0

# Marks are this far apart at least, and a 32nd of what lies between the oldest of them and now.
_MARK_S: Final = 0.02
_MARK_SHARE: Final = 32


class LagBounds(NamedTuple):
    """When a replica may call itself ready. The gap between the two keeps it from changing its mind all the time."""

    ready_max_s: float = 1.0
    """Ready again from here down. A second is what a write's reader may wait at a replica without noticing much."""
    behind_max_s: float = 5.0
    """Behind beyond this. Longer than a pause of the log while it restarts, or a checkpoint of a slow disk."""


class _Mark(NamedTuple):
    end: Offset
    heard_s: float
    """When an end beyond the applied offset was first heard of."""
    asked_s: float
    """The last time before that at which the log was asked."""


class LastLook:
    """When a log was last looked at that says which of its partitions move: one for all partitions that do not."""

    __slots__ = ("asked_s",)

    def __init__(self, asked_s: float) -> None:
        self.asked_s = asked_s
        """Every partition that shares this ended then where it had ended before."""


class Lag:
    """One replica's lag.

    Invariant: the marks rise in end and time; all ends lie beyond the applied offset; none: it is level.
    """

    def __init__(self, *, latest: Offset, applied: Offset, now: float) -> None:
        self.latest = latest
        """The highest end of the log that was heard of."""
        self._asked_at_s = now
        self._look: LastLook | None = None
        self._watched = False
        self._marks: deque[_Mark] = deque()
        if latest > applied:
            self._marks.append(_Mark(latest, now, now))

    @property
    def _asked_s(self) -> float:
        """When the log was last asked, or is known not to have moved."""
        look = self._look
        return self._asked_at_s if look is None else max(self._asked_at_s, look.asked_s)

    def tell(self, latest: Offset, applied: Offset, now: float) -> None:
        """The log reaches at least to `latest`. Well below 1 µs: every chunk comes through here."""
        if latest <= self.latest:
            return
        self.latest = latest
        if latest <= applied:
            return
        marks, asked_s = self._marks, self._asked_s
        heard_s = asked_s if self._watched and now - asked_s > UNHEARD_S else now
        if marks and heard_s - marks[-1].heard_s < max(_MARK_S, (heard_s - marks[0].heard_s) / _MARK_SHARE):
            marks[-1] = marks[-1]._replace(end=latest)
        else:
            marks.append(_Mark(latest, heard_s, asked_s))

    def answer(self, latest: Offset, applied: Offset, *, asked_s: float, now: float) -> None:
        """The log was asked at `asked_s`, and ended at `latest` then or later."""
        self.tell(latest, applied, now)
        self._asked_at_s = max(self._asked_at_s, asked_s)

    def confirm(self, latest: Offset, *, asked_s: float, look: LastLook | None = None) -> bool:
        """`answer`, if that changes nothing but the time: it was level, is watched, and the log has not moved.

        With a `look` the log need not be asked again: until `leave_look` the look says when it was.
        """
        if self._marks or latest != self.latest or not self._watched:
            return False
        self._asked_at_s = max(self._asked_at_s, asked_s)
        self._look = look
        return True

    def leave_look(self) -> None:
        """The log has moved since the last look; it is asked again."""
        self._asked_at_s, self._look = self._asked_s, None

    def watch(self) -> None:
        """Count missing answers from now on: a silence longer than `UNHEARD_S` is lag."""
        self._watched = True

    def advance(self, applied: Offset) -> None:
        """Drop marks up to `applied`. O(dropped)."""
        marks = self._marks
        while marks and marks[0].end <= applied:
            marks.popleft()

    def seconds(self, now: float) -> float:
        """How long it has not been level with the log; 0.0 while it is."""
        lag = now - self._marks[0].heard_s if self._marks else 0.0
        unheard = now - self._asked_s
        return max(lag, unheard) if self._watched and unheard > UNHEARD_S else lag

    def check(self, applied: Offset = NOTHING) -> None:
        """Assert the invariants; for tests."""
        marks = list(self._marks)
        for before, after in pairwise(marks):
            assert before.end < after.end, f"ends do not rise: {before.end}, {after.end}"
            assert before.heard_s <= after.heard_s, f"times do not rise: {before.heard_s}, {after.heard_s}"
            assert before.asked_s <= after.asked_s, f"questions do not rise: {before.asked_s}, {after.asked_s}"
        if marks:
            assert marks[0].end > applied, f"a mark at {marks[0].end} is applied: {applied}"
            assert marks[-1].end <= self.latest, f"a mark at {marks[-1].end} is beyond the log's end {self.latest}"

    def stale(self, now: float) -> float:
        """Everything that the log held so many seconds ago is applied."""
        return now - (self._marks[0].asked_s if self._marks else self._asked_s)


def lag_event(*, replayed: bool, lag_s: float, bounds: LagBounds) -> Literal["level", "between", "lagging"]:
    """The event of `serving_tier.replica.machine` that a lag gives rise to. `replayed`: the index holds what the log
    held when it was opened.
    """
    if lag_s > bounds.behind_max_s:
        return "lagging"
    return "level" if replayed and lag_s <= bounds.ready_max_s else "between"
