"""The sender's rounds over a scripted producer: a topic that must be asked for keeps only its own appends waiting."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from kit.deadlines import patience_s

from log_tier.kafka.cluster.cluster_access import ClusterAccess
from log_tier.kafka.cluster.kafka_address import KafkaAddress
from log_tier.kafka.records.encoding import RecordSet
from log_tier.kafka.writing.sender import Sender
from log_tier.model.batch import Columns
from log_tier.model.errors import AccessDenied, TableNotFound
from log_tier.model.identifiers import Partition

ADDRESS = KafkaAddress.parse("kafka://nowhere:1/test")
ZERO = Partition(0)


def one_record(key: bytes) -> list[RecordSet]:
    return [RecordSet(Columns([key], [b"v"]), slice(0, 1), 0, 0, 100)]


class ScriptedProducer:
    """It does not know the topic `away` until a question about it was answered, which takes until `healthy` is sent."""

    def __init__(self, *, known_after: int) -> None:
        self.known_after, self.asked = known_after, 0
        self.sent = threading.Event()
        self.healthy_went_first = True
        self.keys: list[bytes] = []
        self.reports: deque[Callable[[], None]] = deque()

    def __call__(self, settings: dict[str, Any]) -> ScriptedProducer:
        return self

    def produce(self, topic: str, value: bytes, key: bytes, partition: int, on_delivery: Any, *_: Any) -> None:
        if topic == "away" and self.asked < self.known_after:
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
        offset = len(self.keys)
        self.keys.append(key)
        message = SimpleNamespace(offset=lambda: offset, timestamp=lambda: (1, 7))
        self.reports.append(lambda: on_delivery(None, message))
        if topic == "healthy":
            self.sent.set()

    def list_topics(self, topic: str, timeout: float) -> None:
        self.healthy_went_first &= self.sent.wait(patience_s(2))
        self.asked += 1

    def flush(self, seconds: float) -> None:
        while self.reports:
            self.reports.popleft()()

    def poll(self, seconds: float) -> None:
        """Nothing but reports comes."""

    def close(self) -> None:
        """There is nothing to close."""


class RefusedProducers:
    """Makes producers: the cluster refuses the first `refusals` of them when they begin."""

    def __init__(self, refusals: int) -> None:
        self.refusals, self.made = refusals, 0

    def __call__(self, settings: dict[str, Any]) -> ScriptedProducer:
        self.made += 1
        return ScriptedProducer(known_after=0) if self.made > self.refusals else RefusedProducer()


class RefusedProducer(ScriptedProducer):
    """It takes records, and then hears that the cluster gives it no id."""

    def __init__(self) -> None:
        super().__init__(known_after=0)

    def flush(self, seconds: float) -> None:
        self.reports.clear()
        raise KafkaException(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED, "no id", fatal=True))

    def purge(self) -> None:
        """It has nothing."""


async def test_a_producer_that_the_cluster_refuses_has_written_nothing() -> None:
    """Writes are refused with the ACL that is missing. The next producer is made for the next write."""
    connect = RefusedProducers(2)
    sender = Sender.open(ADDRESS, ClusterAccess(), connect)
    try:
        for _ in range(2):
            (denied,) = sender.append("orders", ZERO, one_record(b"k"), size_max=1 << 20)
            with pytest.raises(AccessDenied, match="allow it Write on topic orders"):
                await denied
        assert connect.made == 2, "none without something to write"
        (allowed,) = sender.append("orders", ZERO, one_record(b"k"), size_max=1 << 20)
        assert (await allowed).first == 0
        assert connect.made == 3
    finally:
        await sender.close()


async def test_a_topic_that_must_be_asked_for_keeps_no_other_topic_waiting() -> None:
    producer = ScriptedProducer(known_after=2)
    sender = Sender.open(ADDRESS, ClusterAccess(), producer)
    try:
        first = sender.append("away", ZERO, one_record(b"a1"), size_max=1 << 20)
        first += sender.append("away", ZERO, one_record(b"a2"), size_max=1 << 20)
        (healthy,) = sender.append("healthy", ZERO, one_record(b"h"), size_max=1 << 20)
        await healthy
        assert [(await each).first for each in first] == [1, 2]
        assert producer.keys == [b"h", b"a1", b"a2"], "in the order in which they were accepted"
        assert producer.healthy_went_first
    finally:
        await sender.close()


async def test_a_topic_that_stays_unknown_is_refused_and_nothing_was_written() -> None:
    producer = ScriptedProducer(known_after=1000)
    producer.sent.set()
    sender = Sender.open(ADDRESS, ClusterAccess(), producer)
    try:
        (away,) = sender.append("away", ZERO, one_record(b"a"), size_max=1 << 20)
        with pytest.raises(TableNotFound):
            await away
        assert producer.asked == 20
        assert producer.keys == []
    finally:
        await sender.close()
