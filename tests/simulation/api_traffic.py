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
_CALLS_MAX: Final = 3000
"""So many calls a run makes, give or take. Work that the event loop does itself takes no virtual time, so without a
bound the clients of a run make tens of thousands, which take a processor many seconds and meet no other faults."""


async def api_traffic(world: DatabaseWorld) -> None:
    """The workload under the plan's faults, then the checker."""
    chance = random.Random(f"database {world.plan.seed}")

    async def connect() -> Database:
        await world.up.wait()
        return Database(Reconnecting(world), timeout=5.0)

    clients = chance.choice((1, 3, 6))
    shape = WorkloadShape(
        clients=clients,
        watchers=chance.choice((0, 1)),
        hot_keys=chance.choice((2, 12)),
        cold_keys=40,
        pause_s=max(chance.choice((0.003, 0.01, 0.1)), clients * _SECONDS / _CALLS_MAX),
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
