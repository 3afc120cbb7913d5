"""First pages that are read in the caller's own thread: those that the slow path would give, or none."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from random import Random

import pytest
from kit.cluster.one_machine import DEADLINE_S, all_replicas, held, puts, write
from kit.deadlines import within
from kit.flight_rows import UNNUMBERED_FLIGHTS, flight, flight_key
from kit.seen_offsets import SeenOffsets

from log_tier.model.errors import IndexDamaged, LogDamaged
from log_tier.model.identifiers import NOTHING, Offset, Partition
from log_tier.model.table_ref import TableRef
from log_tier.rows.elements import encode_element
from log_tier.rows.table_index import TableIndex
from log_tier.rows.table_spec import TableSpec
from router.data.direct_reads import DirectReads
from router.data.local_data import LocalData
from router.data.requests import ScanRequest
from router.data.seam import FirstPage

BY_DELAY = TableIndex(1, "by_delay", ("dep_delay",))
INDEXED = replace(UNNUMBERED_FLIGHTS, indexes=(BY_DELAY,))


def pages_of(data_plane: LocalData, seen: SeenOffsets) -> DirectReads:
    made = DirectReads(data_plane, "rows", seen, seen.saw)
    assert first_rows(made) is None, "the first one looks the table up"
    return made


def first_rows(reads: DirectReads, *, limit: int = 200, index_name: str = "") -> FirstPage | None:
    return reads.first_page(b"", None, reverse=False, limit=limit, index_name=index_name)


async def rows_made(data_plane: LocalData, *, partitions: int = 4, rows: int = 60) -> TableRef:
    table = await data_plane.create_table(
        TableSpec("rows", partitions, partitioner=INDEXED.partitioner, definition=INDEXED), timeout=DEADLINE_S
    )
    for number in range(rows):
        carrier = f"C{number % 7}"
        await put_row(data_plane, table, carrier, number, float(number % 5))
    return table


async def put_row(data_plane: LocalData, table: TableRef, carrier: str, number: int, delay: float) -> Offset:
    key = flight_key(carrier, number)
    definition = await data_plane.definition(table.id, timeout=DEADLINE_S)
    assert definition is not None
    row = flight(carrier, number, "N1", delay, schema=definition.schemas[0].number)
    place = await write(data_plane, table, table.partition_of(key), puts((key, row)), outcomes=True)
    assert not place.outcomes, "it took effect"
    return place.base_offset


@pytest.mark.parametrize("partitions", [1, 2, 9])
async def test_it_is_the_page_of_the_slow_path(data_plane: LocalData, partitions: int) -> None:
    table = await rows_made(data_plane, partitions=partitions)
    reads, random = pages_of(data_plane, SeenOffsets()), Random(7)
    keys = [flight_key(f"C{number % 7}", number) for number in range(60)]
    entries = [encode_element(float(number)) for number in range(6)]
    for _ in range(200):
        index = random.choice(["", "by_delay"])
        start, end = sorted(random.sample(entries if index else keys, 2))
        start, end_or_none = random.choice([(start, end), (b"", end), (start, None), (b"", None)])
        reverse, limit = random.random() < 0.5, random.choice([1, 2, 10, 200])
        slow = await data_plane.scan(
            ScanRequest(table.id, start, end_or_none, reverse, limit, index=index, index_number=bool(index)),
            timeout=DEADLINE_S,
        )
        found = reads.first_page(
            start, end_or_none, reverse=reverse, limit=limit, index_name=index, index_number=int(bool(index))
        )
        assert found is not None
        assert found == (table, slow)


async def test_a_range_within_the_deciding_fields_asks_one_partition(data_plane: LocalData) -> None:
    table = await rows_made(data_plane)
    seen = SeenOffsets()
    reads = pages_of(data_plane, seen)
    with held(*all_replicas(data_plane, table)):
        key = flight_key("C1", 1)
        for partition in range(table.partitions):
            if partition != table.partition_of(key):
                seen(table)[partition] = Offset(1000)
        assert first_rows(reads) is None
        found = reads.first_page(key, key + b"\0", reverse=False, limit=1)
    assert found is not None
    assert (list(found.page.keys), list(found.page.applied)) == ([key], [table.partition_of(key)])


async def test_what_the_session_has_seen_is_waited_for_by_the_slow_path(data_plane: LocalData) -> None:
    table = await rows_made(data_plane, rows=5)
    seen = SeenOffsets()
    reads = pages_of(data_plane, seen)
    key = flight_key("C9", 9)
    replica = data_plane.node.replica(table.partition(table.partition_of(key)))
    with held(replica):
        place = await write(data_plane, table, table.partition_of(key), puts((key, flight("C9", 9))))
        found = first_rows(reads)
        assert found is not None
        assert key not in found.page.keys
        seen(table)[table.partition_of(key)] = place.base_offset
        assert first_rows(reads) is None
        assert first_rows(reads, index_name="by_delay") is None
    await replica.wait_applied(place.base_offset, timeout=DEADLINE_S)
    found = first_rows(reads)
    assert found is not None
    assert key in found.page.keys


async def test_what_a_page_shows_is_seen(data_plane: LocalData) -> None:
    table = await rows_made(data_plane)
    seen = SeenOffsets()
    found = first_rows(pages_of(data_plane, seen))
    assert found is not None
    shown = {Partition(number): offset for number, offset in enumerate(seen(table))}
    assert found.page.applied == shown
    assert NOTHING not in shown.values()


@pytest.mark.parametrize("failure", [LogDamaged("byte 77"), IndexDamaged("a page cannot be read")])
async def test_a_replica_that_has_stopped_does_not_answer(
    data_plane: LocalData, monkeypatch: pytest.MonkeyPatch, failure: LogDamaged
) -> None:
    table = await rows_made(data_plane)
    reads = pages_of(data_plane, SeenOffsets())
    monkeypatch.setattr(all_replicas(data_plane, table)[2], "failure", failure)
    assert first_rows(reads) is None


async def test_damage_is_named_by_the_slow_path(data_plane: LocalData, monkeypatch: pytest.MonkeyPatch) -> None:
    table = await rows_made(data_plane)
    reads = pages_of(data_plane, SeenOffsets())

    def fail(*_: object, **__: object) -> object:
        raise IndexDamaged("a page cannot be read")

    monkeypatch.setattr(all_replicas(data_plane, table)[1].index, "scan", fail)
    assert first_rows(reads) is None
    with pytest.raises(IndexDamaged):
        await data_plane.scan(ScanRequest(table.id), timeout=DEADLINE_S)


async def test_a_floor_holds_for_who_has_seen_nothing(data_plane: LocalData, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a predecessor of the replica may have shown is shown, or waited for."""
    table = await rows_made(data_plane, partitions=1)
    reads = pages_of(data_plane, SeenOffsets())
    assert first_rows(reads) is not None
    (replica,) = all_replicas(data_plane, table)
    monkeypatch.setattr(replica, "floor", Offset(replica.index.applied + 1))
    reads = pages_of(data_plane, SeenOffsets())
    assert first_rows(reads) is None


