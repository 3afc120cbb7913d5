"""Tables over topics of others: made as the topic is, never taken away from, and made again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kit.cluster.one_machine import DEADLINE_S, one_machine, put_all, puts, write
from kit.log.others_log import OthersLog

from log_tier.embedded import EmbeddedLog
from log_tier.embedded.storage.settings import EngineSettings
from log_tier.model.errors import InvalidName, InvalidRequest, LimitExceeded, TableExists, TableNotFound
from log_tier.model.identifiers import NOTHING, Offset, Partition, PartitionId, TableId
from log_tier.model.partitioner import partition_of
from log_tier.model.table_ref import TableRef
from log_tier.rows.table_spec import TableSpec
from router.data.catalog_tables import CatalogTables
from router.data.direct_reads import DirectReads
from router.data.local_data import LocalData
from router.data.requests import ReadPart, ReadResult, ScanRequest
from router.data.seam import NOT_FRESH

ZERO, ONE = Partition(0), Partition(1)


@pytest.fixture
async def log(tmp_path: Path) -> OthersLog:
    settings = EngineSettings(segment_bytes=1024, index_every_bytes=200)
    return OthersLog(await EmbeddedLog.open(tmp_path / "log", settings=settings))


@pytest.fixture
async def data_plane(tmp_path: Path, log: OthersLog) -> AsyncIterator[LocalData]:
    async with one_machine(tmp_path, log=log) as opened:
        yield opened


async def orders(log: OthersLog, *, records: int = 60, lost: int = 40) -> tuple[TableId, Offset]:
    """A topic of others with records in its first partition, the first of them lost; and where it begins."""
    topic = await log.make_topic_of_others("orders-v1", partitions=2)
    for number in range(records):
        await log.append(topic.partition(ZERO), puts((b"old%d" % number, b"v" * 40)))
    return topic.id, await log.lose("orders-v1", 0, lost)


async def held(data_plane: LocalData, table: TableRef) -> dict[bytes, bytes]:
    request = ScanRequest(table.id, limit=1000, strong=True)
    page = await data_plane.scan(request, timeout=DEADLINE_S)
    return dict(zip(page.keys, page.values, strict=True))


async def test_it_is_as_the_topic_is(data_plane: LocalData, log: OthersLog) -> None:
    topic_id, earliest = await orders(log)
    assert 0 < earliest <= 40
    table = await data_plane.create_table(TableSpec("orders", partitions=0, over="orders-v1"), timeout=DEADLINE_S)
    assert table == TableRef(topic_id, "orders", 2, "murmur2", "orders-v1")
    entry = data_plane.catalog.map.table(topic_id)
    assert (entry.adopted, entry.over, entry.starts) == (True, "orders-v1", (earliest, 0))
    assert await data_plane.find_table("orders", timeout=DEADLINE_S) == table
    assert await data_plane.list_tables(timeout=DEADLINE_S) == [table]
    assert (await data_plane.describe_table("orders", timeout=DEADLINE_S)).table == table
    assert await held(data_plane, table) == {b"old%d" % number: b"v" * 40 for number in range(earliest, 60)}


async def test_what_others_write_is_read_and_what_is_written_they_see(data_plane: LocalData, log: OthersLog) -> None:
    topic_id, _ = await orders(log, records=0)
    table = await data_plane.create_table(
        TableSpec("orders", partitions=2, over="orders-v1", partitioner="slot"), timeout=DEADLINE_S
    )
    assert table.partitioner == "slot"
    await log.append(PartitionId(topic_id, ONE), puts((b"theirs", b"1")))
    await write(data_plane, table, 0, puts((b"ours", b"2")), outcomes=True)
    assert await held(data_plane, table) == {b"theirs": b"1", b"ours": b"2"}
    assert [bounds.latest for bounds in await log.all_bounds(topic_id)] == [0, 0]


async def test_an_empty_partition_that_begins_late(data_plane: LocalData, log: OthersLog) -> None:
    """Nothing applied yet and nothing to apply: it is ready, with everything before its start behind it."""
    _, earliest = await orders(log)
    table = await data_plane.create_table(TableSpec("orders", partitions=0, over="orders-v1"), timeout=DEADLINE_S)
    first, second = (
        data_plane.node.replica(PartitionId(table.id, ZERO)),
        data_plane.node.replica(PartitionId(table.id, ONE)),
    )
    await first.wait_ready()
    await second.wait_ready()
    assert (first.index.applied, second.index.applied) == (59, NOTHING)
    assert first.index.count() == 60 - earliest
    written = await write(data_plane, table, 0, puts((b"new", b"1")), outcomes=True)
    assert written.base_offset == 60
    (answer,) = await data_plane.read(
        [ReadPart(PartitionId(table.id, ZERO), [b"new"], written.base_offset)], timeout=DEADLINE_S
    )
    assert isinstance(answer, ReadResult)
    assert (answer.values, answer.versions, answer.applied) == ([b"1"], [60], 60)


async def test_it_cannot_be_otherwise(data_plane: LocalData, log: OthersLog) -> None:
    await orders(log, records=0)
    with pytest.raises(InvalidRequest, match="topic orders-v1 has 2 partitions, and 8 are asked for table orders"):
        await data_plane.create_table(TableSpec("orders", partitions=8, over="orders-v1"), timeout=DEADLINE_S)
    with pytest.raises(TableNotFound, match="no topic 'orders-v2'"):
        await data_plane.create_table(TableSpec("orders", partitions=0, over="orders-v2"), timeout=DEADLINE_S)
    with pytest.raises(InvalidName, match="cannot be a topic of others"):
        await data_plane.create_table(TableSpec("orders", partitions=0, over="a b"), timeout=DEADLINE_S)
    with pytest.raises(
        InvalidRequest, match="partitioner is slot, murmur2, or fields:N with N from 1 to 32, not 'crc32'"
    ):
        await data_plane.create_table(TableSpec("orders", 0, over="orders-v1", partitioner="crc32"), timeout=DEADLINE_S)
    with pytest.raises(LimitExceeded, match="1 to 1024 partitions, not 0"):
        await data_plane.create_table(TableSpec("orders", partitions=0), timeout=DEADLINE_S)
    assert await data_plane.list_tables(timeout=DEADLINE_S) == []
    await data_plane.create_table(TableSpec("orders", partitions=0, over="orders-v1"), timeout=DEADLINE_S)
    with pytest.raises(TableExists, match="table 'orders' lies over topic orders-v1 already"):
        await data_plane.create_table(TableSpec("more", partitions=0, over="orders-v1"), timeout=DEADLINE_S)
    with pytest.raises(TableExists, match="there is a table 'orders' already"):
        await data_plane.create_table(TableSpec("orders", partitions=4), timeout=DEADLINE_S)


async def test_dropping_it_keeps_the_topic(data_plane: LocalData, log: OthersLog) -> None:
    topic_id, earliest = await orders(log)
    table = await data_plane.create_table(TableSpec("orders", partitions=0, over="orders-v1"), timeout=DEADLINE_S)
    before = await held(data_plane, table)
    await data_plane.drop_table("orders", timeout=DEADLINE_S)
    assert log.removals == []
    assert (await log.bounds(PartitionId(topic_id, ZERO)))[:2] == (earliest, Offset(59))
    with pytest.raises(TableNotFound):
        await data_plane.scan(ScanRequest(table.id), timeout=DEADLINE_S)
    assert not data_plane.node.replica_folder(PartitionId(table.id, ZERO)).exists()
    again = await data_plane.create_table(TableSpec("again", partitions=0, over="orders-v1"), timeout=DEADLINE_S)
    assert again.id == table.id
    assert await held(data_plane, again) == before
    await data_plane.drop_table("again", timeout=DEADLINE_S)
    later = await log.lose("orders-v1", 0, 55)
    assert later > earliest
    once_more = await data_plane.create_table(TableSpec("orders", partitions=0, over="orders-v1"), timeout=DEADLINE_S)
    assert data_plane.catalog.map.table(topic_id).starts == (later, 0)
    assert await held(data_plane, once_more) == {b"old%d" % number: b"v" * 40 for number in range(later, 60)}


async def test_a_table_of_its_own_goes_with_its_topic(data_plane: LocalData, log: OthersLog) -> None:
    table = await data_plane.create_table(TableSpec("ships", partitions=1), timeout=DEADLINE_S)
    await data_plane.drop_table("ships", timeout=DEADLINE_S)
    assert table.id not in {topic.id for topic in await log.topics()}


async def test_a_table_over_anothers_topic_is_not_dropped(data_plane: LocalData, log: OthersLog) -> None:
    """`topics` does not list it, which of another table means that its log is gone."""
    await orders(log, records=0)
    await log.make_topic_of_others("payments", partitions=1)
    table = await data_plane.create_table(TableSpec("orders", partitions=0, over="orders-v1"), timeout=DEADLINE_S)
    await CatalogTables(data_plane.log, data_plane.catalog).reconcile()
    assert await data_plane.list_tables(timeout=DEADLINE_S) == [table]


async def test_an_embedded_log_has_none(tmp_path: Path) -> None:
    async with one_machine(tmp_path) as data_plane:
        with pytest.raises(InvalidRequest, match="an embedded log has no topics of others"):
            await data_plane.create_table(TableSpec("orders", partitions=0, over="orders-v1"), timeout=DEADLINE_S)
        assert await data_plane.list_tables(timeout=DEADLINE_S) == []


@pytest.mark.parametrize("partitioner", ["slot", "murmur2"])
async def test_direct_reads_find_each_key_where_it_was_put(data_plane: LocalData, partitioner: str) -> None:
    table = await data_plane.create_table(
        TableSpec("flights", partitions=5, partitioner=partitioner), timeout=DEADLINE_S
    )
    pairs = {b"%d{k%d}" % (number, number % 7): b"v%d" % number for number in range(100)}
    await put_all(data_plane, table, pairs)
    assert await held(data_plane, table) == pairs
    reads = DirectReads(data_plane, "flights", lambda ref: [NOTHING] * ref.partitions, lambda *_: None)
    assert reads.get(b"k") is NOT_FRESH, "the first one looks the table up"
    assert {key: reads.get(key) for key in pairs} == pairs
    for key in (b"", b"x" * 512, b"x" * 2000, "text", None, 5):
        assert reads.get(key) is NOT_FRESH  # type: ignore[arg-type]
    wrongly = [key for key in pairs if partition_of(key, 5) != partition_of(key, 5, "murmur2")]
    assert len(wrongly) > 50, "these keys do not distinguish the two partitioners"
