"""Both sides of a Kafka workload write the same records, and the bare ones check what they claim."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from bench.drivers.kafka import BareProducer, bare_consumer
from log_tier.kafka.engine import KafkaLog
from log_tier.kafka.records.encoding import cut_sets
from log_tier.model.batch import Columns, encode_batch
from log_tier.model.identifiers import Partition, PartitionId

pytestmark = pytest.mark.kafka

_COLUMNS = Columns([b"k%d" % number for number in range(1000)], [b"v%d" % number for number in range(1000)])


def _consume(bootstrap: str, topic: str, count: int) -> list[tuple[bytes, bytes, Any]]:
    consumer = bare_consumer(bootstrap, topic, 0, 0)
    try:
        found: list[Any] = []
        while len(found) < count:
            got = consumer.consume(count - len(found), 30.0)
            assert got, f"{len(found)} of {count} came"
            found += got
        return [(message.key(), message.value(), message.headers()) for message in found]
    finally:
        consumer.close()


async def test_both_sides_write_the_same_bytes(kafka: str) -> None:
    namespace = f"b{uuid.uuid4().hex[:12]}"
    async with await KafkaLog.open(f"kafka://{kafka}/{namespace}") as log:
        ours = await log.create_topic("ours", partitions=1)
        await log.create_topic("bare", partitions=1)
        await log.append(PartitionId(ours.id, Partition(0)), encode_batch(_COLUMNS, producer_id=7, sequence=3000))

    (whole,) = cut_sets(_COLUMNS, producer_id=7, sequence=3000, size_max=1 << 30)
    bare = BareProducer(kafka, linger_ms=5)
    bare.send(f"{namespace}.bare", 0, list(whole.records()), bare.count)
    bare.deliver(counted=1000)

    written = _consume(kafka, f"{namespace}.ours", 1000)
    assert written == _consume(kafka, f"{namespace}.bare", 1000)
    assert [(key, value) for key, value, _ in written] == list(zip(_COLUMNS.keys, _COLUMNS.values, strict=True))


async def test_a_record_that_was_not_delivered_is_no_measurement(kafka: str) -> None:
    namespace = f"b{uuid.uuid4().hex[:12]}"
    async with await KafkaLog.open(f"kafka://{kafka}/{namespace}") as log:
        await log.create_topic("one", partitions=1)
    bare = BareProducer(kafka, linger_ms=0)
    bare.send(f"{namespace}.one", 5, [(b"k", b"v", None)], bare.count)
    with pytest.raises(AssertionError, match=r"1 were delivered, .*UNKNOWN_PARTITION"):
        bare.deliver(counted=1)
