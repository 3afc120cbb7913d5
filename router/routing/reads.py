"""Reads of keys: asked at few nodes, a second time where a reply is late."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from log_tier.model.errors import DuramenError
from router.data.requests import ReadPart, ReadResult
from router.routing.hedging import HedgedQuestions
from router.routing.routes import Routes
from router.routing.scatter import Scatter
from router.routing.targets import Askable

__all__ = ["RoutedReads"]


class RoutedReads:
    """`Connection.read` over all nodes: each part goes to a replica that can answer it."""

    def __init__(self, routes: Routes, scatter: Scatter) -> None:
        self._scatter = scatter
        self._loop = asyncio.get_running_loop()
        self.questions = HedgedQuestions(routes)

    async def read(
        self, parts: Sequence[ReadPart], *, timeout: float, patience: float
    ) -> list[ReadResult | DuramenError]:
        if not parts:
            return []

        async def ask(
            member: Askable, mine: Sequence[ReadPart], timeout: float, patience: float
        ) -> Sequence[ReadResult | DuramenError]:
            return await self.questions.ask(
                member, mine, lambda node, some, left_s: node.read(some, timeout=left_s, patience=patience), timeout
            )

        deadline = self._loop.time() + timeout
        return await self._scatter.answers(parts, ask, deadline=deadline, patience=patience)
