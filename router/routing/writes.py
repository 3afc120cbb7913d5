"""Writes go straight to the log; their verdicts come from a replica, and are equal on every replica."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from copy import copy
from typing import Final

from log_tier.catalog.catalog import Maps
from log_tier.model.errors import Disconnected, DuramenError
from log_tier.model.identifiers import HISTORY_TABLE, TableId
from log_tier.model.log import Appended, Log
from router.data.misfits import asked_where_misfit, explained
from router.data.outcomes import outcome_unknown, refused_parts, unanswered
from router.data.requests import OutcomesPart, WritePart, WriteResult
from router.data.seam import DataPlane
from router.routing.hedging import HedgedQuestions
from router.routing.retry_policy import worth_failover
from router.routing.routes import Routes
from router.routing.scatter import Scatter
from router.routing.targets import Askable

__all__ = ["RoutedWrites"]

_Results = list[WriteResult | DuramenError]

# A node that does not answer in time must leave some for asking another one.
_OUTCOMES_TRY_S: Final = 5.0


class RoutedWrites:
    """`Connection.write` and `outcomes`: to the log, or through `fallback` if this process does not reach the log."""

    def __init__(
        self, log: Log | None, fallback: DataPlane | None, maps: Maps, routes: Routes, scatter: Scatter
    ) -> None:
        assert log is not None or fallback is not None, "there is no way to write"
        self._log = log
        self._maps = maps
        self._fallback = fallback
        self._scatter = scatter
        self.questions = HedgedQuestions(routes)
        """For outcomes: a replica that lags would hold up a write that is long decided."""
        self._loop = asyncio.get_running_loop()
        self._plain: set[TableId] = set()  # see `asked_where_misfit`

    def reach(self, log: Log) -> None:
        """The log is reached from here from now on. What is under way through `fallback` ends there."""
        self._log = log

    async def write(self, parts: Sequence[WritePart], *, timeout: float, patience: float) -> _Results:
        if self._log is None:
            assert self._fallback is not None, "without a log there is a fallback"
            return list(await self._fallback.write(parts, timeout=timeout, patience=patience))
        history = self._maps.map.named(HISTORY_TABLE)
        if history is not None and (refused := refused_parts(parts, {history.id}, {})):
            others = [part for part in parts if part.partition not in refused]
            done = iter(await self.write(others, timeout=timeout, patience=patience) if others else ())
            return [copy(refused[part.partition]) if part.partition in refused else next(done) for part in parts]
        deadline = self._loop.time() + timeout
        cluster = self._maps.map
        if not self._plain.issuperset(part.partition.table for part in parts):
            parts = await asked_where_misfit(parts, cluster, self._plain)
        appended: Sequence[Appended | DuramenError]
        try:
            async with asyncio.timeout(timeout):
                appended = await self._log.append_many([(part.partition, part.batch) for part in parts])
        except (DuramenError, TimeoutError) as error:
            appended = unanswered(parts, error, timeout)
        results: _Results = []
        asked: list[OutcomesPart] = []
        places: list[int] = []
        unsent: list[int] = []
        for number, (part, place) in enumerate(zip(parts, appended, strict=True)):
            if isinstance(place, Appended):
                results.append(WriteResult(place.base_offset, place.timestamp_ms))
                if part.outcomes:
                    asked.append(OutcomesPart(part.partition, *place))
                    places.append(number)
            else:
                results.append(place)
                if isinstance(place, Disconnected) and place.fields.get("sent") == 0:
                    unsent.append(number)
        if unsent and self._fallback is not None:
            await self._write_through(self._fallback, parts, unsent, results, deadline, patience)
        if asked:
            await self._judge(asked, places, results, deadline, patience)
        defined = cluster.table_facts().defined
        return await explained(parts, results, defined) if defined and asked else results

    async def _write_through(
        self,
        fallback: DataPlane,
        parts: Sequence[WritePart],
        numbers: Sequence[int],
        results: _Results,
        deadline: float,
        patience: float,
    ) -> None:
        """The log cannot be reached from here, and nothing of these parts was sent: another server may reach it."""
        timeout = deadline - self._loop.time()
        if timeout <= 0:
            return
        try:
            found = await fallback.write([parts[number] for number in numbers], timeout=timeout, patience=patience)
        except DuramenError as error:
            if error.fields.get("sent") == 0:
                return  # the error of the log's own connection remains
            found = [error] * len(numbers)
        for number, result in zip(numbers, found, strict=True):
            results[number] = result

    async def _judge(
        self,
        asked: Sequence[OutcomesPart],
        places: Sequence[int],
        results: _Results,
        deadline: float,
        patience: float,
    ) -> None:
        until = min(deadline, self._loop.time() + patience) if patience else deadline
        verdicts = await self._ask(asked, until)
        for part, number, verdict in zip(asked, places, verdicts, strict=True):
            if isinstance(verdict, WriteResult):
                results[number] = verdict
            elif patience and worth_failover(verdict) and self._loop.time() < deadline:
                results[number] = WriteResult(part.base_offset, part.timestamp_ms, pending=True)
            else:
                results[number] = outcome_unknown(part, verdict)

    async def outcomes(self, parts: Sequence[OutcomesPart], *, timeout: float) -> _Results:
        verdicts = await self._ask(parts, self._loop.time() + timeout)
        return [
            verdict if isinstance(verdict, WriteResult) else outcome_unknown(part, verdict)
            for part, verdict in zip(parts, verdicts, strict=True)
        ]

    async def _ask(self, parts: Sequence[OutcomesPart], deadline: float) -> _Results:
        async def ask(
            member: Askable, mine: Sequence[OutcomesPart], timeout: float, _: float
        ) -> Sequence[WriteResult | DuramenError]:
            return await self.questions.ask(
                member,
                mine,
                lambda node, some, left_s: node.outcomes(some, timeout=left_s),
                min(timeout, _OUTCOMES_TRY_S),
            )

        return await self._scatter.answers(parts, ask, deadline=deadline)
