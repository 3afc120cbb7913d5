"""Where the logs end, asked once a second: what a replica's lag is measured against.

A follower hears of the log's end with every chunk, so it hears nothing when the read that it holds open is silent:
idle, slow, or broken. One task per node asks for the ends of each table's partitions in one call, and has every replica
look at its state, whether an answer came or not: where none comes, the lag counts on.

A log in this process (`LocalLog`) says which partitions have moved. Those are looked at, some 2 µs each, and each
replica that is not level with its log. All others share one time of the last look, so idle partitions cost nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from log_tier.concurrency.background import Failed, only_logged, run_forever
from log_tier.concurrency.clocks import SYSTEM_CLOCK
from log_tier.concurrency.tasks import end_tasks
from log_tier.model.errors import DuramenError, TableNotFound
from log_tier.model.identifiers import PartitionId, TableId
from log_tier.model.log import LocalLog, Log
from log_tier.model.moves import Moves
from serving_tier.replica.lag import LastLook
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


Hosted = Callable[[], Mapping[PartitionId, Replica]]
"""The replicas that a node hosts. The mapping is replaced, never changed in place."""


class LogEnds:
    """Fetches the log's ends for the `hosted` replicas. `open()` begins, `close()` ends it."""

    def __init__(
        self,
        log: Log,
        hosted: Hosted,
        *,
        clock: Callable[[], float],
        every_s: float,
        busy_s: Callable[[], float] = SYSTEM_CLOCK.busy_s,
    ) -> None:
        self._log = log
        self._hosted = hosted
        self._local = _LocalEnds(log, clock) if isinstance(log, LocalLog) else None
        self._clock = clock
        self._every_s = every_s
        self._busy_s = busy_s
        self._unreachable: set[TableId] = set()
        self._task: asyncio.Task[None] | None = None

    @classmethod
    def open(
        cls,
        log: Log,
        hosted: Hosted,
        *,
        clock: Callable[[], float] = SYSTEM_CLOCK.monotonic_s,
        every_s: float = _ASK_EVERY_S,
        busy_s: Callable[[], float] = SYSTEM_CLOCK.busy_s,
        failed: Failed = only_logged,
    ) -> LogEnds:
        """Begin to ask. `hosted` is called each time; `clock` in seconds, the replicas' own.
        `busy_s`: processor time of this thread."""
        ends = cls(log, hosted, clock=clock, every_s=every_s, busy_s=busy_s)
        ends._task = run_forever(ends._run(), name="asking where the logs end", failed=failed)
        return ends

    async def _run(self) -> None:
        while True:
            began_s = self._busy_s()
            await self.ask()
            # Asking about thousands of tables takes at most a tenth of the event loop's time.
            await asyncio.sleep(max(self._every_s, _REST_FACTOR * (self._busy_s() - began_s)))

    async def ask(self) -> None:
        """Ask once, about every table; a table that does not answer keeps no other waiting for longer than a second.

        Partitions whose end a log in this process refuses to give are asked about like remote ones: the call
        raises why.
        """
        hosted = self._hosted()
        replicas = hosted.values() if self._local is None else await self._local.look(hosted)
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
                place = {"table": topic.name}
                logger.warning(
                    "the log does not say where %s ends: %s; its lag counts on", topic.name, why, extra=place
                )
        for replica in group:
            replica.look()

    async def close(self) -> None:
        """Ask no more. Idempotent."""
        try:
            await end_tasks(self._task)
        finally:
            if self._local is not None:
                self._local.close()


class _LocalEnds:
    """The ends of a log in this process.

    Invariant: a replica of `_level` was level at the last look, and its log had not moved when that began.
    """

    def __init__(self, log: LocalLog, clock: Callable[[], float]) -> None:
        self._log = log
        self._clock = clock
        self._moves: Moves = log.moves.follow()
        self._last = LastLook(clock())
        self._hosted: Mapping[PartitionId, Replica] = {}
        self._level: dict[PartitionId, Replica] = {}
        self._others: dict[PartitionId, Replica] = {}
        """The replicas that are looked at each time."""

    async def look(self, hosted: Mapping[PartitionId, Replica]) -> list[Replica]:
        """Look at the partitions that have moved, and at those of replicas that were not level. O(those), and once
        O(`hosted`) after a change of it. Return the replicas of which the log does not say the end.
        """
        asked_s = self._clock()
        for partition in self._moves.take():
            self._moved(partition)
        if hosted is not self._hosted:
            self._take(hosted)
        refused: list[Replica] = []
        others = list(self._others.values())
        for at in range(0, len(others), _LOOKED_AT_ONCE):
            for replica in others[at : at + _LOOKED_AT_ONCE]:
                try:
                    latest = self._log.bounds_now(replica.id).latest
                except DuramenError:
                    refused.append(replica)
                    continue
                if replica.hear(latest, asked_s=asked_s, look=self._last):
                    self._level[replica.id] = self._others.pop(replica.id)
            await asyncio.sleep(0)
        self._last.asked_s = asked_s
        return refused

    def _moved(self, partition: PartitionId) -> None:
        replica = self._level.pop(partition, None)
        if replica is not None:
            replica.progress.leave_look()
            self._others[partition] = replica

    def _take(self, hosted: Mapping[PartitionId, Replica]) -> None:
        """Other replicas are hosted than at the last look."""
        self._hosted = hosted
        self._level = {name: replica for name, replica in self._level.items() if hosted.get(name) is replica}
        self._others = {name: replica for name, replica in hosted.items() if name not in self._level}

    def close(self) -> None:
        self._log.moves.leave(self._moves)
