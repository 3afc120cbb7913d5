"""Tables over topics that others own and write: both sides' writes in one order, and nothing taken away from them."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from kit.deadlines import wait_until
from kit.kafka.foreign import (
    DEADLINE_S,
    Record,
    data_plane_of,
    database_on,
    end_of,
    make_topic,
    producer,
    replicas_of,
    send,
    settled_digests,
    wait_level,
)

from log_tier.model.errors import InvalidRequest, TableExists, TableNotFound
from log_tier.model.identifiers import Offset
from log_tier.model.partitioner import partition_of

pytestmark = pytest.mark.kafka

KEYS = [b"k%d" % number for number in range(20)]


async def test_both_sides_write_in_one_order(kafka: str, tmp_path: Path) -> None:
    """Two databases and a foreign producer write the same keys at once; both databases end with the same."""
    topic = await asyncio.to_thread(make_topic, kafka, partitions=2)
    over = threading.Event()

    def write_as_others() -> int:
        sender, count = producer(kafka, linger_ms=0), 0
        while not over.is_set():
            key = KEYS[count % len(KEYS)]
            value = b"others %d" % count if count % 5 else None
            sender.produce(topic, value, key, partition=partition_of(key, 2, "murmur2"))
            count += 1
            if not count % 20:
                sender.flush(DEADLINE_S)
        assert sender.flush(DEADLINE_S) == 0
        return count

    async with database_on(kafka, tmp_path / "one") as one, database_on(kafka, tmp_path / "two") as two:
        tables = [await one.create_table("orders", over=topic), await two.create_table("others", over=topic)]
        others = asyncio.create_task(asyncio.to_thread(write_as_others))
        try:
            done = []
            for number in range(150):
                key = KEYS[number % len(KEYS)]
                writes = [table.put(key, b"%d by %d" % (number, at)) for at, table in enumerate(tables)]
                done += await asyncio.gather(*writes, tables[0].update(b"count", add=1))
        finally:
            over.set()
            count = await others
        assert count > 100
        ends = [(await asyncio.to_thread(end_of, kafka, topic, partition))[1] for partition in (0, 1)]
        assert sum(ends) == count + len(done), "every write of either side is there once"
        places = {(write.partition, write.offset) for write in done}
        assert len(places) == len(done)
        digests = await settled_digests([(one, tables[0]), (two, tables[1])], ends)
        assert digests[0] == digests[1]
        assert [await table.get(b"count") for table in tables] == [b"150", b"150"]
        assert [[replica.void for replica in await replicas_of(one, tables[0])]] == [[0, 0]]


async def test_dropping_the_table_leaves_the_topic(kafka: str, tmp_path: Path) -> None:
    topic = await asyncio.to_thread(make_topic, kafka)
    await asyncio.to_thread(send, producer(kafka), topic, [Record(key, b"v") for key in KEYS])
    async with database_on(kafka, tmp_path) as database:
        table = await database.create_table("orders", over=topic)
        await table.put(b"mine", b"1")
        await database.drop_table("orders")
        with pytest.raises(TableNotFound):
            await table.get(KEYS[0])
        assert await asyncio.to_thread(end_of, kafka, topic) == (0, len(KEYS) + 1)
        admin = AdminClient({"bootstrap.servers": kafka})
        described = admin.describe_topics(TopicCollection([topic]))[topic]
        assert len((await asyncio.wrap_future(described)).partitions) == 1
        again = await database.create_table("orders", over=topic)
        assert [key async for key, _ in again.scan()] == sorted([*KEYS, b"mine"])


async def test_it_begins_where_the_topic_does(kafka: str, tmp_path: Path) -> None:
    """What retention has removed before the table was made is not missed."""
    topic = await asyncio.to_thread(make_topic, kafka, segment_bytes=str(1 << 20), retention_bytes=str(1 << 20))
    sender = producer(kafka)
    first = await asyncio.to_thread(
        send, sender, topic, [Record(b"old%d" % number, b"v" * 20_000) for number in range(200)]
    )
    assert first == list(range(200))
    await asyncio.to_thread(wait_until, lambda: end_of(kafka, topic)[0] > 50)
    low, high = await asyncio.to_thread(end_of, kafka, topic)
    async with database_on(kafka, tmp_path / "one") as one, database_on(kafka, tmp_path / "two") as two:
        table = await one.create_table("orders", over=topic)
        await wait_level(one, table, [high])
        entry = data_plane_of(one).catalog.map.table((await table.describe()).table.id)
        (start,) = entry.starts
        assert start >= low
        held = [key async for key, _ in table.scan()]
        assert held == sorted(b"old%d" % number for number in range(start, 200))
        other = await two.create_table("orders", over=topic)
        await asyncio.to_thread(send, sender, topic, [Record(b"new", b"v")])
        await wait_level(two, other, [high + 1])
        assert await other.get(b"new") == b"v"


async def test_two_tables_over_one_topic(kafka: str, tmp_path: Path) -> None:
    """A topic's id is a table's, so within one database it has one name; another database has its own."""
    topic = await asyncio.to_thread(make_topic, kafka)
    async with database_on(kafka, tmp_path) as database:
        table = await database.create_table("orders", over=topic)
        with pytest.raises(TableExists, match="table 'orders' lies over topic"):
            await database.create_table("again", over=topic)
        assert [each.name for each in await database.tables()] == ["orders"]
        await table.put(b"k", b"v")
        assert await table.get(b"k") == b"v"


async def test_a_compacted_topic_is_served(kafka: str, tmp_path: Path) -> None:
    """Kafka's cleaner has been through it: what it left is right, its gaps are stepped over."""
    topic = await asyncio.to_thread(
        make_topic,
        kafka,
        cleanup_policy="compact",
        segment_ms="200",
        min_cleanable_dirty_ratio="0.001",
        delete_retention_ms="100",
    )
    sender = producer(kafka)
    for turn in range(20):
        await asyncio.to_thread(send, sender, topic, [Record(key, b"%d " % turn + b"v" * 200) for key in KEYS])
    await asyncio.to_thread(send, sender, topic, [Record(KEYS[0], None), Record(KEYS[1], None)])
    written = 20 * len(KEYS) + 2
    rolls = 0

    def cleaned() -> bool:
        """The cleaner leaves the newest segment alone, and a segment ends when something is written."""
        nonlocal rolls
        send(sender, topic, [Record(b"roll", b"%d" % rolls)])
        rolls += 1
        return records_in(kafka, topic) < written // 2

    await asyncio.to_thread(wait_until, cleaned)
    low, high = await asyncio.to_thread(end_of, kafka, topic)
    assert high == written + rolls
    assert low == 0
    async with database_on(kafka, tmp_path) as database:
        table = await database.create_table("orders", over=topic)
        await wait_level(database, table, [high])
        (replica,) = await replicas_of(database, table)
        assert (replica.applied, replica.state, replica.void) == (high - 1, "ready", 0)
        held = {key: value async for key, value in table.scan()}
        assert held == dict.fromkeys(KEYS[2:], b"19 " + b"v" * 200) | {b"roll": b"%d" % (rolls - 1)}
        done = await table.put(b"mine", b"1")
        assert done.offset == high
        assert await table.get(b"mine") == b"1"
        await table.delete(KEYS[5])
        assert await table.get(KEYS[5]) is None
        for refused in (
            table.put(b"mine", b"2", if_absent=True),
            table.put(b"mine", b"2", if_version=Offset(5)),
            table.delete(b"mine", if_present=True),
            table.update(b"count", add=1),
            table.put(b"mine", b"2", ttl=60),
        ):
            with pytest.raises(InvalidRequest, match=f"Kafka compacts the topic {topic}"):
                await refused
        assert await table.get(b"mine") == b"1"
        assert (await asyncio.to_thread(end_of, kafka, topic))[1] == high + 2, "what was refused was not written"


def records_in(kafka: str, topic: str) -> int:
    """How many records are left in partition 0."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "counting", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    count = 0
    try:
        while True:
            message = consumer.poll(DEADLINE_S)
            assert message is not None, "the broker answers"
            if message.error() is not None:
                return count
            count += 1
    finally:
        consumer.close()
