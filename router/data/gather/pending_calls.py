"""The callers of one request: who waits, until when, and how each of them learns its end.

Calls that leave together have deadlines of their own. One timer per request, not per call, ends those whose time is
over, wherever the request is: waiting to leave, under way, or between two tries. So no call outlives its timeout, and
a caller who gives up takes nothing away from the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from typing import Any, Final, Generic, NamedTuple, TypeVar

from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import NOTHING, Offset, PartitionId
from log_tier.model.table_ref import TableRef
from log_tier.tracing.span import Span
from router.data.gather.seen_offsets import SeenOffsets
from router.data.requests import WriteOutcome, WriteResult

__all__ = ["CallOutcome", "FutureCalls", "PendingCalls", "place_when_done"]

# Event loops' clocks tick in milliseconds: a call that is due within two is due.
_TICK_S: Final = 0.002


C = TypeVar("C")


class PendingCalls(Generic[C]):
    """The calls of one request, in their order. `C` is what a call asks for.

    `too_late(last_caller)` gives the error for calls whose time is over; `last_caller`: no other caller waits.
    """

    __slots__ = ("_loop", "_timer", "_too_late", "_wakes_at", "calls")

    def __init__(self, loop: asyncio.AbstractEventLoop, too_late: Callable[[bool], DuramenError]) -> None:
        self.calls: list[tuple[asyncio.Future[Any], float, C]] = []
        """The future for which each caller waits, its deadline on the event loop's clock, and what it asks for."""
        self._loop = loop
        self._too_late = too_late
        self._timer: asyncio.TimerHandle | None = None
        self._wakes_at = 0.0

    def add(self, future: asyncio.Future[Any], deadline: float, asked: C) -> None:
        """One more call. O(1); a timer is set for the first, and for any that is due before it."""
        self.calls.append((future, deadline, asked))
        if self._timer is None or deadline < self._wakes_at:
            self._wake_at(deadline)

    def _wake_at(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._wakes_at = self._loop.call_at(when, self._wake), when

    def _wake(self) -> None:
        self._timer = None
        now = self._loop.time() + _TICK_S
        waiting = [(future, deadline) for future, deadline, _ in self.calls if not future.done()]
        left = [deadline for _, deadline in waiting if deadline > now]
        if len(left) < len(waiting):
            error = self._too_late(not left)
            for future, deadline in waiting:
                if deadline <= now:
                    future.set_exception(copy(error))
        if left:
            self._wake_at(min(left))

    def last_deadline(self) -> float | None:
        """The last deadline of a waiting call; None if no call waits any more. O(calls)."""
        return max([deadline for future, deadline, _ in self.calls if not future.done()], default=None)

    def fail(self, error: DuramenError) -> None:
        """End every call that still waits with `error`; each caller gets a traceback of its own."""
        for future, _, _ in self.calls:
            if not future.done():
                future.set_exception(copy(error))
        self.settle()

    def settle(self) -> None:
        """All calls have been answered: let go of the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class CallOutcome(NamedTuple):
    """The offsets and results of one call's records."""

    offset: Offset
    """Of its first record; of a repeated one, where its first copy took effect."""
    last: Offset
    """Of its last record."""
    results: Sequence[bytes | None] | None = None
    """What its updates gave, by record; None where there was none."""


_Write = tuple[int, int, bool]
"""What one call has in a batch: its first record's place there, its records, and whether the call waits for what became
of them and not only for their place."""


class FutureCalls:
    """The callers of one batch: each ends at its own deadline at the latest. See `Callers`."""

    __slots__ = ("_loop", "_outcomes", "_partition", "_pending", "_session", "_table")

    def __init__(
        self,
        table: TableRef,
        partition: PartitionId,
        session: SeenOffsets,
        too_late: Callable[[bool], DuramenError],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """`too_late`: see `PendingCalls`."""
        self._table = table
        self._partition = partition
        self._session = session
        self._loop = loop
        self._pending: PendingCalls[_Write] = PendingCalls(loop, too_late)
        self._outcomes = False
        """A call wants a verdict."""

    def add(self, start: int, records: int, *, outcomes: bool, deadline: float) -> asyncio.Future[CallOutcome]:
        """One more call, whose first record has the place `start` in the batch. O(1)."""
        future: asyncio.Future[CallOutcome] = self._loop.create_future()
        self._outcomes |= outcomes
        self._pending.add(future, deadline, (start, records, outcomes))
        return future

    def want_verdict(self, *, repeated: bool) -> bool:
        """Of a batch that was sent before, the place comes with the verdict too: it may be the first copy's."""
        return self._outcomes or repeated

    @property
    def want_place(self) -> bool:
        """See `Callers`. Always True: only `Rules.verdicts_apart` reads it, which futures do not use."""
        return True

    def last_deadline(self, now_s: float) -> float | None:
        return self._pending.last_deadline()

    def noting(self, result: WriteResult) -> Iterable[None]:
        """Nothing: its callers look after their tokens themselves."""
        return ()

    def placed(self, result: WriteResult, *, repeated: bool) -> bool:
        """Answer the calls that wait for the place alone, if this is the place that counts. Where the table has a
        definition and the verdicts are not known yet, they wait for them: what they have put may not fit.
        """
        if repeated or (result.pending and self._table.defined):
            return True
        last, waits = NOTHING, False
        for future, _, (start, records, outcomes) in self._pending.calls:
            if outcomes:
                waits = True
            elif not future.done():
                first = Offset(result.base_offset + start)
                last = Offset(first + records - 1)
                future.set_result(CallOutcome(first, last))
        if not waits:
            self._pending.settle()
        self._session.saw(self._table, self._partition.partition, last)
        return waits

    def judged(self, result: WriteResult) -> None:
        """Answer every call with the places that count, or with its rejection."""
        self._pending.settle()
        base = result.base_offset
        outcomes = {outcome.record: outcome for outcome in result.outcomes}
        last = NOTHING
        for future, _, (start, records, _) in self._pending.calls:
            last = Offset(base + start + records - 1)
            if future.done():
                continue  # its caller went away
            if not outcomes:
                future.set_result(CallOutcome(Offset(base + start), last))
            else:
                _answer_with_outcomes(future, range(start, start + records), base, outcomes)
        self._session.saw(self._table, self._partition.partition, last)

    def fail(self, error: DuramenError) -> None:
        """Each caller gets a copy, for a traceback of its own."""
        self._pending.fail(error)


def _answer_with_outcomes(
    future: asyncio.Future[CallOutcome], records: range, base: Offset, outcomes: dict[int, WriteOutcome]
) -> None:
    rejected = [outcomes[record] for record in records if record in outcomes and outcomes[record].rejected]
    if rejected:
        from router.data.gather.violations import first_of

        future.set_exception(first_of(rejected))
        return
    places: list[Offset] = []
    results: list[bytes | None] = []
    for record in records:
        outcome = outcomes.get(record)
        if outcome is None:
            places.append(Offset(base + record))
            results.append(None)
            continue
        places.append(outcome.original if outcome.original > NOTHING else Offset(base + record))
        results.append(outcome.result)
    future.set_result(CallOutcome(places[0], places[-1], results))


def place_when_done(
    callers: Sequence[Span], partition: PartitionId, written: asyncio.Future[CallOutcome]
) -> asyncio.Future[CallOutcome]:
    """Once a call's records are written, the spans of its callers have their partition and the first one's offset."""

    def place(done: asyncio.Future[CallOutcome]) -> None:
        if not done.cancelled() and done.exception() is None:
            for caller in callers:
                caller.place(partition.partition, done.result().offset)

    written.add_done_callback(place)
    return written
