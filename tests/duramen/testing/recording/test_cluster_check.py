"""cluster.check(): it finds what is planted, and nothing where nothing is wrong, whatever fails meanwhile."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any

import pytest
from kit.client.planted_bugs import BUGS

import duramen
from duramen import aio, testing
from log_tier.model.identifiers import NOTHING
from router.data.local_data import LocalData

KEYS = [b"key-%d" % number for number in range(6)]


async def work(table: aio.Table, chance: random.Random, calls: int) -> None:
    """Everything that a table can do; what fails is recorded as well."""
    for number in range(calls):
        with suppress(duramen.Unavailable, duramen.WriteUnknown, duramen.Rejected, duramen.TokenAhead):
            await one_call(table, chance, chance.choice(KEYS), number)


async def one_call(table: aio.Table, chance: random.Random, key: bytes, number: int) -> None:
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: table.put(key, b"value \xff %d" % number),
        lambda: table.put(key, b"%d" % number, if_absent=True),
        lambda: table.delete(key, if_present=True),
        lambda: table.update(b"count", add=number),
        lambda: table.update(b"text", append=b"%d." % number),
        lambda: table.get(key),
        lambda: table.get(key, level="strong"),
        lambda: table.get(key, level="eventual"),
        lambda: table.get_many(KEYS),
        lambda: table.put_many([(each, b"many %d" % number) for each in KEYS]),
        lambda: batch(table, number),
        lambda: scans(table, chance),
    ]
    await chance.choice(calls)()


async def batch(table: aio.Table, number: int) -> None:
    both = table.batch()
    both.put(b"{tag}1", b"%d" % number).put(b"{tag}2", b"%d" % number, if_absent=number % 3 == 0)
    await both.commit()


async def scans(table: aio.Table, chance: random.Random) -> None:
    ranges: list[dict[str, Any]] = [{}, {"prefix": b"key"}, {"start": b"key-1", "end": b"key-4"}, {"limit": 3}]
    how = chance.choice(ranges)
    async with aclosing(table.scan(**how, reverse=chance.random() < 0.5)) as found:
        async for _ in found:
            pass


async def watches(table: aio.Table) -> None:
    async with aclosing(table.watch(start="earliest")) as changes:
        async for _ in changes:
            pass


async def everything(cluster: testing.Cluster, *, calls: int = 60, faults: bool = False) -> None:
    """Three clients of one table, and a watcher, under faults."""
    databases = [await cluster.connect(timeout=5) for _ in range(3)]
    await databases[0].create_table("orders", partitions=3)
    seed = random.getrandbits(32)
    working = [
        asyncio.create_task(work(each.table("orders"), random.Random(f"{seed} {number}"), calls))
        for number, each in enumerate(databases)
    ]
    watching = asyncio.create_task(watches(databases[0].table("orders")))
    if faults:
        chance = random.Random(f"{seed} faults")
        for _ in range(4):
            await asyncio.sleep(chance.random() / 4)
            name = chance.choice([*cluster.nodes, "log", "router"])
            cluster.faults.kill(name)
            other = chance.choice(cluster.nodes)
            cluster.faults.cut(other, "client")
            await asyncio.sleep(chance.random())
            cluster.faults.start(name)
            cluster.faults.heal()
    await asyncio.gather(*working)
    await cluster.level()
    await asyncio.sleep(1)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


@pytest.mark.parametrize("faults", [False, True])
@testing.simulated(seeds=6)
async def test_nothing_is_named_where_nothing_is_wrong(faults: bool) -> None:
    async with testing.Cluster() as cluster:
        await everything(cluster, faults=faults)
        judged = await cluster.check()
        assert judged.tables == 1
        assert judged.calls > 150
        assert judged.records > 50
        assert await cluster.check() == judged, "a check changes nothing"


def answers_too_early(patch: pytest.MonkeyPatch) -> None:
    """A node that does not wait for what a read must contain."""
    inner = LocalData.read

    async def read(self: LocalData, parts: Any, **how: Any) -> Any:
        return await inner(self, [part._replace(after=NOTHING, strong=False) for part in parts], **how)

    patch.setattr(LocalData, "read", read)


PLANTED: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], set[str]]] = {
    **{bug.__name__: (bug, invariants) for bug, invariants in BUGS},
    "answers_too_early": (answers_too_early, {"I5"}),
}


@pytest.mark.parametrize(
    "name",
    [
        "acknowledged_and_never_written",
        "made_up_values",
        "half_a_group",
        "answers_too_early",
        "conditions_are_not_looked_at",
        "watch_shows_what_was_rejected",
        "scan_loses_the_end_of_a_page",
    ],
)
def test_a_planted_bug_is_found_and_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bug, invariants = PLANTED[name]
    bug(monkeypatch)

    async def main() -> None:
        async with testing.Cluster() as cluster:
            for node in cluster.nodes:
                cluster.faults.behind(node, 0.05)
            await everything(cluster)
            await cluster.check()

    named: set[str] = set()
    for seed in range(12):
        try:
            testing.run(main, seed=seed)
        except testing.PromiseBroken as error:
            named |= set(re.findall(r"^(I\d) \(", str(error), re.MULTILINE))
        if named & invariants:
            break
    assert named & invariants, f"{name}: {named}"


@testing.simulated
async def test_a_program_that_connects_by_itself_is_judged() -> None:
    async def program(addresses: list[str]) -> None:
        async with await aio.connect(addresses) as database:
            table = await database.create_table("orders", partitions=1)
            await table.put(b"key", b"value")

    async with testing.Cluster(nodes=1) as cluster:
        await cluster.start("shop", program(cluster.addresses))
        assert await cluster.check() == testing.Judged(tables=1, calls=1, records=1)


@testing.simulated
async def test_two_clusters_at_once_are_judged_apart() -> None:
    async with testing.Cluster(nodes=1) as one, testing.Cluster(nodes=1, name="other") as other:
        for cluster, puts in ((one, 2), (other, 3)):
            table = await (await cluster.connect()).create_table("orders", partitions=1)
            for _ in range(puts):
                await table.put(b"key", b"value")
        assert (await one.check()).calls == 2
        assert (await other.check()).calls == 3


@testing.simulated
async def test_nothing_was_asked() -> None:
    async with testing.Cluster(nodes=1) as cluster:
        database = await cluster.connect()
        await database.create_table("dropped")
        await database.table("dropped").put(b"key", b"value")
        await database.drop_table("dropped")
        assert await cluster.check() == testing.Judged(tables=0, calls=0, records=0)


@pytest.mark.parametrize("what", ["the fraction 0.5", "rejected with number_overflow", "fields of"])
@testing.simulated
async def test_what_the_model_does_not_have_is_refused(what: str) -> None:
    async with testing.Cluster(nodes=1) as cluster:
        table = await (await cluster.connect()).create_table("orders", partitions=1)
        if what == "the fraction 0.5":
            await table.update(b"key", add=0.5)
        elif what == "fields of":
            schema = {
                "type": "record",
                "name": "Cart",
                "fields": [{"name": name, "type": "int"} for name in ("id", "n")],
            }
            carts = await (await cluster.connect()).create_table("carts", row=schema, key="id", partitions=1)
            await carts.put({"id": 1, "n": 1})
            await carts.update(1, add={"n": 1})
        else:
            await table.put(b"key", b"%d" % (2**63 - 1))
            with pytest.raises(duramen.NumberOverflow):
                await table.update(b"key", add=1)
        with pytest.raises(testing.NotJudged, match=what):
            await cluster.check()


@testing.simulated
async def test_expiries_are_judged_by_the_time_of_the_log() -> None:
    async with testing.Cluster(nodes=2) as cluster:
        table = await (await cluster.connect()).create_table("carts", partitions=1)
        await table.put(b"cart", b"open", ttl=10)
        await table.update(b"cart", append=b", paid")
        assert await table.get(b"cart") == b"open, paid"
        await asyncio.sleep(20)  # an idle partition: a node moves the time of its log on
        assert await table.get(b"cart") is None
        await table.put(b"cart", b"another", if_absent=True)
        assert (await cluster.check()).calls == 5


@testing.simulated
async def test_a_resumed_writer_is_judged() -> None:
    async with testing.Cluster(nodes=1) as cluster:
        for _ in range(2):
            table = await (await cluster.connect()).create_table("orders", partitions=2, if_missing=True)
            async with table.writer("a file") as writer:
                await writer.put_rows((b"row-%d" % number, b"value") for number in range(100))
        assert (await cluster.check()).records == 100


@testing.simulated
async def test_a_check_of_a_broken_cluster_says_what_is_broken() -> None:
    async with testing.Cluster(nodes=2) as cluster:
        cluster.faults.kill("n1")
        with pytest.raises(testing.NotLevel, match="n1 is down"):
            await cluster.check()
