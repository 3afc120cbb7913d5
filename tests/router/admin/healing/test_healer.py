"""Routers that heal: real servers, a node that goes away, and what an operator sees of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from kit.cluster.operated import DEADLINE_S, Operated, operated, table_of
from kit.deadlines import until_true

from duramen.server.roles.router_role import RouterRole
from log_tier.model.errors import InvalidRequest
from router.admin.client import AdminConnection
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


async def healings(cluster: Operated) -> list[pb.AdminJobSummary]:
    return sorted((job for job in await cluster.admin.jobs() if job.kind == "heal"), key=lambda job: job.job)


async def test_three_routers_replace_a_lost_node_by_one_job_at_a_time(tmp_path: Path) -> None:
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

        await until_true(whole)
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


async def test_the_plan_says_what_would_be_done_and_why(tmp_path: Path) -> None:
    async with healed(tmp_path / "cluster", bounds=HealBounds(after_s=0.0, copies=2)) as cluster:
        await table_of(cluster, KEYS, partitions=4, replicas=2)
        whole = await cluster.admin.healing()
        assert (whole.after_s, whole.action, list(whole.lost), whole.short) == (0.0, "nothing", [], 0)
        await cluster.stop_node("n2")
        off = await cluster.admin.healing()
        assert [(each.node, each.HasField("left_s")) for each in off.lost] == [("n2", False)]
        assert (off.action, off.short, len(off.plan.steps)) == ("begin", 2, 2)
        assert {(step.action, step.source) for step in off.plan.steps} == {("move", "n2")}
        assert await healings(cluster) == [], "it is off"
        async with AdminConnection(f"127.0.0.1:{cluster.nodes['n1'].port}", timeout=DEADLINE_S) as node:
            with pytest.raises(InvalidRequest, match="ask a router"):
                await node.healing()


async def test_a_node_is_waited_for_and_what_is_in_the_way_is_named(tmp_path: Path) -> None:
    bounds = HealBounds(after_s=DEADLINE_S * 10)
    async with operated(tmp_path / "cluster", nodes=("n1", "n2"), heal=bounds) as cluster:
        await table_of(cluster, KEYS, partitions=1, replicas=2)
        await cluster.stop_node("n2")
        waited = await cluster.admin.healing()
        (lost,) = waited.lost
        assert lost.node == "n2"
        assert bounds.after_s - DEADLINE_S < lost.left_s <= bounds.after_s
        assert (waited.action, waited.short) == ("nothing", 0)
    async with operated(tmp_path / "sooner", nodes=("n1", "n2"), heal=SOON) as cluster:
        await table_of(cluster, KEYS, partitions=1, replicas=2)
        await cluster.stop_node("n2")

        async def blocked() -> bool:
            return bool((await cluster.admin.healing()).blocked)

        await until_true(blocked)
        assert list((await cluster.admin.healing()).blocked) == [
            "flights/0: no live node takes replicas that holds none of it: start another node"
        ]
        assert await healings(cluster) == []
