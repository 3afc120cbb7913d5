"""A cluster that loses acknowledged records: noticed by writers and readers, refused, never served in silence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest
from kit.deadlines import patience_s, wait_until, within
from kit.kafka.kafka_brokers import StartBrokers
from kit.log.sample_batches import keys_of, plain_batch, read_all

from log_tier.kafka.engine import KafkaLog
from log_tier.model.errors import DuramenError, LogDamaged, Unavailable, WriteUnknown
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId
from log_tier.model.log import ReadChunk

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

ZERO = Partition(0)
DEADLINE_S = 120.0

# A leader alone may acknowledge, and a replica that missed it may lead: what nobody should set.
WEAK = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}


async def test_an_unclean_election_is_noticed(start_brokers: StartBrokers) -> None:
    brokers = await asyncio.to_thread(start_brokers, 3)
    url = f"kafka://{brokers.bootstrap}/loss?replication=2&min_insync=1"
    async with await KafkaLog.open(url) as log:
        topic = await log.create_topic("flights", partitions=1)
        name = log.address.topic_name("flights")
        await asyncio.to_thread(_make_unclean, brokers.bootstrap, name)
        for n in range(3):
            await log.append(topic.partition(ZERO), plain_batch(f"both{n}"))
        leader = await asyncio.to_thread(brokers.leader_of, name, 0)
        assert leader is not None
        (follower,) = await asyncio.to_thread(_followers, brokers.bootstrap, name, leader)
        # Until only the leader is in sync, an append needs the follower too; what it cannot take back stays.
        await asyncio.to_thread(brokers.kill, follower)
        chunks = log.read(topic.partition(ZERO), Offset(0), follow=True)
        async with aclosing(chunks):
            seen = await _append_alone(log, topic.id, chunks)
            await asyncio.to_thread(brokers.kill, leader)
            await asyncio.to_thread(brokers.restart, follower)
            await asyncio.to_thread(wait_until, lambda: brokers.leader_of(name, 0) == follower, seconds=DEADLINE_S)
            error = await asyncio.wait_for(_refused(log, topic.id), patience_s(DEADLINE_S))
            assert isinstance(error, LogDamaged)
            assert "lost records" in error.message
            with pytest.raises(LogDamaged, match="lost"):
                await asyncio.wait_for(_drain(chunks), patience_s(DEADLINE_S))
        assert seen > 3
        with pytest.raises(LogDamaged):
            await log.append(topic.partition(ZERO), plain_batch("again"))
        async with await KafkaLog.open(url) as fresh:
            left = keys_of(await read_all(fresh, topic.id))
            assert [left[n] for n in range(3)] == [b"both0", b"both1", b"both2"]
            assert not any(key.startswith(b"alone") for key in left.values()), "they are gone"


def _make_unclean(bootstrap: str, name: str) -> None:
    from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    entries = [ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in WEAK.items()]
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.incremental_alter_configs([resource])[resource].result()


def _followers(bootstrap: str, name: str, leader: int) -> list[int]:
    from confluent_kafka import TopicCollection
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap})
    description = admin.describe_topics(TopicCollection([name]))[name].result()
    return [node.id for node in description.partitions[0].replicas if node.id != leader]


async def _append_alone(log: KafkaLog, topic: TableId, chunks: AsyncGenerator[ReadChunk, None]) -> int:
    """Twenty appends that the leader alone acknowledges; returns how far the reader has come."""
    done = 0
    async with within(DEADLINE_S):
        while done < 20:
            try:
                place = await log.append(PartitionId(topic, ZERO), plain_batch(f"alone{done}"))
                done += 1
            except (Unavailable, WriteUnknown):
                continue
        while (chunk := await anext(chunks)).latest < place.base_offset:
            pass
    return chunk.latest


async def _refused(log: KafkaLog, topic: TableId) -> DuramenError:
    while True:
        try:
            await log.append(PartitionId(topic, ZERO), plain_batch("after"))
        except (Unavailable, WriteUnknown):
            continue
        except DuramenError as error:
            return error


async def _drain(chunks: AsyncGenerator[ReadChunk, None]) -> None:
    async for _ in chunks:
        pass
