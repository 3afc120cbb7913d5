"""Tables whose keys are placed as Kafka's producers place them: every way in and out, four ways."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from kit.client.four_ways import FOUR_WAYS, four_ways

import duramen
from log_tier.model.partitioner import partition_of

PARTITIONS = 4
KEYS = [b"{u%d}.%d" % (number % 5, number) for number in range(60)]
PLACES = {key: partition_of(key, PARTITIONS, "murmur2") for key in KEYS}
TOGETHER = [key for key in KEYS if PLACES[key] == PLACES[KEYS[0]]]
APART = next(key for key in KEYS if PLACES[key] != PLACES[KEYS[0]])


@pytest.fixture(params=FOUR_WAYS)
async def db(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    async with four_ways(request.param, tmp_path / "data", lambda: request.getfixturevalue("emptied_server")) as opened:
        yield opened


@pytest.fixture
async def table(db: Any) -> Any:
    return await db.create_table("flights", partitions=PARTITIONS, partitioner="murmur2")


def test_the_keys_tell_the_partitioners_apart() -> None:
    assert sum(PLACES[key] != partition_of(key, PARTITIONS) for key in KEYS) > 30
    assert len(TOGETHER) > 3


async def test_every_write_lands_where_kafkas_producers_would_put_it(table: Any) -> None:
    for key in KEYS[:8]:
        assert (await table.put(key, b"1")).partition == PLACES[key]
        assert (await table.update(key, add=1)).partition == PLACES[key]
        assert await table.get(key) == b"2"
        assert (await table.delete(key)).partition == PLACES[key]
        assert await table.get(key) is None
    done = await table.put_many((key, b"many") for key in KEYS)
    last = {place: sum(PLACES[key] == place for key in KEYS) for place in range(PARTITIONS)}
    assert set(done.offsets) == {place for place, count in last.items() if count}
    assert await table.get_many(KEYS) == [b"many"] * len(KEYS)


async def test_a_handle_that_was_not_made_here_finds_the_keys(db: Any, table: Any) -> None:
    await table.put_many((key, key) for key in KEYS)
    other = db.table("flights")
    assert [await other.get(key) for key in KEYS] == KEYS
    assert await other.get_many(KEYS, level="strong") == KEYS


async def test_scans_and_watches(table: Any) -> None:
    await table.put_many((key, key) for key in KEYS)
    async with aclosing(table.scan()) as found:
        assert [key async for key, _ in found] == sorted(KEYS)
    seen = {}
    async with aclosing(table.watch(start="earliest")) as changes:
        async for change in changes:
            seen[change.key] = change.partition
            if len(seen) == len(KEYS):
                break
    assert seen == PLACES


async def test_a_resumable_writer(table: Any) -> None:
    for written, skipped in ((len(KEYS), 0), (0, len(KEYS))):
        async with table.writer("rows") as writer:
            await writer.put_rows([(key, b"row") for key in KEYS])
            await writer.flush()
            assert (writer.written, writer.skipped) == (written, skipped)
    assert await table.get_many(KEYS) == [b"row"] * len(KEYS)


async def test_atomic_batches(table: Any) -> None:
    batch = table.batch()
    for key in TOGETHER[:3]:
        batch.put(key, b"all")
    done = await batch.commit()
    assert [one.partition for one in done] == [PLACES[KEYS[0]]] * 3
    apart = table.batch()
    apart.put(KEYS[0], b"x")
    apart.put(APART, b"x")
    with pytest.raises(duramen.PartitionMismatch, match="murmur2, knows no tags"):
        await apart.commit()
    assert await table.get(KEYS[0]) == b"all"


async def test_the_description_names_the_partitioner(db: Any, table: Any) -> None:
    await db.create_table("usual", partitions=1)
    assert [(info.name, info.partitioner, info.over) for info in await db.tables()] == [
        ("flights", "murmur2", ""),
        ("usual", "slot", ""),
    ]
    described = (await db.describe_table("flights")).table
    assert (described.name, described.partitions, described.partitioner) == ("flights", PARTITIONS, "murmur2")
    assert (await table.describe()).table == described
    same = await db.create_table("flights", partitioner="slot", if_missing=True)
    assert (await same.put(KEYS[0], b"v")).partition == PLACES[KEYS[0]], "an existing table is taken as it is"


@pytest.mark.embedded_log_only
async def test_tables_that_cannot_be(db: Any) -> None:
    with pytest.raises(duramen.InvalidRequest, match="slot, murmur2, or fields:N with N from 1 to 32, not 'crc32'"):
        await db.create_table("t", partitioner="crc32")
    with pytest.raises(duramen.InvalidName, match="cannot be a topic of others"):
        await db.create_table("t", over="a b")
    with pytest.raises(duramen.InvalidName, match="text, this is bytes"):
        await db.create_table("t", over=b"orders")
    with pytest.raises(duramen.InvalidRequest, match="an embedded log has no topics of others"):
        await db.create_table("t", over="orders-v1")
    assert await db.tables() == []
