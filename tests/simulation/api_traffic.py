"""Clients of the Python API at a database of the simulation.

The workload, its history and the checker are those of `duramen check` (`duramen.verification`).
"""

from __future__ import annotations

import random
from functools import partial
from typing import Final

from duramen.client.database import Database
from duramen.verification.run import run_check
from duramen.verification.workload import WorkloadShape
from simulation.database_rows import with_rows
from simulation.database_world import DatabaseWorld
from simulation.judging import judge
from simulation.reconnecting import Reconnecting

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
        return Database(Reconnecting(world), timeout=5.0)

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
        faults=partial(with_rows, world),
        clock=lambda: int(world.loop.time() * 1e9),
    )
    judge(history, world.story)
