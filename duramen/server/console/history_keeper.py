"""What looks at the server again and again, for its history and for everybody who watches it.

While nobody watches it looks as often as the history's grain says; while somebody does, each second. One look is for
all of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final, Protocol

from duramen.server.console.history import LOOKS_PER_S, ServerHistory
from duramen.server.console.history_ring import ServerSample
from duramen.server.console.look import Look, Trends
from duramen.server.console.node_facts import NodeFacts
from duramen.server.console.node_watch import AskStatus, NodeWatch
from duramen.server.sight.observed import Observed
from duramen.server.sight.status_document import status_of_server, status_to_dict
from duramen.server.sight.status_history import StatusHistory
from log_tier.concurrency.background import run_forever
from log_tier.concurrency.sized_work import run_sized, wake_some
from log_tier.concurrency.tasks import end_tasks, every_step
from log_tier.model.errors import DuramenError

__all__ = ["HistoryKeeper", "Sees", "next_look_s"]

logger = logging.getLogger(__name__)

WATCHED_S: Final = 1
"""Seconds between two looks while somebody watches."""

# To compare a partition with what it was costs as much as so many keys of a read.
_COMPARE_ITEMS: Final = 4


class Sees(Protocol):
    """What a look is made with: a `ServerSight`."""

    async def observed_lately(self) -> Observed:
        """What is to be known now, or was half a second ago."""
        ...

    def uptime_s(self) -> float:
        """Seconds on a clock that never goes back."""
        ...


def next_look_s(now_s: float, step_s: int) -> float:
    """When to look after `now_s`: in the middle of a step, so that a look that is late by less than half a step is in
    its own.
    """
    return ((now_s - step_s / 2) // step_s + 1.5) * step_s


class HistoryKeeper:
    """Looks at one server. Belongs to its event loop; `start()` begins, `close()` ends it."""

    def __init__(self, sight: Sees, ask: AskStatus | None = None) -> None:
        """`ask`: asks a node for its status; None: this server knows no others."""
        self._sight = sight
        self._nodes = None if ask is None else NodeWatch(ask, sight.uptime_s)
        self._watching: list[Callable[[], None]] = []
        self._hurry = asyncio.Event()
        """Somebody came who watches."""
        self._task: asyncio.Task[None] | None = None
        self.history = ServerHistory()
        self._figures = StatusHistory()
        self.newest: Look | None = None

    def start(self) -> None:
        """Begin to look."""
        assert self._task is None, "it looks already"
        self._task = run_forever(self._look_again(), name="looking at the server for its history")

    async def close(self) -> None:
        """Look no longer. Idempotent."""
        await every_step(partial(end_tasks, self._task), *(() if self._nodes is None else (self._nodes.close,)))

    @property
    def is_watched(self) -> bool:
        """Does somebody watch?"""
        return bool(self._watching)

    @contextmanager
    def watched(self, wake: Callable[[], None]) -> Iterator[None]:
        """Look each second while the block runs, and call `wake` after each look."""
        self._watching.append(wake)
        self._hurry.set()
        try:
            yield
        finally:
            self._watching.remove(wake)

    async def _look_again(self) -> None:
        while True:
            try:
                await self._look()
            except DuramenError as error:  # a part of the server that closes or fails: the next look may see it
                logger.warning("a look at the server failed, its history has a gap: %s", error.message)
            await self._pause()

    async def _pause(self) -> None:
        begun_s = self._sight.uptime_s()
        while True:
            self._hurry.clear()
            now_s = self._sight.uptime_s()
            if self._watching and (self.newest is None or self.newest.trends is None or now_s - begun_s >= WATCHED_S):
                return
            due_s = next_look_s(begun_s, self._step_s())
            if now_s >= due_s:
                return
            try:
                async with asyncio.timeout(due_s - now_s):
                    await self._hurry.wait()
            except TimeoutError:
                return

    def _step_s(self) -> int:
        """Seconds between two looks."""
        if self._watching:
            return WATCHED_S
        seen = 0 if self.newest is None else len(self.newest.observed.partitions)
        return max(self.history.grain.fine_s, -(-seen // LOOKS_PER_S))

    async def _look(self) -> None:
        observed = await self._sight.observed_lately()
        items, trends_wanted = _COMPARE_ITEMS * len(observed.partitions), self.is_watched
        ready, trends = await run_sized(items, lambda: self._compare(observed, trends_wanted=trends_wanted))
        disk = observed.disk
        sample = ServerSample(
            sync_p99_s=observed.sync_p99_s,
            queue_age_s=observed.queue_age_s,
            disk_free_bytes=None if disk is None else disk.free_bytes,
            ready=ready,
        )
        self.history.record(observed.uptime_s, observed.partitions, sample)
        nodes: dict[str, NodeFacts] = {}
        if self._nodes is not None:
            self._nodes.look(observed.nodes, watched=self.is_watched)
            nodes = self._nodes.facts()
        self.newest = Look(1 if self.newest is None else self.newest.number + 1, observed, trends, nodes)
        wake_some(tuple(self._watching), lambda wake: wake())

    def _compare(self, observed: Observed, *, trends_wanted: bool) -> tuple[bool, Trends | None]:
        """Is the server ready, and what is its trend? One thread at a time."""
        status = status_of_server(observed)
        figures = self._figures
        figures.add(status_to_dict(status), observed.uptime_s)
        if not trends_wanted:
            return status.ready, None
        named = {each.name: each for each in figures.partitions()}
        return status.ready, Trends(named, figures.log_rates(), figures.disk_full_in_s())
