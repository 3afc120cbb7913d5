"""Brokers that do not know, or not yet, or are away: new topics, and offsets while there is no leader."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from deploy.kafka.brokers import Brokers
from log_tier.kafka import KafkaLog
from log_tier.model.batch import Columns, encode_batch
from log_tier.model.errors import Unavailable
from log_tier.model.identifiers import Offset
from log_tier.model.log import Bounds

pytestmark = pytest.mark.kafka

# librdkafka's OFFSET_INVALID: the offset in an answer that is no error and knows no offset.
UNKNOWN = -1001


async def test_an_offset_that_nobody_knows_is_asked_for_again(kafka_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two leaders librdkafka gives -1001 without an error: a bound of that would let strong reads be stale."""
    log = await KafkaLog.open(kafka_url)
    try:
        topic = await log.create_topic("asked", partitions=1)
        await log.append(topic.partition(0), encode_batch(Columns([b"key"], [b"value"])))
        client = log._topics._cluster._client
        asked = 0

        class WithoutLeader:
            def __getattr__(self, name: str) -> Any:
                return getattr(client, name)

            def list_offsets(self, wanted: Mapping[Any, Any], **how: Any) -> Any:
                nonlocal asked
                asked += 1
                if asked > 4:
                    return client.list_offsets(wanted, **how)
                answers: dict[Any, Future[Any]] = {place: Future() for place in wanted}
                for answer in answers.values():
                    answer.set_result(SimpleNamespace(offset=UNKNOWN))
                return answers

        monkeypatch.setattr(log._topics._cluster, "_client", WithoutLeader())
        assert await log.bounds(topic.partition(0)) == Bounds(Offset(0), Offset(0))
        assert asked == 6
    finally:
        await log.close()


async def test_a_topic_that_a_broker_has_not_heard_of_yet_is_found(
    kafka_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process has just made it: the first broker that is asked does not list it."""
    maker, finder = await KafkaLog.open(kafka_url), await KafkaLog.open(kafka_url)
    try:
        topic = await maker.create_topic("new", partitions=1)
        inner = finder._topics._cluster.metadata
        answers = iter([SimpleNamespace(topics={}), SimpleNamespace(topics={})])
        monkeypatch.setattr(finder._topics._cluster, "metadata", lambda: next(answers, None) or inner())
        assert await finder.bounds(topic.partition(0)) == Bounds(Offset(0), Offset(-1))
        assert next(answers, None) is None, "it was asked again"
    finally:
        await maker.close()
        await finder.close()


async def test_asking_for_leaders_that_are_away_takes_no_processor(three_brokers: Callable[..., Brokers]) -> None:
    """Two of three are dead, so there is no election, and the third goes on to name them as leaders."""
    brokers = await asyncio.to_thread(three_brokers)
    log = await KafkaLog.open(f"kafka://{brokers.bootstrap}/away")
    try:
        topic = await log.create_topic("led", partitions=6)
        for number in (1, 2):
            await asyncio.to_thread(brokers.kill, number)
        began_s, used_s = time.monotonic(), time.process_time()
        with pytest.raises(Unavailable):
            await log.all_bounds(topic.id)
        took_s = time.monotonic() - began_s
        assert took_s > 2, "it waited for a leader"
        assert time.process_time() - used_s < 0.2 * took_s
    finally:
        await log.close()
