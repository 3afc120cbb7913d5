"""A consumer that several readers share, without a broker: an error ends those whom it concerns, and them loudly."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from kit.deadlines import until

from log_tier.kafka.cluster.cluster_access import ClusterAccess
from log_tier.kafka.cluster.kafka_address import KafkaAddress
from log_tier.kafka.reading.fetcher import Fetcher
from log_tier.kafka.reading.partition_reader import PartitionReader, ReadTrouble
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import Offset, Partition

ADDRESS = KafkaAddress.parse("kafka://nowhere:1/test")
ZERO, ONE = Partition(0), Partition(1)


def message(partition: Partition, offset: int, *, key: bytes | None = b"k") -> Any:
    def broken_key() -> bytes:
        raise RuntimeError("this record cannot be looked at")

    return SimpleNamespace(
        topic=lambda: "orders",
        partition=lambda: partition,
        offset=lambda: offset,
        error=lambda: None,
        key=(lambda: key) if key is not None else broken_key,
        value=lambda: b"v",
        headers=lambda: None,
        timestamp=lambda: (1, 7),
    )


class ScriptedConsumer:
    """A consumer of librdkafka's that gives what a test queues; an exception in the queue is raised."""

    def __init__(self) -> None:
        self.queue: deque[Any] = deque()
        self.assigned: list[tuple[str, int, int]] = []
        self.refused: Exception | None = None
        self.closed = False

    def poll(self, seconds: float) -> Any:
        if not self.queue:
            return None
        found = self.queue.popleft()
        if isinstance(found, Exception):
            raise found
        return found

    def consume(self, count: int, seconds: float) -> list[Any]:
        return []

    def list_topics(self, topic: str, timeout: float) -> None:
        """The topic is there."""

    def incremental_assign(self, places: list[Any]) -> None:
        if self.refused is not None:
            raise self.refused
        self.assigned += [(place.topic, place.partition, place.offset) for place in places]

    def incremental_unassign(self, places: list[Any]) -> None:
        self.assigned = [each for each in self.assigned if each[1] not in {place.partition for place in places}]

    def close(self) -> None:
        self.closed = True


class Readers:
    """A fetcher over scripted consumers."""

    def __init__(self) -> None:
        self.consumers: list[ScriptedConsumer] = []
        self.fetcher = Fetcher(ADDRESS, ClusterAccess(), self._connect)

    def _connect(self, address: KafkaAddress, access: ClusterAccess) -> ScriptedConsumer:
        self.consumers.append(ScriptedConsumer())
        return self.consumers[-1]

    async def start(self, partition: Partition, *, follow: bool = True) -> PartitionReader:
        count = sum(len(consumer.assigned) for consumer in self.consumers)
        reader = self.fetcher.start("orders", partition, Offset(0), follow=follow)
        await until(lambda: sum(len(consumer.assigned) for consumer in self.consumers) == count + 1)
        return reader


@pytest.fixture
async def readers() -> AsyncIterator[Readers]:
    opened = Readers()
    yield opened
    await opened.fetcher.close()


async def test_a_bug_in_one_readers_feed_ends_that_reader_alone(readers: Readers) -> None:
    broken, healthy = await readers.start(ZERO), await readers.start(ONE)
    (consumer,) = readers.consumers
    consumer.queue += [message(ZERO, 0, key=None), message(ONE, 0), message(ZERO, 1, key=None), message(ONE, 1)]
    with pytest.raises(DuramenError, match=r"reading orders/0 ended by a bug: RuntimeError\('this record"):
        await broken.take(1000)
    await healthy.take(1)
    await healthy.take(1)
    assert healthy.given == 2
    readers.fetcher.stop(broken)
    await until(lambda: [each[1] for each in consumer.assigned] == [ONE])
    again = await readers.start(ZERO)
    consumer.queue.append(message(ZERO, 0))
    await again.take(1000)


async def test_a_bug_while_one_reader_starts_ends_that_reader_alone(readers: Readers) -> None:
    healthy = await readers.start(ZERO)
    (consumer,) = readers.consumers
    consumer.refused = ValueError("no such partition")
    broken = readers.fetcher.start("orders", ONE, Offset(0), follow=True)
    with pytest.raises(DuramenError, match=r"reading orders/1 ended by a bug: ValueError"):
        await broken.take(1000)
    consumer.queue.append(message(ZERO, 0))
    await healthy.take(1000)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RuntimeError("the consumer is closed"), DuramenError),
        (KafkaException(KafkaError(KafkaError._FATAL)), ReadTrouble),
    ],
    ids=["a bug", "an error of Kafka's"],
)
async def test_an_error_of_the_thread_ends_all_its_readers_and_the_next_one_gets_a_new_thread(
    readers: Readers, error: Exception, expected: type[Exception]
) -> None:
    both = [await readers.start(ZERO), await readers.start(ONE)]
    (consumer,) = readers.consumers
    consumer.queue.append(error)
    for reader in both:
        with pytest.raises(expected):
            await reader.take(1000)
    await until(lambda: consumer.closed)
    next_one = await readers.start(ZERO)
    assert len(readers.consumers) == 2
    readers.consumers[1].queue.append(message(ZERO, 0))
    await next_one.take(1000)
    for reader in both:
        readers.fetcher.stop(reader)


async def test_a_consumer_that_ended_is_not_kept_for_the_next_reader(readers: Readers) -> None:
    first = await readers.start(ZERO, follow=False)
    readers.consumers[0].queue.append(RuntimeError("the consumer is closed"))
    with pytest.raises(DuramenError):
        await first.take(1000)
    readers.fetcher.stop(first)
    second = await readers.start(ZERO, follow=False)
    readers.consumers[1].queue.append(message(ZERO, 0))
    await second.take(1000)
