"""Writing: rounds of batches, so that each lies whole in one record batch of Kafka's.

librdkafka decides by itself when to send what it was given, and would cut a batch wherever it has come to. So its
linger time is set to (practically) for ever, and one thread works in rounds:

    gather what waits ─▶ hand it over, record by record ─▶ flush: everything leaves, partition by partition ─▶ settle

While a round is under way, what comes waits for the next one: a group commit, as in the embedded log. A partition has
one round under way at most. One whose leader is away keeps only its own callers waiting: the thread goes on with the
others, and looks after it every few milliseconds. The same holds for a topic that the producer does not know, or of
which it knows another of the same name: other threads ask for it, and its items wait until the answer.

Invariant: of every item, all records or none were handed over, and the offsets of the first and the last show whether
Kafka kept them together.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple, Self

from confluent_kafka import KafkaError, KafkaException, Producer

from log_tier.kafka.cluster.client_log_filter import CLIENT_LOG_FILTER
from log_tier.kafka.cluster.cluster_access import ClusterAccess
from log_tier.kafka.cluster.failures import append_failure, failure, is_denial, is_missing_topic
from log_tier.kafka.cluster.kafka_address import KafkaAddress
from log_tier.kafka.records.encoding import RecordSet
from log_tier.kafka.records.header import HEADER_NAME
from log_tier.kafka.writing.send_queue import QUEUE_BYTES_MAX, Item, SendQueue, SetPlace, tell
from log_tier.model.errors import DuramenError, Unavailable, WriteUnknown
from log_tier.model.identifiers import Offset, Partition

__all__ = ["Sender"]

_logger = logging.getLogger(__name__)
_logger.addFilter(CLIENT_LOG_FILTER)

# The largest request; a topic's own limit is smaller.
_REQUEST_BYTES: Final = 64 << 20

# How long one flush waits: with every leader there it ends by itself within a round trip.
_FLUSH_S: Final = 0.01

# An idle thread serves librdkafka's callbacks (errors, delivery reports) this often.
_IDLE_S: Final = 1.0

# A broker that is away for a minute is waited for. What waits longer ends as `WriteUnknown`; most callers give up
# before that.
_PATIENCE_MS: Final = 120_000

# librdkafka takes no more than this.
_LINGER_MS_MAX: Final = 900_000

# Looks at a producer that is given up, for what it still has to say.
_LAST_WORDS: Final = 100

# A producer that knows another topic of the same name asks again; each try takes a round trip, or so long.
_LEARN_S: Final = 0.5
_LEARN_TRIES_MAX: Final = 20

# Topics that are asked for at once: more than are created at a time.
_LEARNERS_MAX: Final = 8

# Between two producers that the cluster refuses.
_DENIED_PAUSE_S: Final = 0.5

# A close waits so long for what is under way.
_CLOSE_S: Final = 10.0


class Sender:
    """Appends sets of records. Thread-safe; its thread runs until `close`."""

    def __init__(
        self, address: KafkaAddress, access: ClusterAccess, connect: Callable[[dict[str, Any]], Any] | None = None
    ) -> None:
        """`access` says whether the cluster lets us in. `connect` makes a producer of librdkafka's settings; a test's
        may be its own.
        """
        self._address, self._access, self._connect = address, access, connect or _new_client
        self._send_queue = SendQueue()
        self._sent: set[Item] = set()
        """Items that librdkafka was given and that are not finished yet. Only the sender's thread uses them."""
        self._settled: list[Item] = []
        """Items of `_sent` that have an outcome."""
        self._learning: dict[str, _Learning] = {}
        """The topics that are being asked for. Only the sender's thread uses them."""
        self._learners = ThreadPoolExecutor(_LEARNERS_MAX, thread_name_prefix="duramen-kafka-learner")
        self._fatal: KafkaError | None = None
        """Why the producer stopped, until there is a new one."""
        self._reported = False
        """The producer has reported what became of some record, so it may have written others."""
        self.rounds = 0
        """Flushes that had something to send, for the benchmark."""
        self._producer: Any = self._new_producer()
        """None after the thread's end. That frees librdkafka's threads and its thread-local key, of some 1,000."""
        self._thread = threading.Thread(target=self._run, name="duramen-kafka-sender", daemon=True)

    @classmethod
    def open(
        cls, address: KafkaAddress, access: ClusterAccess, connect: Callable[[dict[str, Any]], Any] | None = None
    ) -> Self:
        """A sender whose thread runs; `close()` ends it."""
        sender = cls(address, access, connect)
        sender._thread.start()
        return sender

    def _new_producer(self) -> Any:
        named = self._address.properties
        patience_ms = int(named.get("delivery.timeout.ms", named.get("message.timeout.ms", _PATIENCE_MS)))
        ours = {
            "message.timeout.ms": patience_ms,
            "acks": "all",
            "enable.idempotence": True,
            # As long as a record may wait at all: only a flush sends.
            "linger.ms": min(patience_ms - 1, _LINGER_MS_MAX),
            "batch.num.messages": 1_000_000,
            "batch.size": _REQUEST_BYTES,
            "message.max.bytes": _REQUEST_BYTES,
            # Ours is counted in bytes, and stricter.
            "queue.buffering.max.messages": 0,
            "queue.buffering.max.kbytes": 2 * QUEUE_BYTES_MAX >> 10,
            "error_cb": self._on_error,
        }
        return self._connect(self._address.client(ours))

    def append(
        self, topic: str, partition: Partition, sets: Sequence[RecordSet], *, size_max: int
    ) -> list[asyncio.Future[SetPlace]]:
        """Have sets written, one after the other; a future for each, in the running loop. O(1).

        `size_max`: what the topic takes at once, in bytes; no set is larger.

        The futures raise `WriteUnknown`, or what says that nothing was written. One that is cancelled while it waits is
        not written. Raises `Overloaded`, `ShuttingDown`, and `AccessDenied` while the cluster lets nobody in.
        """
        self._access.check(f"writing to {topic}/{partition}")
        return self._send_queue.put(topic, partition, sets, size_max=size_max)

    def refuse(self, topic: str, error: DuramenError) -> None:
        """Fail what waits for a topic that is gone; what is under way ends by itself."""
        self._send_queue.refuse(topic, error)

    async def close(self) -> None:
        """Write what was accepted, for some seconds; what is not acknowledged by then is unknown. Idempotent."""
        self._send_queue.close()
        await asyncio.to_thread(self._thread.join)

    # --- the sender's thread

    def _run(self) -> None:
        try:
            self._work()
            self._producer.close()
        except BaseException as error:
            # A bug of ours: nobody may wait for a thread that is gone.
            self._end(DuramenError(f"the Kafka sender ended by a bug: {error!r}; restart this process"))
            raise
        finally:
            self._learning.clear()
            self._learners.shutdown(cancel_futures=True)  # a question that is under way takes `_LEARN_S`
            self._producer = None  # it holds us, by `error_cb`: only this ends it before the collector of cycles does

    def _work(self) -> None:
        """Round after round, until the sender is closed."""
        patience = _CLOSE_S
        while True:
            # While nothing but questions is under way, a flush returns at once.
            held = sum(len(learning.items) for learning in self._learning.values())
            wait_s = 0 if len(self._sent) > held else _FLUSH_S if held else _IDLE_S
            round_, closing = self._send_queue.gather(wait_s=wait_s)
            self._sent.update(round_)
            self._hand_over_learned()
            for item in round_:
                self._hand_over(item)
            self.rounds += bool(round_)
            self._serve(_FLUSH_S if self._sent else 0)
            self._finish()
            if self._fatal is not None:
                self._begin_again(self._fatal)
            if closing:
                patience -= _FLUSH_S
                if not self._sent and not round_:
                    return
                if patience <= 0:
                    self._give_up()
                    return

    def _serve(self, seconds: float) -> None:
        """Let librdkafka send, and run its delivery reports."""
        try:
            if seconds:
                self._producer.flush(seconds)
            else:
                self._producer.poll(0)
        except KafkaException as error:
            self._fatal = error.args[0]

    def _hand_over(self, item: Item) -> None:
        """Give an item to librdkafka; one of a topic that it does not know waits until that has been asked for."""
        learning = self._learning.get(item.line.topic)
        if learning is not None:
            learning.items.append(item)
        elif self._produce(item, settle_missing=False):
            self._learn(item.line.topic, [item], tries=1)

    def _hand_over_learned(self) -> None:
        """Try the items of topics for which an answer has come again, in their order."""
        for topic, learning in list(self._learning.items()):
            if not learning.question.done():
                continue
            del self._learning[topic]
            last = learning.tries >= _LEARN_TRIES_MAX
            for number, item in enumerate(learning.items):
                if self._produce(item, settle_missing=last):
                    self._learn(topic, learning.items[number:], tries=learning.tries + 1)
                    break

    def _learn(self, topic: str, items: list[Item], *, tries: int) -> None:
        """Have the producer ask for the topic, of which it knows another of the same name, or nothing.

        The engine has seen this partition, so the cluster has it, or had it until just now.
        """
        self._learning[topic] = _Learning(items, tries, self._learners.submit(_ask, self._producer, topic))

    def _produce(self, item: Item, *, settle_missing: bool) -> bool:
        """Give a set's records to librdkafka, which keeps them until the flush. About 0.5 µs a record.

        True where nothing was given because the topic is missing; `settle_missing` fails the item instead.
        """
        line, records = item.line, item.records.records()
        topic, partition, produce, name = line.topic, line.partition, self._producer.produce, HEADER_NAME
        begun = False
        try:
            key, value, header = records[0]
            on_delivery = partial(self._on_first if len(records) > 1 else self._on_last, item)
            produce(topic, value, key, partition, on_delivery, None, 0, [(name, header)])
            begun = True
            for key, value, header in records[1:-1]:
                produce(topic, value, key, partition, None, None, 0, [(name, header)])
            if len(records) > 1:
                key, value, header = records[-1]
                produce(topic, value, key, partition, partial(self._on_last, item), None, 0, [(name, header)])
        except (KafkaException, BufferError) as raised:
            error = raised.args[0] if isinstance(raised, KafkaException) else KafkaError(KafkaError._QUEUE_FULL)
            if begun:
                self._settle(item, _torn(item))
            elif is_missing_topic(error) and not settle_missing:
                return True
            else:
                self._settle(item, _untaken(error, topic, partition))
        return False

    def _on_first(self, item: Item, error: KafkaError | None, message: Any) -> None:
        item.first = -1 if error is not None else message.offset()

    def _on_last(self, item: Item, error: KafkaError | None, message: Any) -> None:
        line = item.line
        if error is not None and error.code() == KafkaError._FATAL:
            return  # the producer has stopped: its reason says what that means
        self._reported = self._reported or self._fatal is None
        if error is not None:
            outcome: SetPlace | DuramenError = append_failure(error, line.topic, line.partition)
            if item.first >= 0:
                outcome = _torn(item)
            self._settle(item, outcome)
            return
        last, count = message.offset(), item.records.count
        first = last if count == 1 else item.first
        if last - first + 1 != count:
            self._settle(item, _torn(item))
            return
        _, timestamp_ms = message.timestamp()
        self._settle(item, self._send_queue.placed(item, SetPlace(Offset(first), Offset(last), timestamp_ms)))

    def _settle(self, item: Item, outcome: SetPlace | DuramenError) -> None:
        if item.outcome is None:
            item.outcome = outcome
            self._settled.append(item)

    def _finish(self) -> None:
        """Hand settled items to the send queue, which completes their futures."""
        settled, self._settled = self._settled, []
        if not settled:
            return
        self._send_queue.settle(settled)
        self._sent.difference_update(settled)

    def _on_error(self, error: KafkaError) -> None:
        if error.code() == KafkaError._FATAL or error.fatal():
            self._fatal = error
        else:
            _logger.info("%s", error.str())
            self._access.note(error)

    def _begin_again(self, error: KafkaError) -> None:
        """The producer will not send any more: what is under way is unknown, and a new one goes on.

        The cluster may refuse a new producer, which has no ACL to write any topic, before it writes anything. What is
        under way is refused then, and the next producer waits for something to write.
        """
        if is_denial(error) and not self._reported:
            _logger.warning("the cluster refuses a Kafka producer: %s", error.str())
            for item in self._sent:
                self._settle(item, append_failure(error, item.line.topic, item.line.partition))
            self._give_up()
            self._send_queue.wait_filled(pause_s=_DENIED_PAUSE_S)
        else:
            _logger.error("the Kafka producer stopped (%s); a new one goes on", error.str())
            self._give_up()
        self._fatal, self._reported = None, False
        self._producer = self._new_producer()

    def _give_up(self) -> None:
        """Give up what is under way: wait up to a second for last delivery reports; the rest ends as `WriteUnknown`."""
        for topic, learning in self._learning.items():
            for item in learning.items:
                self._settle(item, Unavailable(f"{topic} was not written: the Kafka producer ended: try again"))
        self._learning.clear()
        with suppress(KafkaException):
            self._producer.purge()
        for _ in range(_LAST_WORDS):
            self._serve(_FLUSH_S)
            self._finish()
            if not self._sent:
                return
        for item in list(self._sent):
            self._settle(item, _unheard(item))
        self._finish()

    def _end(self, error: DuramenError) -> None:
        self._send_queue.end(error)
        for item in self._sent:
            item.outcome = item.outcome or _unheard(item)
        tell(list(self._sent))


class _Learning(NamedTuple):
    """The items of a topic that is being asked for, in order: librdkafka has got nothing of them."""

    items: list[Item]
    tries: int
    question: Future[None]


def _ask(producer: Any, topic: str) -> None:
    """Have the producer hear of a topic. Blocks for up to `_LEARN_S`."""
    with suppress(KafkaException):
        producer.list_topics(topic, timeout=_LEARN_S)


def _new_client(settings: dict[str, Any]) -> Any:
    return Producer(settings, logger=_logger)


def _untaken(error: KafkaError, topic: str, partition: int) -> DuramenError:
    """librdkafka has not taken any record of a set, so nothing was written."""
    if error.code() == KafkaError._FATAL:
        return failure(error, f"writing to {topic}/{partition}")
    return append_failure(error, topic, partition)


def _unheard(item: Item) -> WriteUnknown:
    return WriteUnknown(
        f"nothing was heard of a write to {item.line.topic}/{item.line.partition}: it is in the log once or not at "
        "all; read the key to know"
    )


def _torn(item: Item) -> WriteUnknown:
    return WriteUnknown(
        f"the records of a batch were not kept together in {item.line.topic}/{item.line.partition}: they may be in the "
        "log in part; send the batch again with its sequences, what came twice is void"
    )