async def test_an_index_at_rest_is_opened_by_the_slow_path(data_plane: LocalData) -> None:
    table = await rows_made(data_plane, partitions=1)
    reads = pages_of(data_plane, SeenOffsets())
    (replica,) = all_replicas(data_plane, table)
    assert replica.index.rest()
    assert first_rows(reads) is None
    await data_plane.scan(ScanRequest(table.id), timeout=DEADLINE_S)
    assert first_rows(reads) is not None


async def test_another_index_of_that_name_is_refused_by_the_slow_path(data_plane: LocalData) -> None:
    await rows_made(data_plane)
    reads = pages_of(data_plane, SeenOffsets())
    for name, number in (("by_delay", 2), ("by_gate", 0)):
        assert reads.first_page(b"", None, reverse=False, limit=1, index_name=name, index_number=number) is None


async def test_threads_find_a_row_while_its_table_comes_and_goes(data_plane: LocalData) -> None:
    """Each page has the row of the one table that it names, and no index is closed under a reader."""
    seen = SeenOffsets()
    reads = DirectReads(data_plane, "rows", seen, seen.saw)
    stop = threading.Event()
    wrong: list[object] = []
    counts = [0, 0]
    numbers: dict[str, int] = {}

    def read(place: int) -> None:
        while not stop.is_set():
            try:
                found = first_rows(reads, index_name=("", "by_delay")[place])
            except Exception as error:
                wrong.append(error)
                raise
            if found is not None and found.page.keys:
                counts[place] += 1
                (value,) = found.page.values
                if value[5:] != flight("UA", numbers[found.table.id], "N1")[5:]:  # behind the number of its schema
                    wrong.append(found)

    threads = [threading.Thread(target=read, args=(place,)) for place in range(2)]
    for thread in threads:
        thread.start()
    try:
        for turn in range(12):
            table = await rows_made(data_plane, partitions=1 + turn % 3, rows=0)
            numbers[table.id] = turn
            before = list(counts)
            await put_row(data_plane, table, "UA", turn, 0.0)
            # It opens the files of partitions without rows.
            await data_plane.scan(ScanRequest(table.id), timeout=DEADLINE_S)
            async with within(DEADLINE_S):
                while any(now == then for now, then in zip(counts, before, strict=True)):
                    assert not wrong
                    await asyncio.sleep(0)
            await data_plane.drop_table("rows", timeout=DEADLINE_S)
    finally:
        stop.set()
        for thread in threads:
            await asyncio.to_thread(thread.join)
    assert not wrong
