"""Clients of a simulated cluster: the workload of `duramen check`, and its checker."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from functools import partial
from typing import Final

from duramen import aio
from duramen.client.database import Database
from duramen.testing.machine.memory_disk import MemoryDisk
from duramen.testing.machine.simulated_machine import RESTART_S
from duramen.verification.history import History
from duramen.verification.run import run_check
from duramen.verification.workload import WorkloadShape
from log_tier.model.errors import Disconnected
from simulation.cluster_incidents import happen
from simulation.cluster_patches import open_patches
from simulation.cluster_put_back import copy_once, put_back
from simulation.cluster_rows import open_rows
from simulation.cluster_trims import compacts
from simulation.cluster_unique import open_unique_rows
from simulation.cluster_users import open_users
from simulation.cluster_world import LOG_URL, NODES, ClusterWorld
from simulation.judging import judge

__all__ = ["cluster_traffic"]

_SECONDS: Final = 8.0
_BEFORE_S: Final = 3.0
"""Before the log is put back from a copy."""


async def cluster_traffic(world: ClusterWorld) -> None:
    """The workload under the plan's faults and incidents, then the checker."""
    for process in world.processes.values():
        if process.name != "clients":
            await process.up.wait()
    await open_users(world)
    await open_rows(world)
    await open_patches(world)
    await open_unique_rows(world)
    chance = random.Random(f"clients {world.plan.seed}")
    shape = WorkloadShape(
        clients=chance.choice((2, 4)),
        watchers=chance.choice((0, 1, 2)),
        hot_keys=chance.choice((2, 6)),
        cold_keys=40,
        timeout_s=chance.choice((0.3, 1.0, 5.0)),
        pause_s=chance.choice((0.05, 0.2, 0.5)),
        expiring=world.plan.expiring,
    )
    if world.plan.trims is not None:
        shape = replace(shape, pause_s=0.05)  # so that there are segments to drop
    if compacts(world.plan):
        shape = replace(shape, watchers=2, late_s=chance.choice((2.0, 5.0, 7.0)), compacted=True)
    if world.plan.copied_s is not None:
        shape = replace(shape, watchers=0)  # a watch ends where an index is ahead of its log, and says so

    async def connect() -> Database:
        direct = chance.random() < 0.7
        # A node serves what it holds; who does not ask all of them asks a router.
        nodes = chance.sample([f"{name}:7070" for name in (*NODES, "router")], chance.choice((1, 2, 4)))
        targets = nodes if direct else ["router:7070"]
        while True:
            try:
                database = await aio.connect(targets, timeout=5.0, direct=direct)
                world.sessions.append(database.context.acknowledged)
                return database
            except Disconnected:
                await asyncio.sleep(RESTART_S)

    check = partial(
        run_check,
        connect,
        seed=str(world.plan.seed),
        shape=shape,
        partitions=world.plan.partitions,
        # With as many as nodes nothing can be moved.
        replicas=random.Random(f"replicas {world.plan.seed}").choice((None, None, 1, 2)),
        targets=("router:7070",),
        log_url=LOG_URL,
        builds=world.builds,
        dropped=None if world.plan.trims is None else world.kept.records,
        clock=lambda: int(world.loop.time() * 1e9),
    )
    earlier: History | None = None
    if world.plan.copied_s is not None:
        copies: list[MemoryDisk] = []
        earlier = await check(seconds=_BEFORE_S, faults=partial(copy_once, world, copies), keep_table=True)
        judge(earlier, world.story)
        await put_back(world, copies[0])
        world.sessions.clear()  # what was acknowledged before is gone with the newer log
        world.asked_snapshots.forget()
    history = await check(seconds=_SECONDS, faults=partial(happen, world), earlier=earlier)
    for record in history.log:
        if record.operation == "barrier" and any(
            f'"{url}"' in record.value for url in world.builds.keys() - world.snapshot_builds
        ):
            world.story.met["data set swapped in"] += 1
    judge(history, world.story)
