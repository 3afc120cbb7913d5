"""Routers that heal: real servers, a node that goes away, and what an operator sees of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from kit.cluster.operated import DEADLINE_S, Operated, operated, table_of
from kit.deadlines import within

from duramen.server.roles.router_role import RouterRole
from router.admin.planners.heal import HealBounds
from router.proto import admin_pb2 as pb

KEYS = [b"k%03d" % number for number in range(40)]
NODES = ("n1", "n2", "n3", "n4")
SOON = HealBounds(after_s=1.0, copies=2)


@asynccontextmanager
async def healed(folder: Path, *, bounds: HealBounds = SOON, routers: int = 1) -> AsyncIterator[Operated]:
    """Four nodes, and so many routers that heal."""
    async with AsyncExitStack() as opened:
        cluster = await opened.enter_async_context(operated(folder, nodes=NODES, heal=bounds))
        for _ in range(routers - 1):
            log_url = f"grpc://127.0.0.1:{cluster.log.port}"
            router = await RouterRole.open(log_url=log_url, host="127.0.0.1", port=0, heal=bounds)
            opened.push_async_callback(router.close)
        yield cluster


async def until(condition: Any) -> None:
    async with within(DEADLINE_S):
        while not await condition():  # noqa: ASYNC110 - nobody signals it
            await asyncio.sleep(0.02)


async def healings(cluster: Operated) -> list[pb.AdminJobSummary]:
    return sorted((job for job in await cluster.admin.jobs() if job.kind == "heal"), key=lambda job: job.job)


async def test_a_lost_node_is_replaced_by_one_job_at_a_time_whoever_decides(tmp_path: Path) -> None:
    async with healed(tmp_path / "cluster", routers=3) as cluster:
        table = await table_of(cluster, KEYS, partitions=8, replicas=2)
        held = sum("n2" in holders.split() for holders in await cluster.holders("flights"))
        assert held == 4
        await cluster.stop_node("n2")

        async def whole() -> bool:
            return all(
                "n2" not in holders.split() and len(holders.split()) == 2
                for holders in await cluster.holders("flights")
            )

        await until(whole)
        await cluster.until_level("flights")
        assert await table.get_many(KEYS) == [b"1"] * len(KEYS)
        jobs = await healings(cluster)
        assert [(job.subject, job.state, job.tasks) for job in jobs] == [("node n2", "done", 2)] * 2

        # It comes back, with nothing to hold; what was healed stays.
        holders = await cluster.holders("flights")
        await cluster.add_node("n2")
        await cluster.until_nodes(lambda nodes: nodes["n2"].state == "alive")
        await cluster.until_level("flights")
        assert await cluster.holders("flights") == holders
        assert len(await healings(cluster)) == 2


async def test_a_node_that_comes_back_in_time_is_what_it_was(tmp_path: Path) -> None:
    async with healed(tmp_path / "cluster", bounds=HealBounds(after_s=DEADLINE_S * 10)) as cluster:
        await table_of(cluster, KEYS)
        before = await cluster.holders("flights")
        await cluster.stop_node("n2")
        await cluster.add_node("n2")
        await cluster.until_level("flights")
        assert await cluster.holders("flights") == before
        assert await healings(cluster) == []
