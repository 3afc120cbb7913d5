"""Kafka without Duramen: one real broker of this machine, and confluent-kafka used as its documentation says.

Both sides of a Kafka workload use a broker of the same kind, started for the run: Apache Kafka's own, one process,
replication 1, its files on the disk that is measured, a heap of 384 MiB. It acknowledges what is in its page cache,
unless a workload asks for a flush of every message. The bare clients have our engine's settings (`acks=all`,
idempotence, no Nagle); what our engine sets differently is how long it lingers, because it sends in rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench.workload import Needs
from deploy.kafka.brokers import Brokers, missing

__all__ = ["KAFKA_NEEDS", "BareProducer", "bare_consumer", "one_broker", "versions"]

KAFKA_NEEDS: Final = Needs(("confluent_kafka",), install="extra: duramen[kafka]", here=missing)

_FULL_POLL_S: Final = 0.01
"""librdkafka's queue is full (100,000 records): let some of it be delivered."""

_DELIVERY_S_MAX: Final = 120.0


@contextmanager
def one_broker(folder: Path, *, settings: Mapping[str, str] | None = None) -> Iterator[str]:
    """The host:port of a broker that runs until the block ends; nobody reads its files again."""
    brokers = Brokers(1, folder / "kafka", settings=settings)
    try:
        brokers.start()
        brokers.wait_ready()
        yield brokers.bootstrap
    finally:
        brokers.stop(grace_s=0)


def versions() -> str:
    """What the bare sides run on."""
    import confluent_kafka

    return f"confluent-kafka {confluent_kafka.version()}, librdkafka {confluent_kafka.libversion()[0]}"


class BareProducer:
    """A producer whose every record is acknowledged, or `deliver` raises."""

    def __init__(self, bootstrap: str, *, linger_ms: int) -> None:
        from confluent_kafka import Producer

        from log_tier.kafka.cluster.kafka_address import KafkaAddress

        ours = {"acks": "all", "enable.idempotence": True, "linger.ms": linger_ms}
        self.producer = Producer(KafkaAddress(bootstrap).client(ours))
        self._failures: list[Any] = []
        self._delivered = 0

    def send(
        self,
        topic: str,
        partition: int,
        records: Sequence[tuple[bytes | None, bytes | None, bytes | None]],
        on_delivery: Callable[[Any, Any], None] | None,
    ) -> None:
        """Hand over (key, value, header or None) records; `on_delivery` is called for each of them."""
        produce = self.producer.produce
        for key, value, header in records:
            headers = None if header is None else [("duramen", header)]
            while True:
                try:
                    produce(topic, value, key, partition, on_delivery, None, 0, headers)
                    break
                except BufferError:
                    self.producer.poll(_FULL_POLL_S)
        self.producer.poll(0)

    def count(self, error: Any, _message: Any) -> None:
        """A delivery callback, as every program needs that must know of failures."""
        if error is not None:
            self._failures.append(error)
        self._delivered += 1

    def deliver(self, *, counted: int | None = None) -> None:
        """Return when everything is acknowledged. `counted`: so many calls of `count` since the last time."""
        left = self.producer.flush(_DELIVERY_S_MAX)
        if left or self._failures or (counted is not None and self._delivered != counted):
            raise AssertionError(f"{left} records are left, {self._delivered} were delivered, {self._failures[:1]}")
        self._delivered = 0


def bare_consumer(bootstrap: str, topic: str, partition: int, offset: int) -> Any:
    """A consumer of one partition from `offset` on. It checks checksums, as ours does; else librdkafka's defaults."""
    from confluent_kafka import Consumer, TopicPartition

    from log_tier.kafka.cluster.kafka_address import KafkaAddress

    consumer = Consumer(
        KafkaAddress(bootstrap).client(
            {
                "group.id": "bench",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "check.crcs": True,
            }
        )
    )
    consumer.assign([TopicPartition(topic, partition, offset)])
    return consumer
