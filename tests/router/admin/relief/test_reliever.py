"""Routers that relieve: real servers, a node that is shown a full disk, and what an operator sees of it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from kit.cluster.operated import DEADLINE_S, Operated, operated, table_of
from kit.cluster.shown_disks import show_disks
from kit.deadlines import until_true

from duramen.server.roles.router_role import RouterRole
from router.admin import verbs
from router.admin.relief.decision import ReliefBounds
from router.proto import admin_pb2 as pb

KEYS = [b"k%03d" % number for number in range(40)]
SOON = ReliefBounds(after_s=1.0)
LATE = ReliefBounds(after_s=DEADLINE_S * 10)


@pytest.fixture(autouse=True)
def full(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The nodes that are shown a full disk."""
    nodes = {"n1"}
    show_disks(monkeypatch, nodes)
    return nodes


@asynccontextmanager
async def relieved(folder: Path, *, bounds: ReliefBounds = SOON, routers: int = 1) -> AsyncIterator[Operated]:
    """Three nodes, and so many routers that relieve."""
    async with AsyncExitStack() as opened:
        cluster = await opened.enter_async_context(operated(folder, relieve=bounds))
        for _ in range(routers - 1):
            log_url = f"grpc://127.0.0.1:{cluster.log.port}"
            router = await RouterRole.open(log_url=log_url, host="127.0.0.1", port=0, relieve=bounds)
            opened.push_async_callback(router.close)
        yield cluster


async def jobs_of(cluster: Operated, kind: str = "relieve") -> list[pb.AdminJobSummary]:
    return sorted((job for job in await cluster.admin.jobs() if job.kind == kind), key=lambda job: job.job)


async def test_three_routers_relieve_a_full_node_by_one_job_at_a_time(
    tmp_path: Path, full: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    async with relieved(tmp_path / "cluster", routers=3) as cluster:
        with caplog.at_level(logging.WARNING):
            table = await table_of(cluster, KEYS, partitions=3, replicas=2)

            async def empty() -> bool:
                return all("n1" not in holders.split() for holders in await cluster.holders("flights"))

            await until_true(empty)
        assert await table.get_many(KEYS) == [b"1"] * len(KEYS)
        assert await cluster.holders("flights") == ["n2 n3"] * 3
        # Where a router knows the size of one replica first, the other one goes in a second job.
        jobs = await jobs_of(cluster)
        assert {(job.subject, job.state) for job in jobs} == {("node n1", "done")}
        assert sum(job.tasks for job in jobs) == 2, "each replica is moved once"
        assert "replicas go elsewhere, because it has 50 MiB of its disk free, 5%" in caplog.text
        full.clear()  # it has room again: nothing comes back by itself

        async def well() -> bool:
            return not (await cluster.admin.healing()).relief.strained

        await until_true(well)
        assert len(await jobs_of(cluster)) == len(jobs)


async def test_the_plan_says_who_is_watched_and_what_would_be_done(tmp_path: Path) -> None:
    async with relieved(tmp_path / "cluster", bounds=LATE) as cluster:
        await table_of(cluster, KEYS, partitions=3, replicas=2)

        async def seen() -> bool:
            return bool((await cluster.admin.healing()).relief.strained)

        await until_true(seen)
        found = (await cluster.admin.healing()).relief
        (strain,) = found.strained
        assert (strain.node, strain.kind, strain.reason) == ("n1", "full", "has 50 MiB of its disk free, 5%")
        assert LATE.after_s - DEADLINE_S < strain.left_s <= LATE.after_s
        assert (found.action, found.off) == ("nothing", False)
        assert await jobs_of(cluster) == []


async def test_an_operator_switches_it_off_and_on(tmp_path: Path) -> None:
    async with relieved(tmp_path / "cluster") as cluster:
        off = await cluster.done(verbs.Automate("relieve", off=True))
        assert (off.kind, off.subject) == ("automate", "relieve off")
        await table_of(cluster, KEYS, partitions=3, replicas=2)

        async def would_move_all() -> bool:
            """One that is not level yet stays for now."""
            found = (await cluster.admin.healing()).relief
            return found.action == "begin" and len(found.plan.steps) == 2

        await until_true(would_move_all)
        found = (await cluster.admin.healing()).relief
        assert (found.off, found.strained[0].HasField("left_s")) == (True, False)
        assert await jobs_of(cluster) == []
        await cluster.done(verbs.Automate("relieve"))

        async def begun() -> bool:
            return bool(await jobs_of(cluster))

        await until_true(begun)


async def test_a_node_that_serves_too_much_is_hot(tmp_path: Path, full: set[str]) -> None:
    full.clear()
    async with relieved(tmp_path / "cluster", bounds=LATE) as cluster:
        table = await table_of(cluster, KEYS, partitions=1, replicas=1)
        (holder,) = await cluster.holders("flights")

        async def hot() -> bool:
            await table.get_many(KEYS * 200)
            return any(each.kind == "hot" for each in (await cluster.admin.healing()).relief.strained)

        await until_true(hot)
        (strain,) = (await cluster.admin.healing()).relief.strained
        assert (strain.node, strain.kind) == (holder, "hot")
        assert "keys and records a second, the others 0 on average" in strain.reason


async def test_a_hot_node_is_relieved_by_its_load(tmp_path: Path, full: set[str]) -> None:
    """Nobody says who is hot: all that is read lies in two partitions of one node, and one of them goes."""
    full.clear()
    async with relieved(tmp_path / "cluster") as cluster:
        table = await table_of(cluster, KEYS, partitions=6, replicas=1)
        before = await cluster.holders("flights")
        hot = next(node for node in before if before.count(node) > 1)
        busy = [number for number, node in enumerate(before) if node == hot][:2]
        ref = cluster.router.catalog.map.find("flights").ref
        keys = [key for key in KEYS if ref.partition_of(key) in busy]
        assert {ref.partition_of(key) for key in keys} == set(busy), "each of the two has keys"

        async def read_until(seen: Callable[[], Awaitable[bool]]) -> None:
            async def read_and_look() -> bool:
                assert set(await table.get_many(keys * 200)) == {b"1"}, "reads go on meanwhile"
                return await seen()

            await until_true(read_and_look)

        async def is_done() -> bool:
            return any(job.state == "done" for job in await jobs_of(cluster))

        await read_until(is_done)
        (job,) = await jobs_of(cluster)
        assert job.subject == f"node {hot}"
        after = await cluster.holders("flights")
        moved = [number for number in range(len(before)) if before[number] != after[number]]
        assert len(moved) == 1, "one is enough"
        assert set(moved) <= set(busy), "it is one of those that are read"

        async def is_shared() -> bool:
            strained = (await cluster.admin.healing()).relief
            nodes = {each.node: each for each in await cluster.admin.nodes()}
            return strained.action != "begin" and all(node.state == "alive" for node in nodes.values())

        await read_until(is_shared)
        assert len(await jobs_of(cluster)) == 1, "what is left of the difference is one partition: it stays"
