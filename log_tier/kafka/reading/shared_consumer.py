"""A shared consumer: one Kafka consumer and its thread, for readers of different partitions."""

from __future__ import annotations

import logging
import threading
from collections import deque
from contextlib import suppress
from itertools import groupby
from typing import Any, Final, Literal, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from log_tier.kafka.cluster.client_log_filter import CLIENT_LOG_FILTER
from log_tier.kafka.cluster.kafka_address import KafkaAddress
from log_tier.kafka.reading.partition_reader import PartitionReader, ReadTrouble
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import Offset

__all__ = ["SharedConsumer"]

_logger = logging.getLogger(__name__)
_logger.addFilter(CLIENT_LOG_FILTER)

# Messages per call: some 10 ms of work between two looks at the orders.
_MESSAGES: Final = 10_000

# How long a consumer that reads waits for a message before it looks at its orders; an idle one is woken by them.
_POLL_S: Final = 0.02

# A broker answers what a topic is within a millisecond; one that is away must not hold up the other partitions.
_LEARN_S: Final = 0.2

_Order = Literal["start", "stop", "resume"]

_SETTINGS: Final[dict[str, object]] = {
    "group.id": "duramen",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "check.crcs": True,
}

_DEFAULTS: Final[dict[str, object]] = {
    # A partition that joins a consumer waits at most this long for the fetch that is under way.
    "fetch.wait.max.ms": 50,
    "fetch.error.backoff.ms": 50,
    # librdkafka's own queue: full after some 10,000 records, and looked at again soon.
    "queued.max.messages.kbytes": 32 << 10,
    "fetch.queue.backoff.ms": 5,
}


class SharedConsumer:
    """A consumer, its thread, and the readers that share it.

    librdkafka would let other threads assign partitions; its Python binding waits for the answer without releasing the
    interpreter lock, which the polling thread may need to give it. So the consumer's thread does everything itself.
    """

    def __init__(self, address: KafkaAddress) -> None:
        self.taken: set[tuple[str, int]] = set()
        """The partitions that are read here, as the fetcher sees it."""
        self._readers: dict[tuple[str, int], PartitionReader] = {}
        """The readers by partition, as the consumer's thread sees it."""
        self._consumer: Any = Consumer(
            address.client({**_SETTINGS, "error_cb": _note}, defaults=_DEFAULTS), logger=_logger
        )
        """None after the thread's end. That frees librdkafka's threads and its thread-local key, of some 1,000."""
        self._known: set[str] = set()
        """The topics that the consumer has heard of."""
        self._changed = threading.Condition()
        self._orders: deque[tuple[_Order, PartitionReader]] = deque()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="duramen-kafka-consumer", daemon=True)

    @classmethod
    def open(cls, address: KafkaAddress) -> Self:
        """A shared consumer whose thread runs; `close()` ends it."""
        shared = cls(address)
        shared._thread.start()
        return shared

    def start(self, reader: PartitionReader) -> None:
        """Fetch for a reader, from its position on. Returns at once, as all orders do."""
        self.taken.add((reader.topic, reader.partition))
        self._order("start", reader)

    def stop(self, reader: PartitionReader) -> None:
        """Fetch no more for a reader."""
        self.taken.remove((reader.topic, reader.partition))
        self._order("stop", reader)

    def resume(self, reader: PartitionReader) -> None:
        """Fetch again for a reader that was paused."""
        self._order("resume", reader)

    def close(self) -> None:
        """Ask the thread to end, and return at once; `join` waits for its end."""
        with self._changed:
            self._closing = True
            self._changed.notify()

    def join(self) -> None:
        """Wait for the thread's end."""
        self._thread.join()

    def _order(self, order: _Order, reader: PartitionReader) -> None:
        with self._changed:
            self._orders.append((order, reader))
            self._changed.notify()

    # --- the consumer's thread

    def _run(self) -> None:
        consumer = self._consumer
        while True:
            with self._changed:
                while not (self._readers or self._orders or self._closing):
                    self._changed.wait()
                orders = list(self._orders)
                self._orders.clear()
                if self._closing:
                    break
            for order, reader in orders:
                self._carry_out(order, reader)
            first = consumer.poll(_POLL_S)
            if first is None:
                continue
            messages = [first, *consumer.consume(_MESSAGES, 0)]
            for place, run in groupby(messages, _place_of):
                found = self._readers.get(place)
                if found is not None:  # else it has just ended
                    self._feed_safely(found, list(run))
        consumer.close()
        self._consumer = None

    def _carry_out(self, order: _Order, reader: PartitionReader) -> None:
        place = (reader.topic, reader.partition)
        try:
            if order == "start":
                self._readers[place] = reader
                self._learn(reader.topic)
                self._consumer.incremental_assign([TopicPartition(*place, reader.intake.position)])
            elif self._readers.get(place) is reader:
                if order == "stop":
                    del self._readers[place]
                    self._consumer.incremental_unassign([TopicPartition(*place)])
                else:
                    self._consumer.resume([TopicPartition(*place)])
        except KafkaException as error:
            reader.fail(ReadTrouble(error.args[0]))

    def _learn(self, topic: str) -> None:
        """Have the consumer ask for a topic that is new to it: by itself it looks for such ones once a second."""
        if topic in self._known:
            return
        with suppress(KafkaException):  # the reader gets the error of a broker that is away
            self._consumer.list_topics(topic, timeout=_LEARN_S)
            self._known.add(topic)

    def _feed_safely(self, reader: PartitionReader, messages: list[Any]) -> None:
        try:
            self._feed(reader, messages)
        except DuramenError as error:
            reader.fail(error)
        except Exception as error:
            reader.fail(DuramenError(f"reading {reader.topic}/{reader.partition} ended by a bug: {error!r}"))
            raise

    def _feed(self, reader: PartitionReader, messages: list[Any]) -> None:
        """Give a reader what its messages hold."""
        trouble: KafkaError | None = None
        good: list[Any] = []
        end = -1
        for message in messages:
            error = message.error()
            if error is None:
                good.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                end = message.offset()
            else:
                trouble = error
                break
        intake = reader.intake
        batches = intake.take(good) if good else []
        if end >= 0:
            batches += intake.end(Offset(end))
        # Not librdkafka's high watermark: no reader may see yet what lies behind an open transaction.
        reader.put(batches, Offset(max(end, intake.next_offset) - 1))
        if intake.unreadable is not None:
            reader.fail(intake.unreadable)
        elif trouble is not None:
            reader.fail(ReadTrouble(trouble))
        elif reader.is_full and reader.pause():
            self._consumer.pause([TopicPartition(reader.topic, reader.partition)])


def _place_of(message: Any) -> tuple[str, int]:
    return message.topic() or "", message.partition()


def _note(error: KafkaError) -> None:
    _logger.info("%s", error.str())
