"""Reads in the caller's own thread: right, or not at all."""

from __future__ import annotations

import asyncio
import threading

import pytest
from kit.cluster.one_machine import DEADLINE_S, all_replicas, held, put_all, puts, write
from kit.deadlines import within
from kit.seen_offsets import SeenOffsets

from log_tier.model.barrier import Barrier, barrier_batch
from log_tier.model.errors import IndexDamaged, LogDamaged, ShuttingDown
from log_tier.model.identifiers import NOTHING, Offset, Partition, PartitionId
from log_tier.model.partitioner import partition_of
from log_tier.model.table_ref import TableRef
from log_tier.rows.table_spec import TableSpec
from router.data.direct_reads import DirectReads
from router.data.local_data import LocalData
from router.data.requests import ReadPart, ReadResult
from router.data.seam import NOT_FRESH
from serving_tier.index.lmdb.lmdb_index import LmdbIndex


@pytest.fixture
def seen() -> SeenOffsets:
    return SeenOffsets()


@pytest.fixture
def reads(data_plane: LocalData, table: TableRef, seen: SeenOffsets) -> DirectReads:
    made = DirectReads(data_plane, "flights", seen, seen.saw)
    assert made.get(b"k") is NOT_FRESH, "the first one looks the table up"
    return made


async def applied(data_plane: LocalData, table: TableRef) -> None:
    for replica in all_replicas(data_plane, table):
        bounds = await data_plane.log.bounds(replica.id)
        await replica.wait_applied(bounds.latest, timeout=DEADLINE_S)


async def test_values_and_absent_keys(data_plane: LocalData, table: TableRef, reads: DirectReads) -> None:
    pairs = {b"k%d" % number: b"v%d" % number for number in range(50)} | {b"empty": b""}
    await put_all(data_plane, table, pairs)
    await applied(data_plane, table)
    assert {key: reads.get(key) for key in pairs} == pairs
    assert reads.get(b"absent") is None


@pytest.mark.parametrize("key", [b"", b"x" * 512, "text", None, 5])
async def test_keys_that_are_none_go_the_long_way(
    data_plane: LocalData, table: TableRef, reads: DirectReads, key: object
) -> None:
    assert reads.get(key) is NOT_FRESH  # type: ignore[arg-type]


async def test_an_unknown_table_goes_the_long_way(data_plane: LocalData, seen: SeenOffsets) -> None:
    assert DirectReads(data_plane, "ships", seen, seen.saw).get(b"k") is NOT_FRESH


async def test_what_the_session_has_seen_is_waited_for_elsewhere(
    data_plane: LocalData, table: TableRef, reads: DirectReads, seen: SeenOffsets
) -> None:
    key = b"key"
    partition = partition_of(key, table.partitions)
    await write(data_plane, table, partition, puts((key, b"old")), outcomes=True)
    replica = data_plane.node.replica(PartitionId(table.id, partition))
    with held(replica):
        place = await write(data_plane, table, partition, puts((key, b"new")))
        assert reads.get(key) == b"old"
        seen(table)[partition] = place.base_offset
        assert reads.get(key) is NOT_FRESH
    await applied(data_plane, table)
    assert reads.get(key) == b"new"


