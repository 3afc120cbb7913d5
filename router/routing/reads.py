"""Reads of keys: asked at few nodes, a second time where a reply is late."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from log_tier.model.errors import DuramenError, InvalidRequest
from router.data.requests import ReadPart, ReadResult
from router.routing.hedging import HedgedQuestions
from router.routing.routes import Routes
from router.routing.scatter import Scatter
from router.routing.targets import Askable

__all__ = ["RoutedReads"]

_Results = list[ReadResult | DuramenError]


class RoutedReads:
    """`Connection.read` over all nodes: each part goes to a replica that can answer it."""

    def __init__(self, routes: Routes, scatter: Scatter) -> None:
        self._scatter = scatter
        self._loop = asyncio.get_running_loop()
        self.questions = HedgedQuestions(routes)

    async def read(self, parts: Sequence[ReadPart], *, timeout: float, patience: float) -> _Results:
        if not parts:
            return []
        results: _Results = [_UNANSWERED] * len(parts)

        async def ask(
            member: Askable, numbers: Sequence[int], timeout: float, patience: float
        ) -> Mapping[int, DuramenError]:
            mine = parts if len(numbers) == len(parts) else [parts[number] for number in numbers]
            found = await self.questions.ask(
                member, mine, lambda node, some, left_s: node.read(some, timeout=left_s, patience=patience), timeout
            )
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


_UNANSWERED = InvalidRequest("a part of a read was not answered: a bug of ours")
