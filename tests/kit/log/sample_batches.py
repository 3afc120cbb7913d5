"""Batches for tests."""

from __future__ import annotations

from log_tier.model.batch import Columns, decode_batch, encode_batch
from log_tier.model.batch_header import split_batches
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId
from log_tier.model.log import Log


def plain_batch(*keys: str, value: bytes = b"v", producer_id: int = 0, sequence: int = 0) -> bytes:
    """A batch of plain puts of one value."""
    encoded = [key.encode() for key in keys]
    return encode_batch(Columns(encoded, [value] * len(keys)), producer_id=producer_id, sequence=sequence)


async def read_all(log: Log, topic: TableId, partition: int = 0, start: int = 0, **options: int) -> list[bytes]:
    """All stored batches from an offset to the end."""
    found: list[bytes] = []
    async for chunk in log.read(PartitionId(topic, Partition(partition)), Offset(start), follow=False, **options):
        found.extend(split_batches(chunk.data))
    return found


def keys_of(batches: list[bytes]) -> dict[int, bytes]:
    """Offset → key of all records in stored batches."""
    found: dict[int, bytes] = {}
    for stored in batches:
        batch = decode_batch(stored)
        found.update(zip(batch.offsets(), batch.columns.keys, strict=True))
    return found
