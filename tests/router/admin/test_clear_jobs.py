"""A clearing under way: others who clear, swap, write, abort, leave or lose their node meanwhile."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from kit.cluster.operated import Operated, table_of, version_states
from kit.cluster.repush import repushed
from kit.deadlines import patience_s, until

from duramen.aio import Table
from duramen.server.roles.router_role import RouterRole
from log_tier.catalog.cluster_map import ClusterMap
from log_tier.catalog.jobs import Job
from log_tier.catalog.map_follower import MapFollower
from log_tier.catalog.version_fold import versions_job
from log_tier.model.errors import CommandRejected, DeadlineExceeded, Unavailable
from router.admin.admin import Admin
from router.admin.clear import clear_table
from router.admin.lazy import admin_on_demand
from router.admin.verbs import Discard, SetReplicas, Stage, Swap
from router.membership.membership_on_demand import membership_on_demand
from serving_tier.jobs.swapping import put_barriers

KEYS = [b"k%03d" % number for number in range(60)]
DEADLINE_S = 20.0


@asynccontextmanager
async def admin_of(cluster: Operated, router: RouterRole) -> AsyncIterator[Admin]:
    memberships = membership_on_demand(MapFollower(router.catalog))
    on_demand = admin_on_demand(router.catalog, cluster.log.log, memberships)
    yield await on_demand()
    await on_demand.close()
    await memberships.close()


@pytest.fixture
async def admin(cluster: Operated) -> AsyncIterator[Admin]:
    async with admin_of(cluster, cluster.router) as opened:
        yield opened


@pytest.fixture
async def second(cluster: Operated) -> AsyncIterator[Admin]:
    """At another router, which follows the catalog by itself."""
    router = await RouterRole.open(log_url=f"grpc://127.0.0.1:{cluster.log.port}", host="127.0.0.1", port=0)
    async with admin_of(cluster, router) as opened:
        yield opened
    await router.close()


class HeldBarriers:
    """Holds the first node that is about to append the barriers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open = asyncio.Event()
        self.reached = asyncio.Event()

        async def held(*how: Any) -> str:
            if not self.reached.is_set():
                self.reached.set()
                await self.open.wait()
            return await put_barriers(*how)

        monkeypatch.setattr("serving_tier.jobs.actions.put_barriers", held)


async def content(table: Table) -> dict[bytes, bytes]:
    return {key: value async for key, value in table.scan(level="strong")}


async def job_under_way(cluster: Operated, *, action: str = "") -> Job:
    """The job, as the router's map shows it: with a task of `action`, of which a node may have heard earlier."""

    def is_shown(now: ClusterMap) -> bool:
        shown = versions_job(now, now.find("flights").id)
        return shown is not None and (not action or any(task.action == action for task in shown.tasks))

    catalog = cluster.router.catalog
    found = await catalog.wait_for(is_shown, timeout=patience_s(DEADLINE_S))
    job = versions_job(found, found.find("flights").id)
    assert job is not None
    return job


async def check_replicas(cluster: Operated) -> None:
    await cluster.until_level("flights")
    async for each in cluster.admin.verify("flights"):
        assert each.verdict == "equal", each


async def test_two_routers_clear_while_others_write(cluster: Operated, admin: Admin, second: Admin) -> None:
    """Acknowledged before both began: gone. Begun after both had ended: there, with its own value."""
    table = await table_of(cluster, KEYS)
    phase, over = "before", False
    writes: dict[bytes, tuple[str, str]] = {}

    async def write(me: int) -> None:
        number = 0
        while not over:
            number += 1
            key, begun = b"w%d-%d" % (me, number), phase
            await table.put(key, key)
            writes[key] = (begun, phase)

    async with asyncio.TaskGroup() as group:
        for me in range(3):
            group.create_task(write(me))
        await until(lambda: len(writes) > 20)
        phase = "meanwhile"
        for _ in range(3):
            clearings = (clear_table(each, "flights", timeout=patience_s(DEADLINE_S)) for each in (admin, second))
            await asyncio.gather(*clearings)
        phase, seen = "after", len(writes)
        await until(lambda: len(writes) > seen + 20)
        over = True
    found = await content(table)
    gone = {key for key, (_, acknowledged) in writes.items() if acknowledged == "before"}
    stay = {key for key, (begun, _) in writes.items() if begun == "after"}
    assert gone
    assert stay
    assert found.keys() & (gone | set(KEYS)) == set()
    assert stay <= found.keys()
    assert all(found[key] == key for key in found)
    assert list((await version_states(cluster)).values()) == ["live"]
    await check_replicas(cluster)


