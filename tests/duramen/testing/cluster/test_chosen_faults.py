"""Every fault that a test may ask for does what its name says, and only as long as it should."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

import duramen
from duramen import aio, testing

Lost = (duramen.Unavailable, duramen.WriteUnknown)


@asynccontextmanager
async def one_table(nodes: int = 2) -> AsyncIterator[tuple[testing.Cluster, aio.Table]]:
    async with testing.Cluster(nodes=nodes) as cluster:
        table = await (await cluster.connect(timeout=2)).create_table("orders", partitions=2)
        await cluster.level()
        yield cluster, table


async def refused(table: aio.Table) -> bool:
    try:
        await table.put(b"key", b"value")
    except Lost:
        return True
    return False


async def put_until_refused(table: aio.Table) -> None:
    for number in range(100):
        await table.put(b"big-%d" % number, bytes(100_000))


async def took_s(table: aio.Table) -> float:
    began_s = asyncio.get_running_loop().time()
    await table.put(b"key", b"value")
    return asyncio.get_running_loop().time() - began_s


@testing.simulated(seeds=2)
async def test_cut_and_heal() -> None:
    async with one_table() as (cluster, table):
        cluster.faults.cut("n2", "log")
        assert not await refused(table)
        with pytest.raises(testing.NotLevel, match=r"n2 .*n2 does not reach log"):
            await cluster.level(within_s=5)
        cluster.faults.heal("n2", "log")
        await cluster.level()
        cluster.faults.cut("log")
        assert await refused(table)
        cluster.faults.heal()
        await cluster.level()
        assert not await refused(table)


@testing.simulated
async def test_a_cut_node_is_not_reached_by_anybody_who_comes_later() -> None:
    async with one_table() as (cluster, _):
        cluster.faults.cut("n1")

        async def asks() -> None:
            await aio.connect("n1:7070", timeout=1)

        with pytest.raises(duramen.Unavailable):
            await cluster.start("shop", asks())
        with pytest.raises(duramen.Unavailable):
            await cluster.connect("n1", timeout=1)
        cluster.faults.heal("n1")
        await cluster.start("shop", asks())


@testing.simulated
async def test_one_way() -> None:
    async with one_table() as (cluster, table):
        cluster.faults.cut_one_way("log", "client")
        with pytest.raises(duramen.WriteUnknown):
            await table.put(b"one way", b"value")
        cluster.faults.heal()
        assert await table.get(b"one way", level="strong") == b"value"


@testing.simulated(seeds=3)
async def test_a_lost_reply_is_one_effect() -> None:
    async with one_table() as (cluster, table):
        cluster.faults.lose_next_message("log", "client")
        await table.update(b"count", add=1)
        assert await table.get(b"count") == b"1"


@testing.simulated(seeds=3)
async def test_requests_that_arrive_twice_have_one_effect() -> None:
    async with one_table() as (cluster, table):
        for source, target in (("client", "n1"), ("client", "router"), ("client", "log")):
            cluster.faults.copy_requests(source, target, 1.0)
        for _ in range(40):
            await table.update(b"count", add=1)
            await table.put(b"key", b"old")
        await table.put(b"key", b"new")
        cluster.faults.heal()
        await asyncio.sleep(2)
        await cluster.level()
        assert any("a late copy of" in line for line in cluster.story), "none was copied: this shows nothing"
        assert await table.get(b"count", level="strong") == b"40"
        assert await table.get(b"key", level="strong") == b"new"


@testing.simulated
async def test_late_and_in_time_again() -> None:
    async with one_table() as (cluster, table):
        assert await took_s(table) < 0.1
        cluster.faults.late("client", 1.0)
        assert max([await took_s(table) for _ in range(5)]) > 0.2
        cluster.faults.late("client", 0)
        assert await took_s(table) < 0.1


@testing.simulated(seeds=3)
async def test_a_late_replica_answers_from_what_it_has() -> None:
    async with one_table() as (cluster, table):
        await table.put(b"key", b"old")
        await cluster.level()
        cluster.faults.behind("n2", 30.0)
        done = await table.put(b"key", b"new")
        there = (await cluster.connect("n2", direct=False)).table("orders")
        found = [await there.get(b"key", level="eventual") for _ in range(20)]
        assert b"old" in found, "nobody asks for more"
        assert await there.get(b"key", after=done.token, timeout=60) == b"new"
        cluster.faults.behind("n2", 0)
        await cluster.level()


@testing.simulated
async def test_a_paused_process_is_heard_again() -> None:
    async with one_table() as (cluster, table):
        cluster.faults.pause("log")
        writing = asyncio.create_task(table.put(b"key", b"value", timeout=30))
        await asyncio.sleep(1)
        assert not writing.done()
        cluster.faults.resume("log")
        await writing
        await cluster.level()


@testing.simulated
async def test_reset_connections_are_made_again() -> None:
    async with one_table() as (cluster, table):
        for other in ("log", "n1", "n2", "router"):
            cluster.faults.reset("client", other)
        assert not await refused(table)


@testing.simulated(seeds=2)
async def test_stop_and_restart() -> None:
    async with one_table() as (cluster, table):
        for name in ("n1", "n2", "router"):
            cluster.faults.stop(name)
            assert not await refused(table)
            cluster.faults.start(name)
            await cluster.level()
        cluster.faults.restart("log")
        await cluster.level()
        assert not await refused(table)


@testing.simulated(seeds=3)
async def test_a_full_disk_refuses_and_loses_nothing() -> None:
    async with one_table() as (cluster, table):
        await table.put(b"before", b"value")
        cluster.faults.disk_full()
        with pytest.raises(duramen.DiskFull):
            await put_until_refused(table)
        cluster.faults.disk_has_room()
        await table.put(b"after", b"value", timeout=30)
        assert await table.get_many([b"before", b"after"]) == [b"value", b"value"]


@testing.simulated(seeds=3)
async def test_a_failed_sync_stops_the_log_until_it_is_restarted() -> None:
    async with one_table() as (cluster, table):
        cluster.faults.fail_next_sync()
        with pytest.raises((duramen.WriteUnknown, duramen.LogStopped)):
            await table.put(b"key", b"value")
        with pytest.raises(duramen.LogStopped):
            await table.put(b"other", b"value")
        cluster.faults.restart("log")
        await cluster.level()
        await table.put(b"other", b"value")


@testing.simulated
async def test_a_failed_write_is_named() -> None:
    async with one_table() as (cluster, table):
        cluster.faults.fail_next_write()
        with pytest.raises(duramen.DuramenError):
            await put_until_refused(table)
        assert any("fails" in line for line in cluster.story)


def _mistakes() -> dict[str, Callable[[testing.ClusterFaults], object]]:
    return {
        "there is no process 'n9' here: log, n1, n2, router, client": lambda faults: faults.cut("n9"),
        "there is no process 'n8' here": lambda faults: faults.late("n1", 1, "n8"),
        "no link to itself: n1": lambda faults: faults.cut("n1", "n1"),
        "'client' is no process of the cluster": lambda faults: faults.kill("client"),
        "'log' is no node": lambda faults: faults.kill("log", keep_indexes=False),
        "'router' is no node": lambda faults: faults.behind("router", 1),
        "n1 is not down": lambda faults: faults.start("n1"),
        "n2 is down: start it": lambda faults: [faults.kill("n2") for _ in range(2)],
        "log is down": lambda faults: [faults.lose_power() for _ in range(2)],
    }


@pytest.mark.parametrize("words", _mistakes())
@testing.simulated
async def test_a_fault_that_cannot_be_is_refused(words: str) -> None:
    async with testing.Cluster(nodes=2) as cluster:
        with pytest.raises(testing.UnknownProcess, match=words):
            _mistakes()[words](cluster.faults)


@pytest.mark.parametrize("seconds", [-1.0, 1e9, float("nan")])
@testing.simulated
async def test_a_time_that_cannot_be_is_refused(seconds: float) -> None:
    async with testing.Cluster(nodes=1) as cluster:
        with pytest.raises(ValueError, match="seconds from 0 to 3600"):
            cluster.faults.late("n1", seconds)
