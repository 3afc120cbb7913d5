"""Programs of a test on the network of its cluster: they run, are cut off, fail, and are killed in the middle."""

from __future__ import annotations

import asyncio

import pytest

import duramen
from duramen import aio, testing


async def _count(addresses: list[str], times: int) -> int:
    async with await aio.connect(addresses, timeout=2) as database:
        table = await database.create_table("counts", partitions=1, if_missing=True)
        for _ in range(times):
            await table.update(b"count", add=1)
            await asyncio.sleep(0.1)
    return times


@testing.simulated
async def test_two_programs_at_once() -> None:
    async with testing.Cluster(nodes=2) as cluster:
        one = cluster.start("one", _count(cluster.addresses, 20))
        other = cluster.start("other", _count(cluster.addresses, 30))
        assert one.is_running
        assert await one + await other == 50
        assert not one.is_running
        assert await (await cluster.connect()).table("counts").get(b"count", level="strong") == b"50"


@testing.simulated(seeds=3)
async def test_nothing_of_a_killed_program_gets_out() -> None:
    async def goes_on(addresses: list[str]) -> None:
        database = await aio.connect(addresses, timeout=2)
        table = await database.create_table("counts", partitions=1)
        try:
            while True:
                await table.update(b"count", add=1)
        finally:
            await table.put(b"last words", b"I was killed", timeout=1)

    async with testing.Cluster(nodes=1) as cluster:
        program = cluster.start("shop", goes_on(cluster.addresses))
        await asyncio.sleep(1)
        program.kill()
        program.kill()
        with pytest.raises(testing.Killed, match="shop was killed"):
            await program
        table = (await cluster.connect()).table("counts")
        counted = await table.get(b"count", level="strong")
        await asyncio.sleep(5)
        assert await table.get(b"count", level="strong") == counted
        assert await table.get(b"last words", level="strong") is None
        assert await cluster.start("shop", _count(cluster.addresses, 2)) == 2


@testing.simulated
async def test_one_program_is_cut_off_and_the_other_one_is_not() -> None:
    async with testing.Cluster(nodes=2) as cluster:
        cut = cluster.start("cut", _count(cluster.addresses, 20))
        whole = cluster.start("whole", _count(cluster.addresses, 20))
        await asyncio.sleep(0.5)
        cluster.faults.cut("cut")
        assert await whole == 20
        with pytest.raises((duramen.Unavailable, duramen.WriteUnknown)):
            await cut


def test_a_failure_that_nobody_awaits_fails_the_test() -> None:
    async def fails() -> None:
        raise ZeroDivisionError

    async def main() -> None:
        async with testing.Cluster(nodes=1) as cluster:
            cluster.start("shop", fails())
            await asyncio.sleep(1)

    with pytest.raises(ZeroDivisionError) as failed:
        testing.run(main)
    assert "'shop' ended with this, and nobody awaited it" in failed.value.__notes__[0]


@testing.simulated
async def test_a_name_that_is_taken_is_refused() -> None:
    async with testing.Cluster(nodes=1) as cluster:
        for name in ("n1", "client", "log", "shop"):
            if name == "shop":
                cluster.start("shop", asyncio.sleep(5))
            with pytest.raises(testing.UnknownProcess, match=f"a process '{name}' already"):
                cluster.start(name, asyncio.sleep(1))


def test_a_program_that_does_not_end_holds_nobody_up() -> None:
    async def waits_for_ever() -> None:
        try:
            await asyncio.sleep(1e6)
        finally:
            await asyncio.Event().wait()

    async def main() -> float:
        async with testing.Cluster(nodes=1) as cluster:
            cluster.start("shop", waits_for_ever())
            await asyncio.sleep(1)
        return asyncio.get_running_loop().time()

    assert testing.run(main) < 30
