"""A client that goes no further than one node: what that node does not hold, it passes on."""

from __future__ import annotations

from contextlib import aclosing

import pytest
from kit.cluster.operated import DEADLINE_S, Operated
from kit.deadlines import within

import duramen

KEYS = [b"key%02d" % number for number in range(12)]


@pytest.mark.parametrize("others", [False, True], ids=["one node", "several"])
async def test_a_node_passes_on_what_it_does_not_hold(cluster: Operated, others: bool) -> None:
    await cluster.database.create_table("flights", partitions=3, replicas=1)
    await cluster.until_level("flights")
    held = await cluster.holders("flights")
    assert len(set(held)) == 3, held
    targets = [f"127.0.0.1:{node.port}" for node in cluster.nodes.values()][: 2 if others else 1]
    async with within(DEADLINE_S), await duramen.aio.connect(targets, timeout=DEADLINE_S, direct=False) as database:
        table = database.table("flights")
        async with aclosing(await table.watch()) as watch:
            await table.put_many(dict.fromkeys(KEYS, b"1"))
            assert sorted([(await anext(watch)).key for _ in KEYS]) == KEYS
            numbers = [(await table.update(b"n" + key, add=1)).value for key in KEYS]
            assert numbers == [1] * len(KEYS)
            assert sorted([(await anext(watch)).key for _ in KEYS]) == [b"n" + key for key in KEYS]
        assert await table.get_many(KEYS) == [b"1"] * len(KEYS)
        assert [await table.get(key, level="strong") for key in KEYS] == [b"1"] * len(KEYS)
        assert [key async for key, _ in table.scan(prefix=b"key")] == KEYS
        async with table.writer("loader") as writer:
            for key in KEYS:
                await writer.put(key, b"2")
        assert await table.get_many(KEYS) == [b"2"] * len(KEYS)
