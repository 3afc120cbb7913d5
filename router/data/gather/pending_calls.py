"""The callers of one request: who waits, until when, and how each of them learns its end.

Calls that leave together have deadlines of their own. One timer per request, not per call, ends those whose time is
over, wherever the request is: waiting to leave, under way, or between two tries. So no call outlives its timeout, and
a caller who gives up takes nothing away from the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from copy import copy
from typing import Any, Final, Generic, Protocol, TypeVar

from log_tier.model.errors import DuramenError

__all__ = ["Call", "PendingCalls"]

# Event loops' clocks tick in milliseconds: a call that is due within two is due.
_TICK_S: Final = 0.002


class Call(Protocol):
    """One caller's part of a request."""

    @property
    def future(self) -> asyncio.Future[Any]:
        """What the caller waits for."""
        ...

    @property
    def deadline(self) -> float:
        """On the event loop's clock."""
        ...


C = TypeVar("C", bound=Call)


class PendingCalls(Generic[C]):
    """The calls of one request, in their order.

    `too_late(nobody_left)` gives the error for calls whose time is over; `nobody_left`: no other caller waits.
    """

    __slots__ = ("_loop", "_timer", "_too_late", "_wakes_at", "calls")

    def __init__(self, loop: asyncio.AbstractEventLoop, too_late: Callable[[bool], DuramenError]) -> None:
        self.calls: list[C] = []
        self._loop = loop
        self._too_late = too_late
        self._timer: asyncio.TimerHandle | None = None
        self._wakes_at = 0.0

    def add(self, call: C) -> None:
        """One more call. O(1); a timer is set for the first, and for any that is due before it."""
        self.calls.append(call)
        if self._timer is None or call.deadline < self._wakes_at:
            self._wake_at(call.deadline)

    def _wake_at(self, moment: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._wakes_at = self._loop.call_at(moment, self._wake), moment

    def _wake(self) -> None:
        self._timer = None
        now = self._loop.time() + _TICK_S
        waiting = [call for call in self.calls if not call.future.done()]
        left = [call.deadline for call in waiting if call.deadline > now]
        if len(left) < len(waiting):
            error = self._too_late(not left)
            for call in waiting:
                if call.deadline <= now:
                    call.future.set_exception(copy(error))
        if left:
            self._wake_at(min(left))

    def last_deadline(self) -> float | None:
        """Until when somebody waits; None where nobody does any more. O(calls)."""
        return max((call.deadline for call in self.calls if not call.future.done()), default=None)

    def fail(self, error: DuramenError) -> None:
        """End every call that still waits with `error`; each caller gets a traceback of its own."""
        for call in self.calls:
            if not call.future.done():
                call.future.set_exception(copy(error))
        self.settle()

    def settle(self) -> None:
        """All calls have been answered: let go of the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
