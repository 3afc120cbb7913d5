"""Asking several nodes for the parts of one request, and other replicas for the parts that were not answered.

    part    asked at a node ──answered──▶ done
              │  ▲
        error │  └─────────────────────────────┐
              ├─ the request's own ──▶ failed   │ another replica that was not tried yet
              ├─ the node's ────────────────────┤
              │                                 │ all were tried: a pause, then all of them again
              └─ all said so, for good ─▶ failed (with the last error, also when the time is over)

Where one node holds every part and answers, which is nearly always, this costs no task and no copy: the caller awaits
the question directly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from log_tier.concurrency.backoff import Backoff
from log_tier.concurrency.tasks import end_tasks
from log_tier.model.errors import DeadlineExceeded, DuramenError, NotHosted, ReplicaBehind
from router.data.in_time import in_time
from router.routing.choice import Candidate, Fitness
from router.routing.retry_policy import may_pass, worth_failover
from router.routing.routes import Part, Routes
from router.routing.targets import Askable

__all__ = ["Ask", "Scatter"]

Ask = Callable[[Askable, Sequence[int], float, float], Awaitable[Mapping[int, DuramenError]]]
"""`await ask(member, numbers, timeout, patience)` asks one node for these parts, keeps what it answers, and returns
those that it did not answer; or raises, which goes for all of them."""

AnyPart = TypeVar("AnyPart", bound=Part)
Answer = TypeVar("Answer")

# How long a replica may keep a part waiting while others could answer: some ten times what applying takes when the
# node keeps up.
_LAG_PATIENCE_S: Final = 0.1

# A request goes to a lost node only where no other is left. That node's silence must not use up the whole deadline.
_LOST_TIMEOUT_S: Final = 0.5

_PAUSE_FIRST_S: Final = 0.01
_PAUSE_MAX_S: Final = 0.1


class Scatter:
    """Asks nodes. Keeps nothing between requests."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes
        self._loop = asyncio.get_running_loop()

    async def answers(
        self,
        parts: Sequence[AnyPart],
        ask_some: Callable[[Askable, Sequence[AnyPart], float, float], Awaitable[Sequence[Answer | DuramenError]]],
        *,
        deadline: float,
        patience: float = 0.0,
    ) -> list[Answer | DuramenError]:
        """One result for each part, in their order: a node's answer, or why none answered. Arguments as for `run`.

        `await ask_some(member, parts, timeout, patience)` has one node answer these parts.
        """
        results: dict[int, Answer | DuramenError] = {}

        async def ask(
            member: Askable, numbers: Sequence[int], timeout: float, patience: float
        ) -> Mapping[int, DuramenError]:
            mine = parts if len(numbers) == len(parts) else [parts[number] for number in numbers]
            failed: dict[int, DuramenError] = {}
            for number, result in zip(numbers, await ask_some(member, mine, timeout, patience), strict=True):
                if isinstance(result, DuramenError):
                    failed[number] = result
                else:
                    results[number] = result
            return failed

        results.update(await self.run(parts, ask, deadline=deadline, patience=patience))
        return [results[number] for number in range(len(parts))]

    async def run(
        self, parts: Sequence[Part], ask: Ask, *, deadline: float, patience: float = 0.0
    ) -> Mapping[int, DuramenError]:
        """Have every part answered by `ask`; return those that were not, by their number, each with its reason.

        `deadline` is on the event loop's clock. A part that must wait longer than `patience` seconds (0: than the
        deadline) fails with `ReplicaBehind`.
        """
        routes = self._routes
        tables = routes.maps.map.tables
        if any(part.partition.table not in tables for part in parts):
            left = deadline - asyncio.get_running_loop().time()
            async with in_time(left, "the tables were not looked up"):
                await routes.all_known(parts)
        run = _Run(routes, parts, ask, deadline, patience)
        try:
            groups, nowhere = routes.assign((number, routes.candidates(part)) for number, part in enumerate(parts))
        except DuramenError:
            run.place(range(len(parts)))  # a part cannot be placed, and fails by itself
            return await run.finish()
        if len(groups) == 1 and not nowhere:
            member, numbers = groups[0]
            failed = await run.ask(member, numbers)
            if not failed:
                return failed
            run.took(member, failed)
        else:
            for member, numbers in groups:
                run.start(member, numbers)
            run.place(nowhere)
        return await run.finish()


