"""What other people's software does to topics: makes them, writes into them, asks where they end."""

from __future__ import annotations

import logging
import uuid
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import duramen.aio
from duramen.client.database import Database
from duramen.client.table import Table
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId
from log_tier.model.tokens import Token
from router.data.local_data import LocalData
from serving_tier.replica.replica import Replica

__all__ = [
    "DEADLINE_S",
    "Record",
    "data_plane_of",
    "database_on",
    "end_of",
    "make_topic",
    "producer",
    "replicas_of",
    "send",
    "settled_digests",
    "token",
    "wait_level",
]

DEADLINE_S = 60.0

# librdkafka's own words are no part of a test's output.
_quiet = logging.getLogger("foreign")
_quiet.setLevel(logging.CRITICAL)


class Record(NamedTuple):
    """What a producer is given."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]] | None = None
    timestamp_ms: int = 0
    """0: now."""


def make_topic(bootstrap: str, *, partitions: int = 1, name: str = "", **settings: str) -> str:
    """A topic that Duramen knows nothing of; a setting's underscores are dots. Returns its name."""
    name = name or f"others-{uuid.uuid4().hex[:10]}"
    admin = AdminClient({"bootstrap.servers": bootstrap}, logger=_quiet)
    config = {setting.replace("_", "."): value for setting, value in settings.items()}
    admin.create_topics([NewTopic(name, num_partitions=partitions, replication_factor=1, config=config)])[name].result()
    return name


def producer(bootstrap: str, **settings: Any) -> Producer:
    """A plain Kafka producer; a setting's underscores are dots."""
    config = {"linger.ms": 5, **{name.replace("_", "."): value for name, value in settings.items()}}
    return Producer({"bootstrap.servers": bootstrap, **config}, logger=_quiet)


def send(sender: Producer, topic: str, records: Iterable[Record], *, partition: int = 0) -> list[int]:
    """Write records to a partition and wait until they are there; their offsets. None may be refused."""
    offsets: list[int] = []
    refused: list[Any] = []

    def delivered(error: Any, message: Message) -> None:
        if error is not None:
            refused.append(error)
        else:
            offset = message.offset()
            assert offset is not None
            offsets.append(offset)

    count = 0
    for record in records:
        sender.produce(
            topic,
            record.value,
            record.key,
            partition=partition,
            headers=record.headers,
            timestamp=record.timestamp_ms,
            on_delivery=delivered,
        )
        count += 1
        if count % 10_000 == 0:
            sender.flush(DEADLINE_S)
    assert sender.flush(DEADLINE_S) == 0
    assert not refused, refused[0]
    assert len(offsets) == count
    return offsets


def end_of(bootstrap: str, topic: str, partition: int = 0) -> tuple[int, int]:
    """Where a partition begins and which offset comes next, as the broker says."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "looking"}, logger=_quiet)
    try:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=DEADLINE_S)
        return low, high
    finally:
        consumer.close()


@asynccontextmanager
async def database_on(kafka: str, folder: Path, *, namespace: str = "") -> AsyncIterator[Database]:
    """A database in this process, with a namespace of its own: two of them over one topic are two nodes."""
    url = f"kafka://{kafka}/{namespace or 't' + uuid.uuid4().hex[:12]}"
    async with await duramen.aio.open(folder, log=url, timeout=DEADLINE_S) as database:
        yield database


def data_plane_of(database: Database) -> LocalData:
    """What is behind a database in this process."""
    assert isinstance(database.connection, LocalData)
    return database.connection


async def replicas_of(database: Database, table: Table) -> list[Replica]:
    """A table's replicas in this process, by partition."""
    ref = (await table.describe()).table
    node = data_plane_of(database).node
    return [node.replica(PartitionId(ref.id, Partition(number))) for number in range(ref.partitions)]


async def wait_level(database: Database, table: Table, ends: Iterable[int]) -> None:
    """Return when each partition has applied everything below the offsets in `ends`."""
    for replica, end in zip(await replicas_of(database, table), ends, strict=True):
        await replica.wait_applied(Offset(end - 1), timeout=DEADLINE_S)


async def settled_digests(databases: Iterable[tuple[Database, Table]], ends: list[int]) -> list[list[str]]:
    """The digests of every database's replicas, when all have applied what is below `ends`."""
    found = []
    for database, table in databases:
        await wait_level(database, table, ends)
        found.append([replica.index.digest() for replica in await replicas_of(database, table)])
    return found


def token(table_id: TableId, partition: int, offset: int) -> Token:
    """What a foreign producer hands on so that its reader sees its write."""
    return Token.of(table_id, Partition(partition), Offset(offset))
