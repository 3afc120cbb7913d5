"""The cache of values: it answers what the index would answer, or nothing, and keeps to its limit."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from kit.cluster.one_machine import DEADLINE_S, ZERO, one_machine, put_all, puts, write
from kit.deadlines import patience_s, within

from log_tier.model.barrier import Barrier, barrier_batch
from log_tier.model.batch import Batch
from log_tier.model.identifiers import PartitionId
from log_tier.model.record import Operation
from log_tier.rows.table_spec import TableSpec
from router.data.local_data import LocalData
from router.endpoints.resp.data.reads import Reads
from router.endpoints.resp.data.served_tables import ServedTable
from router.endpoints.resp.data.value_cache import REPLY_BYTES_MAX, CacheBudget, ValueCache
from router.endpoints.resp.wire.replies import NULL
from serving_tier.index.lmdb.lmdb_index import LmdbIndex

MANY = 1 << 20


@pytest.fixture
async def data_plane(tmp_path: Path) -> AsyncIterator[LocalData]:
    async with one_machine(tmp_path) as opened:
        yield opened


async def served(data_plane: LocalData, *, room: int = MANY, partitions: int = 1) -> tuple[ServedTable, Reads]:
    ref = await data_plane.create_table(TableSpec("t", partitions=partitions), timeout=patience_s(10))
    return ServedTable(ref, data_plane.node, CacheBudget(room)), Reads(data_plane, lambda: 0)


def cache_of(table: ServedTable, partition: int = 0) -> ValueCache:
    cache = table.caches[partition]
    assert cache is not None
    return cache


async def level(table: ServedTable) -> None:
    """Everything is applied, and the caches have heard of it."""
    for replica, cache in zip(table.replicas, table.caches, strict=True):
        assert replica is not None
        assert cache is not None
        async with within(DEADLINE_S):
            while replica.applied < replica.progress.latest or cache.applied < replica.applied:  # noqa: ASYNC110
                await asyncio.sleep(0.001)


async def put(data_plane: LocalData, table: ServedTable, pairs: dict[bytes, bytes]) -> None:
    for partition, last in (await put_all(data_plane, table.ref, pairs)).items():
        replica = table.replicas[partition]
        assert replica is not None
        await replica.wait_applied(last, timeout=DEADLINE_S)


def get(reads: Reads, table: ServedTable, key: bytes) -> bytes | None:
    return reads.value(table, key, NULL[2])


async def test_what_was_read_is_kept_until_it_changes(data_plane: LocalData) -> None:
    table, reads = await served(data_plane)
    await put(data_plane, table, {b"k": b"1", b"other": b"x"})
    await level(table)
    assert get(reads, table, b"k") == b"$1\r\n1\r\n"
    assert cache_of(table).young == {b"k": b"$1\r\n1\r\n"}
    assert get(reads, table, b"k") == b"$1\r\n1\r\n"
    await put(data_plane, table, {b"other": b"y"})
    await level(table)
    assert set(cache_of(table).young) == {b"k"}
    await put(data_plane, table, {b"k": b"22"})
    await level(table)
    assert not cache_of(table).young
    assert get(reads, table, b"k") == b"$2\r\n22\r\n"
    assert get(reads, table, b"absent") == NULL[2]
    assert set(cache_of(table).young) == {b"k"}, "that a key is absent is not kept"


async def test_it_begins_with_the_first_read_of_an_index_at_rest(data_plane: LocalData) -> None:
    """To ask for the state of an index would open its file; nothing is kept of a read that came before."""
    table, reads = await served(data_plane)
    cache, replica = cache_of(table), table.replicas[0]
    assert replica is not None
    assert replica.index.is_at_rest
    assert cache.transaction == -1
    assert get(reads, table, b"a") == NULL[2]
    assert cache.transaction == replica.index.transaction()
    assert cache.applied == replica.applied
    await put(data_plane, table, {b"a": b"1"})
    await level(table)
    assert get(reads, table, b"a") == b"$1\r\n1\r\n"
    assert list(cache.young) == [b"a"]
    table.close()
    assert get(reads, table, b"a") == b"$1\r\n1\r\n"
    assert not cache.young, "a closed cache does not begin again"


async def test_it_is_left_out_while_the_index_is_ahead_of_it(data_plane: LocalData) -> None:
    """After an apply in its thread, and before the event loop hears of it."""
    table, reads = await served(data_plane)
    await put(data_plane, table, {b"k": b"1"})
    await level(table)
    assert get(reads, table, b"k") == b"$1\r\n1\r\n"
    replica = table.replicas[ZERO]
    assert replica is not None
    cache = replica.observers.pop()
    await put(data_plane, table, {b"k": b"2"})
    assert cache_of(table).young == {b"k": b"$1\r\n1\r\n"}, "it has not heard"
    assert get(reads, table, b"k") == b"$1\r\n2\r\n"
    assert reads.values(table, [b"k", b"k"], NULL[2]) == b"$1\r\n2\r\n" * 2
    replica.observers.append(cache)
    await put(data_plane, table, {b"k": b"3"})
    await level(table)
    assert get(reads, table, b"k") == b"$1\r\n3\r\n"


async def test_what_expires_is_not_kept(data_plane: LocalData) -> None:
    table, reads = await served(data_plane)
    await put(data_plane, table, {b"k": b"1"})
    await level(table)
    stored = LmdbIndex.stored
    assert get(reads, table, b"k") is not None
    replica = table.replicas[ZERO]
    assert replica is not None
    entry = stored(replica.index, b"k")
    assert entry is not None
    assert cache_of(table).young
    cache_of(table).clear()
    cache_of(table).put_new([b"k"], [entry[:7] + b"\x01" + bytes(8) + b"1"], [b"$1\r\n1\r\n"])
    assert not cache_of(table).young


async def test_long_values_are_not_kept_and_the_limit_of_a_reply_stays(data_plane: LocalData) -> None:
    table, reads = await served(data_plane)
    await put(data_plane, table, {b"long": b"v" * REPLY_BYTES_MAX, b"short": b"v" * 16_000})
    await level(table)
    assert get(reads, table, b"long") is not None
    assert get(reads, table, b"short") is not None
    assert set(cache_of(table).young) == {b"short"}
    assert reads.values(table, [b"short"] * 2000, NULL[2]) is not None
    assert reads.values(table, [b"short"] * 2200, NULL[2]) is None, "33 MiB: the long way says so"


async def test_a_bulk_load_empties_it(data_plane: LocalData) -> None:
    table, reads = await served(data_plane)
    await put(data_plane, table, {b"k": b"1"})
    await level(table)
    assert get(reads, table, b"k") is not None
    await put(data_plane, table, {b"%d" % number: b"" for number in range(5000)})
    await level(table)
    assert not cache_of(table).young


async def test_another_version_has_other_values(data_plane: LocalData) -> None:
    table, reads = await served(data_plane)
    await put(data_plane, table, {b"k": b"1"})
    replica = table.replicas[ZERO]
    assert replica is not None
    LmdbIndex.open(replica.versions.folder.version(2), partition=table.ref.partition(ZERO)).close()
    await replica.versions.add(2)
    await level(table)
    assert get(reads, table, b"k") is not None
    before = cache_of(table).index
    await data_plane.log.append(
        PartitionId(table.ref.id, ZERO), barrier_batch(Barrier(2, 1), producer_id=7, sequence=0)
    )
    async with within(DEADLINE_S):
        while replica.index is before:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    await level(table)
    assert cache_of(table).index is replica.index is not before
    assert not cache_of(table).young
    await put(data_plane, table, {b"k": b"2"})
    await level(table)
    assert get(reads, table, b"k") == b"$1\r\n2\r\n"


@pytest.mark.parametrize(("room", "partitions"), [(MANY, 1), (2000, 1), (2000, 3), (0, 2)])
async def test_random_reads_and_writes_against_a_dict(data_plane: LocalData, room: int, partitions: int) -> None:
    table, reads = await served(data_plane, room=room, partitions=partitions)
    chance = random.Random(room + partitions)
    model: dict[bytes, bytes] = {}
    keys = [b"key%d" % number for number in range(40)]
    null = NULL[2]

    def bulk(value: bytes | None) -> bytes:
        return null if value is None else b"$%d\r\n%b\r\n" % (len(value), value)

    for _ in range(400):
        match chance.choice(["put", "delete", "get", "get", "many", "many", "turn"]):
            case "put":
                pairs = {key: chance.randbytes(chance.randrange(30)) for key in chance.sample(keys, 3)}
                await put(data_plane, table, pairs)
                model.update(pairs)
            case "delete":
                key = chance.choice(keys)
                partition = table.partition_of(key)
                place = await write(data_plane, table.ref, partition, _delete(key))
                replica = table.replicas[partition]
                assert replica is not None
                await replica.wait_applied(place.base_offset, timeout=DEADLINE_S)
                model.pop(key, None)
            case "get":
                key = chance.choice(keys)
                assert get(reads, table, key) == bulk(model.get(key))
            case "many":
                some = chance.choices(keys, k=chance.randrange(1, 30))
                assert reads.values(table, some, null) == b"".join(bulk(model.get(key)) for key in some)
            case "turn":
                cache_of(table, chance.randrange(partitions)).turn()
        check(table)
    table.close()
    check(table)
    for replica in table.replicas:
        assert replica is not None
        assert not any(isinstance(each, (ValueCache, ServedTable)) for each in replica.observers)


def _delete(key: bytes) -> bytes:
    from kit.cluster.one_machine import operations

    return operations((Operation.DELETE, key, b""))


def check(table: ServedTable) -> None:
    """The sizes are those of what is there, and within the limit."""
    sizes = 0
    for cache in table.caches:
        assert cache is not None
        assert not cache.young.keys() & cache.old.keys()
        size = sum(len(key) + len(reply) + 180 for some in (cache.young, cache.old) for key, reply in some.items())
        assert cache.size_bytes == size
        sizes += size
        room = cache._budget
    assert sizes == room.used_bytes <= room.bytes_max


async def test_a_batch_of_puts_notifies_once(data_plane: LocalData) -> None:
    table, _ = await served(data_plane)
    replica = table.replicas[ZERO]
    assert replica is not None
    heard: list[list[bytes]] = []

    class Heard:
        def replica_applied(self, index: LmdbIndex, batches: Sequence[Batch]) -> None:
            heard.extend(list(batch.columns.keys) for batch in batches)

        def replica_left(self) -> None:
            pass

    replica.observers.append(Heard())
    place = await write(data_plane, table.ref, 0, puts((b"a", b"1"), (b"b", b"2")))
    await replica.wait_applied(place.base_offset, timeout=DEADLINE_S)
    assert heard == [[b"a", b"b"]], "before its waiter"
