"""Where the logs end, asked once a second: what a replica's lag is measured against.

A follower hears of the log's end with every chunk, so it hears nothing when the read that it holds open is silent:
idle, slow, or broken. One task per node asks for the ends of each table's partitions in one call, and has every replica
look at its state, whether an answer came or not: where none comes, the lag counts on.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from typing import Final

from log_tier.concurrency.background import Failed, only_logged, run_forever
from log_tier.concurrency.clocks import SYSTEM_CLOCK
from log_tier.concurrency.tasks import end_tasks
from log_tier.model.errors import DuramenError, TableNotFound
from log_tier.model.log import Log, Topic
from serving_tier.replica.replica import Replica

__all__ = ["LogEnds"]

logger = logging.getLogger(__name__)

# How fresh the figures of an idle partition are. One call per table costs the log less than one read does.
_ASK_EVERY_S: Final = 1.0

# Tables that are asked about in one turn of the event loop: some 3 ms.
_ASKED_AT_ONCE: Final = 100

# The pause after a round, as a multiple of the time that the event loop's thread worked meanwhile.
_REST_FACTOR: Final = 9

# An answer that takes longer says nothing about now.
_ANSWER_MAX_S: Final = 1.0


class LogEnds:
    """Fetches the log's ends for `replicas` (those that the node hosts). `open()` begins, `close()` ends it."""

    def __init__(self, log: Log, replicas: Iterable[Replica], *, clock: Callable[[], float], every_s: float) -> None:
        self._log = log
        self._replicas = replicas
        self._clock = clock
        self._every_s = every_s
        self._unreachable: set[Topic] = set()
        self._task: asyncio.Task[None] | None = None

    @classmethod
    def open(
        cls,
        log: Log,
        replicas: Iterable[Replica],
        *,
        clock: Callable[[], float] = SYSTEM_CLOCK.monotonic_s,
        every_s: float = _ASK_EVERY_S,
        failed: Failed = only_logged,
    ) -> LogEnds:
        """Begin to ask. `replicas` is gone through anew each time; `clock` in seconds, the replicas' own."""
        ends = cls(log, replicas, clock=clock, every_s=every_s)
        ends._task = run_forever(ends._run(), name="asking where the logs end", failed=failed)
        return ends

    async def _run(self) -> None:
        while True:
            began_s = time.thread_time()
            await self.ask()
            # Asking about thousands of tables takes at most a tenth of the event loop's time.
            await asyncio.sleep(max(self._every_s, _REST_FACTOR * (time.thread_time() - began_s)))

    async def ask(self) -> None:
        """Ask once, about every table; one that does not answer keeps no other waiting for longer than a second."""
        groups: dict[Topic, list[Replica]] = {}
        for replica in self._replicas:
            groups.setdefault(replica.topic, []).append(replica)
        self._unreachable &= groups.keys()
        asked, answers = list(groups.items()), []
        for at in range(0, len(asked), _ASKED_AT_ONCE):
            answers.append(asyncio.gather(*(self._ask_one(*one) for one in asked[at : at + _ASKED_AT_ONCE])))
            await asyncio.sleep(0)
        await asyncio.gather(*answers)

    async def _ask_one(self, topic: Topic, group: list[Replica]) -> None:
        asked_s = self._clock()
        try:
            async with asyncio.timeout(_ANSWER_MAX_S):
                bounds = await self._log.all_bounds(topic.id)
            for replica in group:
                replica.hear(bounds[replica.partition].latest, asked_s=asked_s)
            self._unreachable.discard(topic)
        except TableNotFound:
            pass  # dropped: its replicas hear of it from the reads that they hold open
        except (DuramenError, TimeoutError) as error:
            if topic not in self._unreachable:
                self._unreachable.add(topic)
                why = str(error) or f"no answer came within {_ANSWER_MAX_S:g} s"
                logger.warning("the log does not say where %s ends: %s; its lag counts on", topic.name, why)
        for replica in group:
            replica.look()

    async def close(self) -> None:
        """Ask no more. Idempotent."""
        await end_tasks(self._task)
