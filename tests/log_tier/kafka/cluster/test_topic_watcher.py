"""The watch over the topics in use: it outlives looks that fail, and one topic's trouble hides no other topic."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from kit.deadlines import patience_s

from log_tier.kafka.cluster.cluster_access import ClusterAccess
from log_tier.kafka.cluster.kafka_address import KafkaAddress
from log_tier.kafka.cluster.known_topic import MISSED_TIMES, KnownTopic
from log_tier.kafka.cluster.lost_topics import GONE_MAX
from log_tier.kafka.cluster.topic_watcher import TopicWatcher
from log_tier.kafka.cluster.topics import Topics
from log_tier.model.errors import DuramenError, ShuttingDown, TableNotFound
from log_tier.model.identifiers import TableId, table_id_from_bytes, table_id_to_bytes

DENIED = KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
MISSING = KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))


def watched(*ends: Exception | None) -> int:
    """How many looks a watcher makes of which the first ones end so; later ones succeed, and two of those suffice."""
    looks = 0
    enough = threading.Event()

    def look() -> None:
        nonlocal looks
        looks += 1
        if looks >= len(ends) + 2:
            enough.set()
        if looks <= len(ends) and (error := ends[looks - 1]) is not None:
            if isinstance(error, ShuttingDown):
                enough.set()
            raise error

    watcher = TopicWatcher(look, every_s=0.001)
    watcher.start()
    assert enough.wait(patience_s(20)), "the watch has ended"
    watcher.close()
    watcher.close()
    return looks


@pytest.mark.parametrize("error", [KafkaException(KafkaError(KafkaError._TRANSPORT)), KeyError("a bug"), TypeError()])
def test_a_look_that_fails_does_not_end_the_watch(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    assert watched(None, error, error) >= 5
    bugs = [record for record in caplog.records if record.levelname == "ERROR"]
    assert len(bugs) == (0 if isinstance(error, KafkaException) else 2)
    assert all(record.exc_info for record in bugs)


def test_a_log_that_closes_ends_the_watch() -> None:
    assert watched(None, ShuttingDown("the log is closing")) == 2


class Cluster:
    """Answers for each topic with what the test says: an id, or an error."""

    def __init__(self, answers: Mapping[str, TableId | Exception]) -> None:
        self.answers = dict(answers)
        self.admin = self
        self.access = ClusterAccess()

    def describe_topics(self, topics: Any, *, request_timeout: float) -> dict[str, Future[Any]]:
        return {name: _answered(self.answers[name]) for name in topics.topic_names} if topics.topic_names else {}

    def describe_configs(self, resources: list[Any], *, request_timeout: float) -> dict[Any, None]:
        return dict.fromkeys(resources)

    async def ask(self, answer: None, doing: str, *, needs: str) -> dict[str, Any]:
        return {}

    async def describe(self, names: list[str]) -> list[Any]:
        return [_answered(self.answers[name]).result() for name in names]


def _answered(answer: TableId | Exception) -> Future[Any]:
    future: Future[Any] = Future()
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        number = int.from_bytes(table_id_to_bytes(answer), "big")
        uuid = SimpleNamespace(
            get_most_significant_bits=lambda: number >> 64, get_least_significant_bits=lambda: number & (1 << 64) - 1
        )
        partition = SimpleNamespace(replicas=[1, 2, 3])
        future.set_result(SimpleNamespace(topic_id=uuid, partitions=[partition], is_internal=False))
    return future


IDS = {name: bytes(15) + bytes([number]) for number, name in enumerate(("one", "two", "three"), start=1)}


def looks_of(topics: Topics, times: int) -> list[BaseException | None]:
    ends: list[BaseException | None] = []
    for _ in range(times):
        try:
            topics.look()
        except KafkaException as error:
            ends.append(error)
        else:
            ends.append(None)
    return ends


async def test_the_trouble_of_one_topic_hides_no_other_topic() -> None:
    """A look ended with the first topic that could not be described, and the others were never seen to go."""
    ids = {name: table_id_from_bytes(each) for name, each in IDS.items()}
    cluster = Cluster(ids)
    gone: dict[str, DuramenError] = {}
    note: Callable[[KnownTopic, DuramenError], None] = lambda known, error: gone.update({known.kafka_name: error})  # noqa: E731
    topics = Topics(KafkaAddress.parse("kafka://127.0.0.1:1"), note, cluster)  # type: ignore[arg-type]
    for name in ids:
        await topics.adopt(name)
    assert looks_of(topics, 2) == [None, None]
    cluster.answers |= {"one": DENIED, "three": MISSING}
    assert looks_of(topics, MISSED_TIMES) == [DENIED] * MISSED_TIMES
    assert list(gone) == ["three"]
    assert isinstance(gone["three"], TableNotFound)
    cluster.answers["one"] = ids["one"]
    assert looks_of(topics, 1) == [None]
    assert list(gone) == ["three"]


async def test_topics_that_are_gone_for_long_are_forgotten() -> None:
    """Each topic that was deleted since the start was kept for as long as the process lived."""
    ids = {f"t{number}": table_id_from_bytes(number.to_bytes(16, "big")) for number in range(GONE_MAX + 10)}
    cluster = Cluster(ids)
    topics = Topics(KafkaAddress.parse("kafka://127.0.0.1:1"), lambda known, error: None, cluster)  # type: ignore[arg-type]
    for name in ids:
        await topics.adopt(name)
    cluster.answers |= dict.fromkeys(ids, MISSING)
    assert looks_of(topics, MISSED_TIMES) == [None] * MISSED_TIMES
    refused = [topic for topic in ids.values() if topics.refusal(topic) is not None]
    assert refused == list(ids.values())[10:]
