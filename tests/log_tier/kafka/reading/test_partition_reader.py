"""A reader's queue, without a broker: what was put before a trouble is given, and nothing that comes behind it."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from log_tier.kafka.reading.partition_reader import PartitionReader, ReadTrouble
from log_tier.model.batch import Columns, encode_batch
from log_tier.model.batch_header import stamp_batch
from log_tier.model.errors import UnknownFormat
from log_tier.model.identifiers import Offset, Partition


def batch(offset: int) -> bytes:
    return stamp_batch(encode_batch(Columns([b"k"], [b"v"])), base_offset=Offset(offset), timestamp_ms=0, unsynced=0)


@pytest.mark.parametrize("trouble", [UnknownFormat("upgrade"), ReadTrouble(KafkaError(KafkaError._TRANSPORT))])
async def test_nothing_comes_behind_a_trouble(trouble: Exception) -> None:
    """A shared consumer goes on shortly after a trouble: its next batches would lie behind an unseen gap."""
    reader = PartitionReader("orders", Partition(0), Offset(0))
    reader.put([batch(0)], Offset(0))
    reader.fail(trouble)
    reader.put([batch(5)], Offset(5))
    assert await reader.take(1000) == (batch(0), False)
    for _ in range(2):
        with pytest.raises(type(trouble)):
            await reader.take(1000)
    assert reader.given == 1
