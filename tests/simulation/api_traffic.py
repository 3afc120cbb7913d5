"""Clients of the Python API at a database of the simulation.

The workload, its history and the checker are those of `duramen check` (`duramen.verification`).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any, Final

from duramen.client.database import Database
from duramen.verification.run import run_check
from duramen.verification.workload import WorkloadShape
from log_tier.model.errors import DatabaseClosed, Disconnected, DuramenError, LogStopped, ShuttingDown, WriteUnknown
from router.data.local_data import LocalData
from simulation.database_world import DatabaseWorld
from simulation.judging import judge

__all__ = ["api_traffic"]

_SECONDS: Final = 6.0
_PAUSE_MIN_S: Final = 0.003
"""Work that the event loop does itself takes no virtual time: with shorter pauses a run makes tens of thousands of
calls, and takes fifteen seconds of a processor without meeting more faults."""


async def api_traffic(world: DatabaseWorld) -> None:
    """The workload under the plan's faults, then the checker."""
    chance = random.Random(f"database {world.plan.seed}")

    async def connect() -> Database:
        await world.up.wait()
        return Database(_Reconnecting(world), timeout=5.0)

    shape = WorkloadShape(
        clients=chance.choice((1, 3, 6)),
        watchers=chance.choice((0, 1)),
        hot_keys=chance.choice((2, 12)),
        cold_keys=40,
        pause_s=chance.choice((_PAUSE_MIN_S, 0.01, 0.1)),
        expiring=world.plan.expiring,
    )
    history = await run_check(
        connect,
        seconds=_SECONDS,
        seed=str(world.plan.seed),
        shape=shape,
        partitions=world.plan.partitions,
        faults=world.faults,
        clock=lambda: int(world.loop.time() * 1e9),
    )
    judge(history, world.story)


class _Reconnecting:
    """A `Connection` to whatever life the server has: a call under way when it dies ends as a lost connection does."""

    def __init__(self, world: DatabaseWorld) -> None:
        self._world = world

    def __getattr__(self, name: str) -> Any:
        if name == "watch":
            return self._watch

        async def call(*args: Any, **kwargs: Any) -> Any:
            plane, life = self._plane(), self._world.life
            running = asyncio.ensure_future(getattr(plane, name)(*args, **kwargs))
            dying = asyncio.ensure_future(self._world.died.wait())
            try:
                await asyncio.wait([running, dying], return_when="FIRST_COMPLETED")
                if not running.done():
                    raise Disconnected("the server died")
                result = running.result()
            except DuramenError as error:
                raise self._as_seen(error, life) from error
            finally:
                for task in (running, dying):
                    task.cancel()
                await asyncio.gather(running, dying, return_exceptions=True)
            for each in result if isinstance(result, list) else ():
                if isinstance(each, LogStopped | WriteUnknown):
                    self._world.stop()
            return result

        return call

    def _plane(self) -> LocalData:
        plane = self._world.plane
        if plane is None or not self._world.up.is_set():
            raise Disconnected("no server answers", sent=0)
        return plane

    async def _watch(self, *args: Any) -> AsyncIterator[Any]:
        plane, life = self._plane(), self._world.life
        events = plane.watch(*args)
        try:
            async for event in events:
                yield event
        except DuramenError as error:
            raise self._as_seen(error, life) from error
        finally:
            await events.aclose()

    def _as_seen(self, error: DuramenError, life: int) -> DuramenError:
        """A client of a dead server sees a lost connection, whatever the dead one's disk says."""
        dead = self._world.died.is_set() or self._world.life != life
        if dead or isinstance(error, ShuttingDown | DatabaseClosed):
            return Disconnected(f"the server ends: {error.message}")
        return error

    async def close(self) -> None:
        """Nothing is held."""
