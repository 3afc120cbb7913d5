"""Clients of a simulated cluster: the workload of `duramen check`, and its checker."""

from __future__ import annotations

import asyncio
import random
from functools import partial
from typing import Final

from duramen import aio
from duramen.client.database import Database
from duramen.verification.run import run_check
from duramen.verification.workload import WorkloadShape
from log_tier.model.errors import Disconnected
from simulation.cluster_incidents import happen
from simulation.cluster_world import LOG_URL, NODES, ClusterWorld
from simulation.judging import judge
from simulation.simulated_machine import RESTART_S

__all__ = ["cluster_traffic"]

_SECONDS: Final = 8.0


async def cluster_traffic(world: ClusterWorld) -> None:
    """The workload under the plan's faults and incidents, then the checker."""
    for process in world.processes.values():
        if process.name != "clients":
            await process.up.wait()
    chance = random.Random(f"clients {world.plan.seed}")
    shape = WorkloadShape(
        clients=chance.choice((2, 4)),
        watchers=chance.choice((0, 1, 2)),
        hot_keys=chance.choice((2, 6)),
        cold_keys=40,
        timeout_s=chance.choice((0.3, 1.0, 5.0)),
        pause_s=chance.choice((0.05, 0.2, 0.5)),
    )

    async def connect() -> Database:
        direct = chance.random() < 0.7
        # A node serves what it holds; who does not ask all of them asks a router.
        nodes = chance.sample([f"{name}:7070" for name in (*NODES, "router")], chance.choice((1, 2, 4)))
        targets = nodes if direct else ["router:7070"]
        while True:
            try:
                return await aio.connect(targets, timeout=5.0, direct=direct)
            except Disconnected:
                await asyncio.sleep(RESTART_S)

    history = await run_check(
        connect,
        seconds=_SECONDS,
        seed=str(world.plan.seed),
        shape=shape,
        partitions=world.plan.partitions,
        # With as many as nodes nothing can be moved.
        replicas=random.Random(f"replicas {world.plan.seed}").choice((None, None, 1, 2)),
        targets=("router:7070",),
        log_url=LOG_URL,
        faults=partial(happen, world),
        clock=lambda: int(world.loop.time() * 1e9),
    )
    judge(history, world.story)
