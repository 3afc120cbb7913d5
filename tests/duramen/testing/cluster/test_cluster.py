"""Cluster: it serves, its processes die and come back, and it ends without a trace."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from kit.deadlines import patience_s

import duramen
from duramen import aio, testing
from router.admin.client import AdminConnection
from router.admin.verbs import Clear
from router.endpoints.grpc.services import TablesService


@testing.simulated
async def test_a_cluster_serves() -> None:
    async with testing.Cluster() as cluster:
        assert cluster.nodes == ("n1", "n2", "n3")
        database = await cluster.connect()
        table = await database.create_table("orders", partitions=4)
        done = await table.put(b"order-1", b"open")
        other = await cluster.connect("n2")
        assert await other.table("orders").get(b"order-1", after=done.token) == b"open"
        await cluster.level()


@testing.simulated
async def test_a_router_and_a_node_administer() -> None:
    async with testing.Cluster() as cluster:
        database = await cluster.connect()
        table = await database.create_table("orders", partitions=1)
        for target in ("router", "n1"):
            await table.put(b"order-1", b"open")
            async with AdminConnection(f"{target}:7070", timeout=3.0) as admin:
                job = (await admin.start(Clear("orders"))).job
                states = [each.state async for each in admin.follow_job(job)]
            assert states[-1] == "done", states
            assert await table.get(b"order-1", level="strong") is None


def test_ten_minutes_of_a_cluster_take_seconds() -> None:
    async def main() -> None:
        async with testing.Cluster() as cluster:
            table = await (await cluster.connect()).create_table("orders", partitions=4)
            for number in range(60):
                await table.put(b"order-%d" % number, b"open")
                await asyncio.sleep(10)

    began_s = time.process_time()
    testing.run(main)
    assert time.process_time() - began_s < 20


@testing.simulated(seeds=3)
async def test_a_killed_node_comes_back() -> None:
    async with testing.Cluster() as cluster:
        table = await (await cluster.connect()).create_table("orders", partitions=4)
        for number in range(20):
            await table.put(b"order-%d" % number, b"open")
        cluster.faults.kill("n2", keep_indexes=False)
        with pytest.raises(testing.NotLevel, match="n2 is down"):
            await cluster.level()
        for number in range(20):
            assert await table.get(b"order-%d" % number) == b"open"
        await table.put(b"order-20", b"open")
        cluster.faults.start("n2")
        await cluster.level()
        there = (await cluster.connect("n2", direct=False)).table("orders")
        assert len([key async for key, _ in there.scan(level="strong")]) == 21
        assert any("n2         the indexes are gone" in line for line in cluster.story)


@testing.simulated(seeds=3)
async def test_what_was_acknowledged_survives_a_loss_of_power() -> None:
    async with testing.Cluster(nodes=2) as cluster:
        table = await (await cluster.connect(timeout=1)).create_table("orders", partitions=2)
        cluster.faults.lose_power(after_changes=25)
        acknowledged: list[bytes] = []
        for number in range(60):
            key = b"order-%d" % number
            try:
                await table.put(key, b"open")
            except (duramen.WriteUnknown, duramen.Unavailable):
                break
            acknowledged.append(key)
        assert 0 < len(acknowledged) < 60
        cluster.faults.start("log")
        await cluster.level()
        assert await table.get_many(acknowledged, level="strong") == [b"open"] * len(acknowledged)


@testing.simulated
async def test_two_clusters_at_once() -> None:
    async with testing.Cluster(nodes=2, name="eu") as europe, testing.Cluster(nodes=1, name="us") as america:
        one, other = await europe.connect(), await america.connect("us-n1")
        first = await one.create_table("orders", partitions=1)
        second = await other.create_table("orders", partitions=1)
        europe.faults.kill("eu-log")
        await second.put(b"key", b"america")
        with pytest.raises((duramen.Unavailable, duramen.WriteUnknown)):
            await first.put(b"key", b"europe", timeout=2)
        with pytest.raises(testing.UnknownProcess, match="'us-n1'"):
            europe.faults.kill("us-n1")
        assert await second.get(b"key") == b"america"


@testing.simulated
async def test_one_cluster_after_the_other() -> None:
    for _ in range(2):
        async with testing.Cluster(nodes=1) as cluster:
            database = await cluster.connect()
            assert await database.tables() == []
            await database.create_table("orders")


@testing.simulated
async def test_two_clusters_of_one_name_are_refused() -> None:
    async with testing.Cluster(nodes=1):
        with pytest.raises(testing.UnknownProcess, match="name='other'"):
            await testing.Cluster(nodes=1).__aenter__()


def test_a_cluster_in_real_time_is_refused() -> None:
    with pytest.raises(testing.NotSimulated, match=r"duramen\.testing\.run"):
        asyncio.run(testing.Cluster().__aenter__())


@testing.simulated
async def test_after_the_end_everything_says_so() -> None:
    cluster = testing.Cluster(nodes=1)
    with pytest.raises(testing.ClusterEnded, match="use `async with`"):
        _ = cluster.faults
    async with cluster:
        database = await cluster.connect()
        faults = cluster.faults
        folder = Path(cluster_folder(cluster))
        assert folder.exists()
    for call in (cluster.level(), cluster.connect()):
        with pytest.raises(testing.ClusterEnded, match="has ended"):
            await call
    with pytest.raises(testing.ClusterEnded, match="has ended"):
        faults.kill("n1")
    with pytest.raises(testing.ClusterEnded, match="open before"):
        await cluster.__aenter__()
    with pytest.raises(duramen.DatabaseClosed):
        await database.tables()
    assert not folder.exists()
    assert cluster.story


def cluster_folder(cluster: testing.Cluster) -> str:
    """Where LMDB's files are: the only thing of a cluster that is not in this process' memory."""
    processes = cluster._processes
    assert processes is not None
    return str(processes.machine.folder)


def test_a_failed_test_shows_what_happened() -> None:
    async def main() -> None:
        async with testing.Cluster(nodes=1) as cluster:
            cluster.faults.kill("n1")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as failed:
        testing.run(main, seed=5)
    story, seed = failed.value.__notes__
    assert "fault      kill n1" in story
    assert seed == "in virtual time, seed 5"


def test_a_seed_tells_one_story() -> None:
    async def main() -> list[str]:
        async with testing.Cluster() as cluster:
            table = await (await cluster.connect()).create_table("orders", partitions=4)
            cluster.faults.lose_power(after_changes=9)
            results = await asyncio.gather(
                *(table.put(b"order-%d" % number, b"open", timeout=3) for number in range(20)), return_exceptions=True
            )
            cluster.faults.start("log")
            await cluster.level()
            return [*cluster.story, *map(repr, results), repr(asyncio.get_running_loop().time())]

    assert testing.run(main, seed=1) == testing.run(main, seed=1)
    assert testing.run(main, seed=1) != testing.run(main, seed=2)


def test_a_number_of_nodes_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="1 to 16 nodes, not 0"):
        testing.Cluster(nodes=0)


@testing.simulated
async def test_who_serves_no_clients_is_not_connected_to() -> None:
    async with testing.Cluster(nodes=1) as cluster:
        with pytest.raises(testing.UnknownProcess, match="'log' serves no clients: router, n1 do"):
            await cluster.connect("log")


@testing.simulated
async def test_a_program_connects_by_itself() -> None:
    """As it stands, with `duramen.aio.connect`."""
    async with testing.Cluster(nodes=2) as cluster:
        async with await aio.connect(cluster.addresses) as database:
            await database.create_table("orders")
        assert [table.name for table in await (await cluster.connect()).tables()] == ["orders"]


@testing.simulated
async def test_an_opening_that_is_given_up_leaves_nothing() -> None:
    for seconds in (0.0, 0.0001, 0.001, 0.004):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(seconds):
                await testing.Cluster(nodes=2).__aenter__()
    async with testing.Cluster(nodes=2) as cluster:
        await cluster.level()


@testing.simulated
async def test_a_cancelled_test_ends_its_cluster() -> None:
    async def works() -> None:
        async with testing.Cluster(nodes=1) as cluster:
            table = await (await cluster.connect()).create_table("orders")
            while True:
                await table.put(b"key", b"value")

    working = asyncio.create_task(works())
    await asyncio.sleep(1)
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    async with testing.Cluster(nodes=1):
        assert len(asyncio.all_tasks()) > 1


def test_a_bug_of_a_server_fails_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is hidden: an error that is none of ours fails the test at the latest at the end of the block."""

    async def breaks(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(TablesService, "List", breaks)

    async def main() -> None:
        async with testing.Cluster(nodes=1) as cluster:
            database = await cluster.connect(direct=False)
            with pytest.raises(duramen.DuramenError):
                await database.tables(timeout=1)

    with pytest.raises(ZeroDivisionError):
        testing.run(main)


@testing.simulated
async def test_level_waits_for_the_virtual_time_it_is_given() -> None:
    async with testing.Cluster(nodes=2) as cluster:
        table = await (await cluster.connect()).create_table("orders", partitions=1)
        cluster.faults.behind("n2", 3600)
        await table.put(b"key", b"value")
        began_s = asyncio.get_running_loop().time()
        with pytest.raises(testing.NotLevel, match=r"after 7 s: n2 .*log -> n2 is up to 3600 s late"):
            await cluster.level(within_s=7)
        assert 7 <= asyncio.get_running_loop().time() - began_s < 8


_STORY = """
import asyncio, random
from duramen import testing

async def main():
    async with testing.Cluster(nodes=3) as cluster:
        table = await (await cluster.connect(timeout=3)).create_table("orders", partitions=4)
        for number in range(4):
            victim = random.choice([*cluster.nodes, "log", "router"])
            cluster.faults.kill(victim)
            results = await asyncio.gather(
                *(table.update(b"count %d" % each, add=1) for each in range(5)), return_exceptions=True
            )
            cluster.faults.start(victim)
            await cluster.level()
            print(victim, results)
        print(*cluster.story, await cluster.check(), asyncio.get_running_loop().time(), sep="\\n")

testing.run(main, seed=11)
"""


def test_a_seed_tells_one_story_in_every_process() -> None:
    """Whatever order Python draws for the sets of a process."""
    stories = [
        subprocess.run(
            [sys.executable, "-c", _STORY],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=patience_s(120),
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert stories[0] == stories[1]
    assert "kill " in stories[0]


@pytest.mark.parametrize("ends", ["fails", "waits for ever", "retries for ever", "is interrupted"])
def test_whatever_ends_a_test_leaves_no_folder(ends: str) -> None:
    folders: list[Path] = []

    async def main() -> None:
        async with testing.Cluster(nodes=1) as cluster, testing.AsyncEmbedded() as embedded:
            assert embedded._machine is not None
            folders.extend([Path(cluster_folder(cluster)), embedded._machine.folder])
            assert all(folder.exists() for folder in folders)
            if ends == "fails":
                raise ZeroDivisionError
            if ends == "is interrupted":
                raise KeyboardInterrupt
            if ends == "waits for ever":
                await asyncio.Event().wait()
            while True:  # noqa: ASYNC110 - what the limit is for
                await asyncio.sleep(1)

    with pytest.raises((ZeroDivisionError, KeyboardInterrupt, testing.TooLong)) as ended:
        testing.run(main, limit_s=20)
    assert [folder.exists() for folder in folders] == [False, False]
    if isinstance(ended.value, testing.TooLong):
        assert "it waits in " in str(ended.value)
        assert "main at " in str(ended.value)
