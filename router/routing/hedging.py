"""Questions to one node that go to another one as well where the reply is late. For what any replica answers alike.

Two answers to one question: the first one that comes counts (`overtaken`). The usual case, in which the first question
is answered in time, must cost next to nothing: a timer, and no task. So the first question is awaited directly; if the
second one overtakes it, the waiting task is cancelled and the cancellation taken back, in the way of `asyncio.timeout`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from log_tier.model.errors import DuramenError
from router.data.seam import DataPlane
from router.routing.hedge_budget import Budget, Lateness
from router.routing.routes import Part, Routes
from router.routing.targets import Askable

__all__ = ["HedgedQuestions", "overtaken"]

P = TypeVar("P", bound=Part)
R = TypeVar("R")
T = TypeVar("T")

Question = Callable[[DataPlane, Sequence[P], float], Awaitable[Sequence[R | DuramenError]]]
"""`await question(node, parts, timeout)` asks a node for these parts; one result for each."""


class HedgedQuestions:
    """Of one kind, so that what is late is measured by their like."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes
        self._loop = asyncio.get_running_loop()
        self.lateness = Lateness()
        self.budget = Budget()
        self.overtakings = 0
        """How many second questions were sent."""

    async def ask(
        self, member: Askable, parts: Sequence[P], question: Question[P, R], timeout: float
    ) -> Sequence[R | DuramenError]:
        """Ask this node, and another one that can be expected to answer all of it if the reply is late."""
        self.budget.earn()
        started = self._loop.time()
        first = member.ask(lambda node: question(node, parts, timeout))
        found = await overtaken(
            first, self.lateness.late_s, lambda: self._second(member, parts, question, started + timeout)
        )
        self.lateness.took(self._loop.time() - started)
        return found

    def _second(
        self, first: Askable, parts: Sequence[P], question: Question[P, R], deadline: float
    ) -> Coroutine[Any, Any, Sequence[R | DuramenError]] | None:
        try:
            placed = [
                (number, [each for each in self._routes.candidates(part) if each.node != first.id])
                for number, part in enumerate(parts)
            ]
        except DuramenError:
            return None
        groups, nowhere = self._routes.assign(placed)
        if len(groups) != 1 or nowhere or not groups[0][0].alive or not self.budget.spend():
            return None
        self.overtakings += 1
        return self._ask_second(groups[0][0], parts, question, deadline)

    async def _ask_second(
        self, member: Askable, parts: Sequence[P], question: Question[P, R], deadline: float
    ) -> Sequence[R | DuramenError]:
        timeout = deadline - self._loop.time()
        found = await member.ask(lambda node: question(node, parts, timeout))
        for result in found:
            if isinstance(result, DuramenError):
                raise result  # only a whole answer is better than the one that is waited for
        return found


async def overtaken(first: Awaitable[T], late_s: float, second: Callable[[], Coroutine[Any, Any, T] | None]) -> T:
    """The result of `first`; or, where it takes longer than `late_s` seconds, of whichever of both succeeds first.

    `second` is called then; it returns None if no other replica can be asked now, and is called again later. A failure
    counts only if the other one fails as well, and then the first one's is raised. The one that comes too late is
    cancelled.
    """
    loop = asyncio.get_running_loop()
    waiting = asyncio.current_task()
    assert waiting is not None, "only a task can wait"
    cancelling = waiting.cancelling()
    other: asyncio.Task[T] | None = None
    timer: asyncio.TimerHandle
    over = won = False

    def late() -> None:
        nonlocal other, timer
        question = second()
        if question is None:
            timer = loop.call_later(late_s, late)
            return
        other = loop.create_task(question)
        other.add_done_callback(ended)

    def ended(task: asyncio.Task[T]) -> None:
        nonlocal won
        if not task.cancelled() and task.exception() is None and not over:
            won = True
            waiting.cancel()

    timer = loop.call_later(late_s, late)
    try:
        return await first
    except asyncio.CancelledError:
        over = True
        if won and waiting.uncancel() <= cancelling:
            assert other is not None, "it has won"
            return other.result()
        raise
    except DuramenError:
        over = True
        timer.cancel()
        if other is not None:
            await asyncio.wait([other])
            if not other.cancelled() and other.exception() is None:
                return other.result()
        raise
    finally:
        over = True
        timer.cancel()
        if other is not None and not other.done():
            other.cancel()
