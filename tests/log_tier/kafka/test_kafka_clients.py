"""What a closed log leaves: each client of librdkafka has threads, and one of a process's 1,000 thread-local keys."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from kit.log.sample_batches import plain_batch

from log_tier.kafka.cluster.cluster_client import ClusterClient
from log_tier.kafka.engine import KafkaLog
from log_tier.kafka.writing.sender import Sender
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import Offset, Partition, PartitionId

pytestmark = pytest.mark.kafka


@pytest.fixture
def _no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def clients() -> list[Any]:
    return [each for each in gc.get_objects() if isinstance(each, Consumer | Producer | AdminClient)]


@pytest.mark.usefixtures("_no_collector")
async def test_a_closed_log_has_no_clients(kafka_url: str) -> None:
    """At once, and not when the collector of cycles comes by: a process may open and close many logs before that."""
    before = clients()
    async with await KafkaLog.open(kafka_url) as log:
        partition = PartitionId((await log.create_topic("flights", partitions=1)).id, Partition(0))
        await log.append(partition, plain_batch("a"))
        for follow in (True, False):
            async with aclosing(log.read(partition, Offset(0), follow=follow)) as chunks:
                async for chunk in chunks:
                    assert chunk.data
                    break
        assert {type(each) for each in clients() if each not in before} == {Consumer, Producer, AdminClient}
    assert [each for each in clients() if each not in before] == []


@pytest.mark.usefixtures("_no_collector")
@pytest.mark.parametrize(("kind", "step"), [(ClusterClient, "metadata"), (Sender, "open")])
async def test_a_log_that_cannot_be_opened_has_no_clients(
    kafka_url: str, monkeypatch: pytest.MonkeyPatch, kind: type, step: str
) -> None:
    def refuse(*_: object) -> None:
        raise DuramenError("no more clients")

    before = clients()
    monkeypatch.setattr(kind, step, refuse)
    with pytest.raises(DuramenError, match="no more clients") as refused:
        await KafkaLog.open(kafka_url)
    refused.value.__traceback__ = None  # its frames hold the clients
    del refused
    assert [each for each in clients() if each not in before] == []
