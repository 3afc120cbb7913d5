"""Reads of keys: asked at few nodes, a second time where a reply is late."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from log_tier.model.errors import DuramenError, InvalidRequest
from router.data.requests import ReadPart, ReadResult
from router.routing.hedge_budget import Budget, Lateness
from router.routing.hedging import overtaken
from router.routing.routes import Routes
from router.routing.scatter import Scatter
from router.routing.targets import Askable

__all__ = ["RoutedReads"]

_Results = list[ReadResult | DuramenError]
_Found = Sequence[ReadResult | DuramenError]


class RoutedReads:
    """`Connection.read` over all nodes: each part goes to a replica that can answer it."""

    def __init__(self, routes: Routes, scatter: Scatter) -> None:
        self._routes = routes
        self._scatter = scatter
        self._loop = asyncio.get_running_loop()
        self.lateness = Lateness()
        self.budget = Budget()
        self.overtakings = 0
        """How many second questions were sent."""

    async def read(self, parts: Sequence[ReadPart], *, timeout: float, patience: float) -> _Results:
        if not parts:
            return []
        results: _Results = [_UNANSWERED] * len(parts)

        async def ask(
            member: Askable, numbers: Sequence[int], timeout: float, patience: float
        ) -> Mapping[int, DuramenError]:
            mine = parts if len(numbers) == len(parts) else [parts[number] for number in numbers]
            found = await self._ask(member, mine, timeout, patience)
            failed: dict[int, DuramenError] = {}
            for number, result in zip(numbers, found, strict=True):
                if isinstance(result, DuramenError):
                    failed[number] = result
                else:
                    results[number] = result
            return failed

        failed = await self._scatter.run(parts, ask, deadline=self._loop.time() + timeout, patience=patience)
        for number, error in failed.items():
            results[number] = error
        return results

    async def _ask(self, member: Askable, parts: Sequence[ReadPart], timeout: float, patience: float) -> _Found:
        self.budget.earn()
        started = self._loop.time()
        first = member.ask(lambda connection: connection.read(parts, timeout=timeout, patience=patience))
        found = await overtaken(
            first, self.lateness.late_s, lambda: self._second(member, parts, started + timeout, patience)
        )
        self.lateness.took(self._loop.time() - started)
        return found

    def _second(
        self, member: Askable, parts: Sequence[ReadPart], deadline: float, patience: float
    ) -> Coroutine[Any, Any, _Found] | None:
        """The same question to another node that can be expected to answer all of it."""
        try:
            placed = [
                (number, [each for each in self._routes.candidates(part) if each.node != member.id])
                for number, part in enumerate(parts)
            ]
        except DuramenError:
            return None
        groups, nowhere = self._routes.assign(placed)
        if len(groups) != 1 or nowhere or not groups[0][0].alive or not self.budget.spend():
            return None
        self.overtakings += 1
        return self._ask_second(groups[0][0], parts, deadline - self._loop.time(), patience)

    async def _ask_second(self, member: Askable, parts: Sequence[ReadPart], timeout: float, patience: float) -> _Found:
        found = await member.ask(lambda connection: connection.read(parts, timeout=timeout, patience=patience))
        for result in found:
            if isinstance(result, DuramenError):
                raise result  # only a whole answer is better than the one that is waited for
        return found


_UNANSWERED = InvalidRequest("a part of a read was not answered: a bug of ours")
