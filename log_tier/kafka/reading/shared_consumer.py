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
from log_tier.kafka.cluster.cluster_access import ClusterAccess
from log_tier.kafka.cluster.kafka_address import KafkaAddress
from log_tier.kafka.reading.partition_reader import PartitionReader, ReadTrouble
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import Offset, PartitionName

__all__ = ["SharedConsumer", "new_consumer"]

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

    Invariant: every reader that was started and not stopped is fed, or has failed. An error in one reader's messages or
    orders ends that reader alone. An error of the consumer itself ends all its readers and the thread; `ended` is True
    then, and the fetcher starts another consumer for the next reader.
    """

    def __init__(self, consumer: Any) -> None:
        self.taken: set[tuple[str, int]] = set()
        """The partitions that are read here, as the fetcher sees it."""
        self._readers: dict[tuple[str, int], PartitionReader] = {}
        """The readers by partition, as the consumer's thread sees it."""
        self._consumer = consumer
        """None after the thread's end. That frees librdkafka's threads and its thread-local key, of some 1,000."""
        self._known: set[str] = set()
        """The topics that the consumer has heard of."""
        self._changed = threading.Condition()
        self._orders: deque[tuple[_Order, PartitionReader]] = deque()
        self._closing = False
        self._error: Exception | None = None
        """Why the thread ended by itself."""
        self._thread = threading.Thread(target=self._run, name="duramen-kafka-consumer", daemon=True)

    @classmethod
    def open(cls, consumer: Any) -> Self:
        """A shared consumer whose thread runs; `close()` ends it, and closes `consumer`."""
        shared = cls(consumer)
        shared._thread.start()
        return shared

    @property
    def ended(self) -> bool:
        """The thread ended by an error: a reader that is started here fails at once."""
        return self._error is not None

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
            error = self._error
            if error is None:
                self._orders.append((order, reader))
                self._changed.notify()
        if error is not None and order == "start":
            reader.fail(_ending(error))

    # --- the consumer's thread

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:  # noqa: BLE001 - every reader hears of it
            self._end(error)
        finally:
            consumer, self._consumer = self._consumer, None
            with suppress(KafkaException, RuntimeError):  # a consumer that failed may refuse to be closed
                consumer.close()

    def _work(self) -> None:
        """Carry out orders and feed readers, until the consumer is closed."""
        consumer = self._consumer
        while True:
            with self._changed:
                while not (self._readers or self._orders or self._closing):
                    self._changed.wait()
                orders = list(self._orders)
                self._orders.clear()
                if self._closing:
                    return
            for order, reader in orders:
                self._carry_out(order, reader)
            first = consumer.poll(_POLL_S)
            if first is None:
                continue
            messages = [first, *consumer.consume(_MESSAGES, 0)]
            for place, run in groupby(messages, _place_of):
                found = self._readers.get(place)
                if found is not None and not found.failed:  # else it has just ended
                    self._feed_safely(found, list(run))

    def _end(self, error: Exception) -> None:
        """The consumer cannot go on: end every reader, also those whose order to start still waits."""
        with self._changed:
            self._error = error
            started = [reader for order, reader in self._orders if order == "start"]
            self._orders.clear()
        readers = {*self._readers.values(), *started}
        _logger.error("a Kafka consumer ended, and with it its %d readers", len(readers), exc_info=error)
        for reader in readers:
            reader.fail(_ending(error))

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
        except Exception as error:  # noqa: BLE001 - this reader hears of it; the others go on
            _fail_by_bug(reader, error)

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
        except Exception as error:  # noqa: BLE001 - this reader hears of it; the others go on
            _fail_by_bug(reader, error)

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


def new_consumer(address: KafkaAddress, access: ClusterAccess) -> Any:
    """librdkafka's consumer, with the settings on which reading rests. It reports refused logins to `access`."""

    def note(error: KafkaError) -> None:
        _logger.info("%s", error.str())
        access.note(error)

    return Consumer(address.client({**_SETTINGS, "error_cb": note}, defaults=_DEFAULTS), logger=_logger)


def _fail_by_bug(reader: PartitionReader, error: Exception) -> None:
    _logger.error("reading %s ended by a bug", PartitionName(reader.topic, reader.partition), exc_info=error)
    reader.fail(DuramenError(f"reading {reader.topic}/{reader.partition} ended by a bug: {error!r}"))


def _ending(error: Exception) -> Exception:
    """What a reader raises whose consumer ended: what the engine tries again for an error of Kafka's, else a bug."""
    if isinstance(error, KafkaException):
        return ReadTrouble(error.args[0])
    return DuramenError(f"the Kafka consumer of this reader ended by a bug: {error!r}; read again from your offset")


def _place_of(message: Any) -> tuple[str, int]:
    return message.topic() or "", message.partition()