async def test_a_stopped_replica_does_not_answer_for_what_it_lacks(
    data_plane: LocalData, table: TableRef, reads: DirectReads, seen: SeenOffsets, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(batches: object) -> object:
        raise LogDamaged("byte 77")

    for replica in all_replicas(data_plane, table):
        monkeypatch.setattr(replica.index, "fold_in", fail)
        await write(data_plane, table, replica.id.partition, puts((b"k", b"v")), outcomes=False)
        with pytest.raises(LogDamaged):
            await replica.wait_applied(Offset(0), timeout=DEADLINE_S)
    assert reads.get(b"k") is NOT_FRESH, "the slow path decides what a stopped replica is good for"
    partition = partition_of(b"k", table.partitions)
    (found,) = await data_plane.read([ReadPart(PartitionId(table.id, partition), [b"k"])], timeout=DEADLINE_S)
    assert isinstance(found, ReadResult)
    assert found.values == [None], "a consistent state, if an old one"
    (refused,) = await data_plane.read(
        [ReadPart(PartitionId(table.id, partition), [b"k"], Offset(0))], timeout=DEADLINE_S
    )
    assert isinstance(refused, LogDamaged)


async def test_damage_is_not_taken_for_a_dropped_table(
    data_plane: LocalData, table: TableRef, reads: DirectReads, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(key: bytes) -> bytes | None:
        raise IndexDamaged("a page cannot be read")

    for replica in all_replicas(data_plane, table):
        monkeypatch.setattr(replica.index, "get_value", fail)
    with pytest.raises(IndexDamaged):
        reads.get(b"k")


async def test_an_index_that_was_found_damaged_is_not_read(
    data_plane: LocalData, table: TableRef, reads: DirectReads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damage that somebody else has met: the slow path says so, and no page of the index is believed."""
    for replica in all_replicas(data_plane, table):
        monkeypatch.setattr(replica, "failure", IndexDamaged("a page cannot be read"))
    assert reads.get(b"k") is NOT_FRESH


@pytest.mark.parametrize("partitions", [1, 2, 9])
async def test_a_table_that_was_made_again_with_other_partitions(
    data_plane: LocalData, table: TableRef, reads: DirectReads, partitions: int
) -> None:
    assert reads.get(b"k") is None
    await data_plane.drop_table("flights", timeout=DEADLINE_S)
    assert reads.get(b"k") is NOT_FRESH
    again = await data_plane.create_table(TableSpec("flights", partitions=partitions), timeout=DEADLINE_S)
    await put_all(data_plane, again, {b"k": b"again"})
    await applied(data_plane, again)
    assert reads.get(b"k") is NOT_FRESH
    assert reads.get(b"k") == b"again"


async def test_another_version_is_read_from_its_barrier_on(
    data_plane: LocalData, table: TableRef, reads: DirectReads, seen: SeenOffsets
) -> None:
    key = b"key"
    partition = partition_of(key, table.partitions)
    place = await write(data_plane, table, partition, puts((key, b"first")))
    replica = data_plane.node.replica(PartitionId(table.id, partition))
    await replica.wait_applied(place.base_offset, timeout=DEADLINE_S)
    LmdbIndex.open(
        replica.versions.folder.version(2), partition=table.partition(partition)
    ).close()  # folds all of the log
    await replica.versions.add(2)
    assert reads.get(key) == b"first"
    barrier = barrier_batch(Barrier(2, 1), producer_id=7, sequence=0)
    swapped = await data_plane.log.append(PartitionId(table.id, partition), barrier)
    await replica.wait_applied(swapped.base_offset, timeout=DEADLINE_S)
    assert reads.get(key) == b"first"
    first = replica.versions.level[1]
    assert reads.get(key) == b"first"
    await replica.versions.drop(1, ShuttingDown("discarded"))
    assert reads.get(key) == b"first"
    later = await write(data_plane, table, partition, puts((key, b"second")))
    await replica.wait_applied(later.base_offset, timeout=DEADLINE_S)
    assert reads.get(key) == b"second"
    seen(table)[partition] = later.base_offset
    assert reads.get(key) == b"second"
    assert first.applied < later.base_offset, "nobody writes a version that was discarded"


async def test_threads_read_while_tables_come_and_go(data_plane: LocalData, seen: SeenOffsets) -> None:
    """Under no reader is an index closed, and no reader takes one table's partitions for another's."""
    reads = DirectReads(data_plane, "flights", seen, seen.saw)
    stop = threading.Event()
    wrong: list[object] = []
    counts = [0, 0]

    def read(number: int) -> None:
        while not stop.is_set():
            try:
                value = reads.get(b"k")
            except Exception as error:
                wrong.append(error)
                raise
            if value is not NOT_FRESH:
                counts[number] += 1
                if value not in (None, b"v"):
                    wrong.append(value)

    threads = [threading.Thread(target=read, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    try:
        for round_number in range(12):
            table = await data_plane.create_table(
                TableSpec("flights", partitions=1 + round_number % 3), timeout=DEADLINE_S
            )
            await put_all(data_plane, table, {b"k": b"v"})
            await applied(data_plane, table)
            before = list(counts)
            async with within(DEADLINE_S):
                while counts == before:  # noqa: ASYNC110 - threads count, nobody signals
                    await asyncio.sleep(0)
            await data_plane.drop_table("flights", timeout=DEADLINE_S)
    finally:
        stop.set()
        for thread in threads:
            await asyncio.to_thread(thread.join)
    assert not wrong


async def test_what_a_replica_has_shown_outlives_it(
    data_plane: LocalData, table: TableRef, reads: DirectReads, seen: SeenOffsets
) -> None:
    """Direct reads merge nothing into the session; its successor must not show less than a replica did."""
    last = await put_all(data_plane, table, {b"k%d" % number: b"v" for number in range(50)})
    await applied(data_plane, table)
    assert reads.get(b"k1") == b"v"
    assert seen.offsets[table.id] == [NOTHING] * table.partitions
    for replica in all_replicas(data_plane, table):
        await replica.close()
    assert reads.get(b"k1") is NOT_FRESH
    assert {Partition(number): offset for number, offset in enumerate(seen.offsets[table.id])} == last