@pytest.mark.parametrize("first", ["clear", "swap"])
async def test_against_a_bulk_load_that_is_swapped_in(
    cluster: Operated, admin: Admin, tmp_path: Path, first: str
) -> None:
    """One of the two is first, whole; the other one comes after it. Nothing is left half done."""
    table = await table_of(cluster, KEYS)
    entry = cluster.router.catalog.map.find("flights")
    await cluster.done(Stage("flights", await repushed(cluster, entry, tmp_path / "cluster", 2)))
    await table.put(b"since", b"the base")
    began: list[str] = []

    async def swap() -> None:
        while True:
            try:
                plan = await cluster.admin.start(Swap("flights", 2, 0))
            except CommandRejected:
                await admin.until_free("flights")
                continue
            began.append("swap")
            assert (await cluster.ended(plan.job)).state == "done"
            return

    async def clear() -> None:
        await clear_table(admin, "flights", timeout=patience_s(DEADLINE_S))
        began.append("clear")

    async with asyncio.TaskGroup() as group:
        group.create_task(clear() if first == "clear" else swap())
        await job_under_way(cluster)
        group.create_task(swap() if first == "clear" else clear())
    await table.put(b"last", b"one")
    await check_replicas(cluster)
    live = cluster.router.catalog.map.find("flights").live_version
    if began[-1] == "clear":
        assert live == 3
        assert await content(table) == {b"last": b"one"}
    else:
        assert live == 2
        assert await content(table) == {**dict.fromkeys(KEYS, b"1"), b"since": b"the base", b"last": b"one"}


async def test_an_operator_may_abort_it_and_do_nothing_else(cluster: Operated, admin: Admin) -> None:
    table = await table_of(cluster, KEYS, replicas=3)
    await cluster.stop_node("n3")
    clearing = asyncio.create_task(clear_table(admin, "flights", timeout=patience_s(DEADLINE_S)))
    job = await job_under_way(cluster)
    for change in (Swap("flights", 2), Discard("flights", 2), Stage("flights", "empty:")):
        with pytest.raises(CommandRejected, match=rf"being changed by job {job.id} \(clear, running\)|not level at"):
            await cluster.admin.start(change)
    await cluster.admin.abort(job.id)
    with pytest.raises(Unavailable, match=f"was not cleared, its job {job.id} has aborted"):
        await clearing
    assert await version_states(cluster) == {1: "live"}
    assert len(await content(table)) == len(KEYS)


async def test_a_caller_who_goes_away_takes_it_along(cluster: Operated, admin: Admin) -> None:
    """Also one who goes before the catalog has answered."""
    table = await table_of(cluster, KEYS, replicas=3)
    await cluster.stop_node("n3")
    for waits in (True, False):
        clearing = asyncio.create_task(clear_table(admin, "flights", timeout=patience_s(DEADLINE_S)))
        if waits:
            await job_under_way(cluster)
        else:
            await asyncio.sleep(0)
        clearing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await clearing
        cluster_map = cluster.router.catalog.map
        assert versions_job(cluster_map, cluster_map.find("flights").id) is None
        assert await version_states(cluster) == {1: "live"}
    jobs = [job.state for job in cluster.router.catalog.map.jobs.values() if job.kind == "clear"]
    assert jobs == ["aborted", "aborted"]
    assert len(await content(table)) == len(KEYS)


async def test_a_deadline_behind_the_barriers(cluster: Operated, admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    """It can't be given up any more, and is carried through; the caller is told so."""
    gate = HeldBarriers(monkeypatch)
    table = await table_of(cluster, KEYS)
    clearing = asyncio.create_task(clear_table(admin, "flights", timeout=patience_s(1.0)))
    await gate.reached.wait()
    await table.put(b"since", b"the request")
    with pytest.raises(DeadlineExceeded, match="its barriers are in the log, or on their way: job") as caught:
        await clearing
    number = int(re.findall(r"job (\d+)", str(caught.value))[0])
    gate.open.set()
    assert (await cluster.ended(number)).state == "done"
    assert await content(table) == {b"since": b"the request"}
    await check_replicas(cluster)


async def test_the_node_with_the_barriers_is_lost(
    cluster: Operated, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one appends them, when an operator or the caller's deadline says so."""
    gate = HeldBarriers(monkeypatch)
    table = await table_of(cluster, KEYS, replicas=3)
    clearing = asyncio.create_task(clear_table(admin, "flights", timeout=patience_s(DEADLINE_S)))
    await gate.reached.wait()
    job = await job_under_way(cluster, action="swap")
    (swap,) = [task for task in job.tasks if task.action == "swap"]
    await cluster.stop_node(swap.node)
    await cluster.admin.resume(job.id)
    await clearing
    assert await content(table) == {}
    await cluster.add_node(swap.node)
    await check_replicas(cluster)
    ended = cluster.router.catalog.map.jobs[job.id]
    assert ended.state == "done"
    assert ended.tasks[-1].node != swap.node


async def test_a_replica_that_comes_meanwhile(cluster: Operated, admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    """What joins while a table is cleared has the empty version, or passes the barrier by itself."""
    table = await table_of(cluster, KEYS, replicas=1)
    async with asyncio.TaskGroup() as group:
        group.create_task(cluster.done(SetReplicas("flights", 3)))
        for _ in range(3):
            await table.put(b"more", b"1")
            await clear_table(admin, "flights", timeout=patience_s(DEADLINE_S))
    assert await content(table) == {}
    await check_replicas(cluster)
