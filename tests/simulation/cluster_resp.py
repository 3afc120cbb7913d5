"""Clients of the Redis protocol at the nodes and the router of a simulated cluster; and what its keys hold."""

from __future__ import annotations

import random
from functools import partial
from typing import Final

from duramen import aio
from log_tier.model.errors import DuramenError
from router.endpoints.resp.data.served_tables import DEFAULT_TABLE
from simulation.book import Broken
from simulation.cluster_connections import use_connections
from simulation.cluster_incidents import happen
from simulation.cluster_jobs import work
from simulation.cluster_lines import check_lines, flood_lines, open_lines
from simulation.cluster_passwords import use_passwords
from simulation.cluster_past import restore_pasts
from simulation.cluster_quotas import use_quotas
from simulation.cluster_resp_users import check_listeners, open_keys, use_keys
from simulation.cluster_table_quotas import use_table_quotas
from simulation.cluster_trims import change_logs
from simulation.cluster_turns import ASK_S
from simulation.cluster_users import open_users
from simulation.cluster_world import NODES, ClusterWorld
from simulation.overtaken_listener import check_overtaken
from simulation.resp_ledger import Ledger
from simulation.resp_traffic import finals, pipelines

__all__ = ["cluster_resp_traffic"]

_CALM_S: Final = 300.0
"""So long after the last pipeline a call that is not answered never will be: it includes what `level` allows."""


async def cluster_resp_traffic(world: ClusterWorld) -> None:
    """The clients, the plan's faults and incidents meanwhile, and the check at every endpoint."""
    for process in world.processes.values():
        if process.name != "clients":
            await process.up.wait()
    await open_users(world)
    await _make_table(world)
    await open_keys(world)
    await open_lines(world)
    ledger = Ledger()
    # No operator of versions: what a swap leaves out, the ledger would miss.
    trust = (use_keys, use_quotas, use_table_quotas, use_connections, use_passwords, flood_lines)
    faults = partial(happen, world, operators=(work, change_logs, restore_pasts, *trust))
    async with pipelines(world, ledger, faults, calm_s=_CALM_S) as chance:
        for name in (*NODES, "router"):
            ledger.check(await finals(world, ledger, chance, at=name))
        await check_lines(world)
        await check_listeners(world)
        await check_overtaken(world)
    _compare_replicas(world)


async def _make_table(world: ClusterWorld) -> None:
    """With as many replicas as nodes nothing can be moved, and every node has every key."""
    replicas = random.Random(f"replicas {world.plan.seed}").choice((None, 1, 1, 2, 2))
    while True:
        try:
            async with await aio.connect("router:7070", timeout=ASK_S) as database:
                await database.create_table(
                    DEFAULT_TABLE, partitions=world.plan.partitions, replicas=replicas, if_missing=True
                )
                return
        except DuramenError as error:
            world.story.tell("operator", f"the table is not made: {error.message}")


def _compare_replicas(world: ClusterWorld) -> None:
    """All replicas of a partition that have applied the same hold the same. Raises `Broken`."""
    found: dict[tuple[str, int, int], tuple[str, str]] = {}
    for name, (_, plane) in world.nodes.items():
        for replica in plane.node:
            digest = replica.index.digest()
            place = (replica.name, replica.id.partition, replica.applied)
            other, expected = found.setdefault(place, (name, digest))
            world.story.met["replica compared"] += 1
            if digest != expected:
                raise Broken("equal", f"{place} differs at {other} and {name}")
