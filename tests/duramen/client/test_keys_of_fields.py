"""Tables whose keys lie together by their first fields: every way in and out, four ways."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from kit.client.four_ways import FOUR_WAYS, four_ways

import duramen
from duramen import key_range, pack_key
from log_tier.model.partitioner import partition_of

PARTITIONS = 4
CARRIERS = ["UA", "AA", "B6", "DL", "EV"]
KEYS = [pack_key(carrier, number) for carrier in CARRIERS for number in range(12)]
PLACES = {carrier: partition_of(pack_key(carrier), PARTITIONS) for carrier in CARRIERS}


@pytest.fixture(params=FOUR_WAYS)
async def table(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    async with four_ways(request.param, tmp_path / "data", lambda: request.getfixturevalue("emptied_server")) as db:
        yield await db.create_table("flights", partitions=PARTITIONS, partitioner="fields:1")


def test_the_carriers_are_in_several_partitions() -> None:
    assert len(set(PLACES.values())) > 1


async def test_what_begins_alike_lies_together(table: Any) -> None:
    for carrier in CARRIERS:
        done = await table.put(pack_key(carrier, 1545), carrier.encode())
        assert done.partition == PLACES[carrier]
        assert await table.get(pack_key(carrier, 1545), after=done.token) == carrier.encode()
    await table.put_many((key, key) for key in KEYS)
    assert await table.get_many(KEYS) == KEYS
    wanted = key_range("UA", start=3, end=7)
    async with aclosing(table.scan(start=wanted.start, end=wanted.end)) as found:
        assert [key async for key, _ in found] == [pack_key("UA", number) for number in range(3, 7)]


async def test_a_carrier_is_changed_at_once_and_two_are_not(table: Any) -> None:
    batch = table.batch()
    for number in range(5):
        batch.put(pack_key("UA", number), b"all")
    assert {one.partition for one in await batch.commit()} == {PLACES["UA"]}
    other = next(carrier for carrier in CARRIERS if PLACES[carrier] != PLACES["UA"])
    apart = table.batch()
    apart.put(pack_key("UA", 1), b"x")
    apart.put(pack_key(other, 1), b"x")
    with pytest.raises(duramen.PartitionMismatch, match="lays keys together that begin with the same 1 fields"):
        await apart.commit()
    assert await table.get(pack_key("UA", 1)) == b"all"


async def test_keys_that_are_no_fields_are_placed_whole(table: Any) -> None:
    for key in (b"plain", b"{UA}.1", b"\x02no end", b"\xff"):
        done = await table.put(key, b"v")
        assert done.partition == partition_of(key, PARTITIONS, "fields:1")
        assert await table.get(key) == b"v"
