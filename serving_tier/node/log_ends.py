"""Where the logs end, asked once a second: what a replica's lag is measured against.

A follower hears of the log's end with every chunk, so it hears nothing when the read that it holds open is silent:
idle, slow, or broken. One task per node asks for the ends of each table's partitions in one call, and has every replica
look at its state, whether an answer came or not: where none comes, the lag counts on.

A log in this process (`LocalLog`) is looked at instead, partition by partition: some 2 µs for one that is idle.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

from log_tier.concurrency.background import Failed, only_logged, run_forever
from log_tier.concurrency.clocks import SYSTEM_CLOCK
from log_tier.concurrency.tasks import end_tasks
from log_tier.model.errors import DuramenError, TableNotFound
from log_tier.model.identifiers import TableId
from log_tier.model.log import LocalLog, Log
from serving_tier.replica.replica import Replica

__all__ = ["LogEnds"]

logger = logging.getLogger(__name__)

# How fresh the figures of an idle partition are. One call per table costs the log less than one read does.
_ASK_EVERY_S: Final = 1.0

# Tables that are asked about in one turn of the event loop: some 2 ms where the log is in this process.
_ASKED_AT_ONCE: Final = 200

# Of those, so many are asked about by one task, one after another: where the log is in this process, a task and its
# timeout cost more than the answer.
_ASKED_IN_TURN: Final = 20

# Partitions of a log in this process that are looked at in one turn of the event loop: some 1 ms.
_LOOKED_AT_ONCE: Final = 500

# The pause after a round, as a multiple of the time that the event loop's thread worked meanwhile.
_REST_FACTOR: Final = 9

# An answer that takes longer says nothing about now.
_ANSWER_MAX_S: Final = 1.0


class LogEnds:
    """Fetches the log's ends for `replicas` (those that the node hosts). `open()` begins, `close()` ends it."""

    def __init__(
        self,
        log: Log,
        replicas: Iterable[Replica],
        *,
        clock: Callable[[], float],
        every_s: float,
        busy_s: Callable[[], float] = SYSTEM_CLOCK.busy_s,
    ) -> None:
        self._log = log
        self._replicas = replicas
        self._clock = clock
        self._every_s = every_s
        self._busy_s = busy_s
        self._unreachable: set[TableId] = set()
        self._task: asyncio.Task[None] | None = None

    @classmethod
    def open(
        cls,
        log: Log,
        replicas: Iterable[Replica],
        *,
        clock: Callable[[], float] = SYSTEM_CLOCK.monotonic_s,
        every_s: float = _ASK_EVERY_S,
        busy_s: Callable[[], float] = SYSTEM_CLOCK.busy_s,
        failed: Failed = only_logged,
    ) -> LogEnds:
        """Begin to ask. `replicas` is gone through anew each time; `clock` in seconds, the replicas' own.
        `busy_s`: processor time of this thread."""
        ends = cls(log, replicas, clock=clock, every_s=every_s, busy_s=busy_s)
        ends._task = run_forever(ends._run(), name="asking where the logs end", failed=failed)
        return ends

    async def _run(self) -> None:
        while True:
            began_s = self._busy_s()
            await self.ask()
            # Asking about thousands of tables takes at most a tenth of the event loop's time.
            await asyncio.sleep(max(self._every_s, _REST_FACTOR * (self._busy_s() - began_s)))

    async def ask(self) -> None:
        """Ask once, about every table; one that does not answer keeps no other waiting for longer than a second.

        What a log in this process refuses to say is asked for like any other, which says why.
        """
        replicas = self._replicas
        if isinstance(self._log, LocalLog):
            replicas = await self._look_at(self._log)
        groups: dict[TableId, list[Replica]] = {}
        for replica in replicas:
            groups.setdefault(replica.topic.id, []).append(replica)
        self._unreachable &= groups.keys()
        # One that did not answer the last time keeps no other waiting.
        answers = [asyncio.gather(*(self._ask_one(groups[table_id]) for table_id in self._unreachable))]
        asked = [group for table_id, group in groups.items() if table_id not in self._unreachable]
        for at in range(0, len(asked), _ASKED_AT_ONCE):
            turns = range(at, min(at + _ASKED_AT_ONCE, len(asked)), _ASKED_IN_TURN)
            answers.append(asyncio.gather(*(self._ask_in_turn(asked[i : i + _ASKED_IN_TURN]) for i in turns)))
            await asyncio.sleep(0)
        await asyncio.gather(*answers)

    async def _look_at(self, log: LocalLog) -> list[Replica]:
        """Look at every partition's end; return the replicas of which the log does not say it."""
        refused: list[Replica] = []
        replicas = list(self._replicas)
        for at in range(0, len(replicas), _LOOKED_AT_ONCE):
            asked_s = self._clock()
            for replica in replicas[at : at + _LOOKED_AT_ONCE]:
                try:
                    latest = log.bounds_now(replica.id).latest
                except DuramenError:
                    refused.append(replica)
                else:
                    replica.hear(latest, asked_s=asked_s)
            await asyncio.sleep(0)
        return refused

    async def _ask_in_turn(self, groups: Sequence[list[Replica]]) -> None:
        """Ask about one table after another; once one fails, or the time is over, about all others at the same time."""
        done = 0
        with suppress(DuramenError, TimeoutError):  # met again by those that are asked about alone
            async with asyncio.timeout(_ANSWER_MAX_S):
                for group in groups:
                    await self._fetch(group)
                    done += 1
        if done < len(groups):
            await asyncio.gather(*map(self._ask_one, groups[done:]))

    async def _fetch(self, group: list[Replica]) -> None:
        asked_s = self._clock()
        bounds = await self._log.all_bounds(group[0].topic.id)
        for replica in group:
            replica.hear(bounds[replica.id.partition].latest, asked_s=asked_s)

    async def _ask_one(self, group: list[Replica]) -> None:
        topic = group[0].topic
        try:
            async with asyncio.timeout(_ANSWER_MAX_S):
                await self._fetch(group)
            self._unreachable.discard(topic.id)
            return
        except TableNotFound:
            pass  # dropped: its replicas hear of it from the reads that they hold open
        except (DuramenError, TimeoutError) as error:
            if topic.id not in self._unreachable:
                self._unreachable.add(topic.id)
                why = str(error) or f"no answer came within {_ANSWER_MAX_S:g} s"
                logger.warning("the log does not say where %s ends: %s; its lag counts on", topic.name, why)
        for replica in group:
            replica.look()

    async def close(self) -> None:
        """Ask no more. Idempotent."""
        await end_tasks(self._task)
