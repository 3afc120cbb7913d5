"""The histories that the servers of a simulated cluster keep in the table `_duramen_history`, by steps of a second.

In some runs nodes and router observe themselves four times a second, write a row a second, and read their rows again
when they are started. Meanwhile somebody with all rights writes and deletes rows, and drops and clears the table: all
of that must be refused. In the end each row that was acknowledged is there with its bytes, written by nobody else;
what a server remembers and could not write it has written since; and a server that was started again has its past.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Final

from duramen import aio
from duramen.client.database import Database
from duramen.server.console.history import ServerHistory
from duramen.server.console.history_ring import ServerSample
from duramen.server.kept.history_sources import HistorySources
from duramen.server.kept.history_table import HistoryTable
from duramen.server.roles.kv import OpenConnection
from duramen.server.sight.observed import PartitionStatus
from log_tier.concurrency.background import run_forever
from log_tier.concurrency.tasks import end_tasks
from log_tier.model.errors import DuramenError, UnknownFormat
from log_tier.model.identifiers import HISTORY_TABLE
from log_tier.model.log import Log
from router.admin.client import AdminConnection
from router.admin.verbs import Clear
from simulation.book import Broken
from simulation.cluster_turns import ASK_S
from simulation.cluster_world import ClusterWorld
from simulation.history_ledger import NotedAppends, WrittenRow
from simulation.trust_turns import TARGETS

__all__ = ["check_histories", "keep_history", "meddle_with_history"]

_STEP_S: Final = 1
_LOOK_S: Final = 0.25
_WRITTEN_S: Final = 75.0
"""What a server remembers is written so long after the last fault: two writes that find no answer, and the next one."""

_Try = Callable[[Database, random.Random], Awaitable[object]]


class _KeptHistory:
    """The history of one life of a server."""

    def __init__(self, world: ClusterWorld, name: str, sources: HistorySources) -> None:
        self._world, self._name, self._series = world, name, sources.series
        self._began_s = world.loop.time()
        self._before = [row for row in world.histories.acknowledged if row.key.startswith(sources.series.encode())]
        """What was acknowledged before this life began."""
        self.history = ServerHistory()
        self.history.hour.set_step(_STEP_S)
        self.history.week.set_step(_STEP_S)
        clock = world.clock_of(name)
        self.table = HistoryTable(self.history, sources, self._uptime_s, clock.wall_ms)
        self._looking: asyncio.Task[None] | None = None

    def _uptime_s(self) -> float:
        return self._world.loop.time() - self._began_s

    def start(self, opened: AsyncExitStack) -> None:
        """Begin to observe and to write, until `opened` ends."""
        opened.push_async_callback(self._close)
        self.table.start()
        self._looking = run_forever(self._look(), name=f"observing {self._name}")

    async def _close(self) -> None:
        await end_tasks(self._looking)
        await self.table.close()

    async def _look(self) -> None:
        was_read = False
        while True:
            number = self._world.histories.next_number()
            seen = PartitionStatus(self._name, 0, "ready", first=0, last=number, applied=number, lag_s=0.0, ready=1)
            self.history.record(self._uptime_s(), [seen], ServerSample())
            if self.table.state.is_read and not was_read:
                was_read = True
                self._check_past()
            await asyncio.sleep(_LOOK_S)

    def _check_past(self) -> None:
        """All that was acknowledged before is remembered now, but what shares a step with another row."""
        if any(step.process == self._name for step in self._world.plan.clock_steps):
            return  # the rows of another time are at other places, or not there
        restored = [row.at_s for row in self.history.week.after(-float(self.history.week.span_s)) if row.at_s < 0]
        now_ms, now_s = self._world.clock_of(self._name).wall_ms(), self._uptime_s()
        for row in self._before:
            at_s = now_s - (now_ms - row.time_ms) / 1000
            if not any(abs(each - at_s) < _STEP_S for each in restored):
                self._world.end_with(Broken("kept", f"{self._name}, started again, does not know its row {row.key!r}"))
                return
        self._world.story.met["history: read again"] += len(self._before) > 0

    def seen(self) -> set[int]:
        """The numbers of what this life has seen in steps that are over."""
        return {row.last[0] for row in self.history.week.after(-1.0)}


def keep_history(
    world: ClusterWorld, opened: AsyncExitStack, role: str, name: str, log: Log, connect: OpenConnection
) -> None:
    """Keep the history of a life that begins."""
    if not world.has_history:
        return
    sources = HistorySources(NotedAppends(world.histories, name, log), connect, f"{role}/{name}")
    kept = _KeptHistory(world, name, sources)
    kept.start(opened)
    world.histories.of_now[name] = kept.seen
    opened.callback(world.histories.of_now.pop, name)


async def meddle_with_history(world: ClusterWorld, stop: asyncio.Event) -> None:
    """Somebody with all rights changes the table, until `stop` is set. Raises `Broken` where that is not refused."""
    if not world.has_history:
        return
    chance = random.Random(f"meddling with history {world.plan.seed}")
    tries: tuple[tuple[str, _Try], ...] = (
        ("put", lambda database, chance: database.table(HISTORY_TABLE).put(_row(world, chance), b"mine")),
        ("delete", lambda database, chance: database.table(HISTORY_TABLE).delete(_row(world, chance))),
        ("drop", lambda database, chance: database.connection.drop_table(HISTORY_TABLE, timeout=ASK_S)),
        ("clear", lambda database, chance: _clear(chance)),
    )
    while not stop.is_set():
        await asyncio.sleep(chance.random())
        what, work = chance.choice(tries)
        target, direct = chance.choice(TARGETS), chance.random() < 0.5
        try:
            async with await aio.connect(f"{target}:7070", timeout=1.0, direct=direct) as database:
                await work(database, chance)
        except DuramenError as error:
            world.story.met[f"history: {what} refused, {error.code}"] += 1
            if isinstance(error, UnknownFormat):
                raise Broken("kept", f"{target} refused to {what} for another reason: {error.message}") from error
            continue
        raise Broken("kept", f"{target} let somebody {what} rows of the history")


def _row(world: ClusterWorld, chance: random.Random) -> bytes:
    """The key of one that is there, or of none."""
    rows: list[WrittenRow] = world.histories.acknowledged
    return chance.choice(rows).key if rows and chance.random() < 0.8 else b"node/n1/1764104400123"


async def _clear(chance: random.Random) -> None:
    async with AdminConnection(f"{chance.choice(TARGETS)}:7070", timeout=ASK_S) as admin:
        await admin.start(Clear(HISTORY_TABLE))


async def check_histories(world: ClusterWorld) -> None:
    """When all is level and nothing is at fault: see the text above. Raises `Broken`."""
    if not world.has_history:
        return
    ends_s = world.loop.time() + _WRITTEN_S
    for name, seen_by in world.histories.of_now.items():
        seen = seen_by()
        while lacking := seen - world.histories.numbers:
            if world.loop.time() > ends_s:
                lacks = f"{name} has not written {len(lacking)} of {len(seen)} rows that it has seen before"
                raise Broken("kept", f"{_WRITTEN_S:g} s after the last fault {lacks}")
            await asyncio.sleep(_LOOK_S)
    before = list(world.histories.acknowledged)
    if not before:
        raise Broken("kept", "no server has written its history")
    async with await aio.connect("router:7070", timeout=ASK_S) as database:
        found = {key: value async for key, value in database.table(HISTORY_TABLE).scan(level="strong", timeout=ASK_S)}
    if what := world.histories.difference(found, before):
        raise Broken("kept", what)
    world.story.met["history: row that stayed"] += len(before)