class _Run:
    """The parts of one request that are not answered yet."""

    __slots__ = (
        "_ask",
        "_backoff",
        "_deadline",
        "_failed",
        "_last",
        "_loop",
        "_parts",
        "_passing",
        "_patience",
        "_routes",
        "_slow",
        "_tasks",
        "_tried",
        "_waits",
    )

    def __init__(self, routes: Routes, parts: Sequence[Part], ask: Ask, deadline: float, patience: float) -> None:
        self._routes = routes
        self._parts = parts
        self._ask = ask
        self._deadline = deadline
        self._patience = patience
        self._loop = asyncio.get_running_loop()
        self._backoff = Backoff(_PAUSE_FIRST_S, _PAUSE_MAX_S)
        self._failed: dict[int, DuramenError] = {}
        self._last: dict[int, DuramenError] = {}
        """Why a part was not answered so far."""
        self._tried: dict[int, set[str]] = {}
        """The targets that a part was sent to since its last pause."""
        self._passing: set[int] = set()
        """Parts of which one of those said that it may answer later."""
        self._slow: set[int] = set()
        """Parts that a replica has kept waiting."""
        self._waits: set[int] = set()
        """Parts that every replica has kept waiting: they wait now for as long as there is time."""
        self._tasks: dict[asyncio.Task[Mapping[int, DuramenError]], Askable | None] = {}

    async def ask(self, member: Askable, numbers: Sequence[int]) -> Mapping[int, DuramenError]:
        """Ask one node once."""
        timeout = self._deadline - self._loop.time()
        if not member.alive:
            timeout = min(timeout, _LOST_TIMEOUT_S)
        patience = self._patience
        if not patience and not (self._waits and self._waits.issuperset(numbers)) and self._has_others(numbers[0]):
            patience = _LAG_PATIENCE_S
        try:
            return await self._ask(member, numbers, timeout, patience)
        except DuramenError as error:
            return dict.fromkeys(numbers, error.as_value())

    def _has_others(self, number: int) -> bool:
        part = self._parts[number]
        table = self._routes.maps.map.tables.get(part.partition.table)
        return table is not None and len(table.assignments[part.partition.partition]) > 1

    def start(self, member: Askable, numbers: Sequence[int]) -> None:
        """Ask one node once, in a task."""
        self._tasks[self._loop.create_task(self.ask(member, numbers))] = member

    def took(self, member: Askable, failed: Mapping[int, DuramenError]) -> None:
        """A node has answered, all but these."""
        again: list[int] = []
        for number, error in failed.items():
            behind = isinstance(error, ReplicaBehind)
            if (behind and self._patience) or not worth_failover(error):
                self._failed[number] = error
                continue
            if type(error) is not DeadlineExceeded or number not in self._last:
                self._last[number] = error
            self._tried.setdefault(number, set()).add(member.id)
            if behind:
                self._slow.add(number)
            if may_pass(error):
                self._passing.add(number)
            again.append(number)
        self.place(again)

    def place(self, numbers: Iterable[int]) -> None:
        """Ask for these parts at nodes that were not asked for them yet; if there is none, after a pause."""
        if self._loop.time() >= self._deadline:
            self._failed.update((number, self._reason(number)) for number in numbers)
            return
        placed: list[tuple[int, list[Candidate]]] = []
        later: list[int] = []
        for number in numbers:
            try:
                candidates = self._routes.candidates(self._parts[number])
            except DuramenError as error:
                self._failed[number] = error.as_value()
                continue
            tried = self._tried.get(number)
            if tried:
                # A part that waits for a replica does not go to a node that is away.
                worst = Fitness.BEHIND if number in self._slow else Fitness.STOPPED
                candidates = [each for each in candidates if each.node not in tried and each.fitness <= worst]
            if candidates:
                placed.append((number, candidates))
            elif tried and number not in self._passing:
                self._failed[number] = self._last[number]
            else:
                later.append(number)
        groups, _ = self._routes.assign(placed)
        for member, mine in groups:
            self.start(member, mine)
        if later:
            self._tasks[self._loop.create_task(self._wait(later))] = None

    async def _wait(self, numbers: Sequence[int]) -> Mapping[int, DuramenError]:
        await self._routes.wait_for_change(min(self._backoff.next_s(), max(0.0, self._deadline - self._loop.time())))
        for number in numbers:
            self._tried.pop(number, None)
            self._passing.discard(number)
            if number in self._slow:
                self._waits.add(number)
        return {number: self._reason(number) for number in numbers}

    def _reason(self, number: int) -> DuramenError:
        found = self._last.get(number)
        if found is not None:
            return found
        part = self._parts[number]
        lost = "; ".join(f"{node}: {error.message}" for node, error in self._routes.membership.failures())
        return NotHosted(
            f"no reachable node holds table {part.partition.table} partition {part.partition.partition} "
            f"({lost or 'every node answers'})",
            table=part.partition.table,
            partition=part.partition.partition,
        )

    async def finish(self) -> Mapping[int, DuramenError]:
        """Go on until every part was answered or has failed; return those that failed."""
        try:
            while self._tasks:
                await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in [each for each in self._tasks if each.done()]:  # in the order in which they were asked
                    member = self._tasks.pop(task)
                    if member is None:
                        self.place(task.result())
                    else:
                        self.took(member, task.result())
        finally:
            await end_tasks(*self._tasks)
        return self._failed
