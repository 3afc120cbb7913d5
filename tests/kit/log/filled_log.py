"""A log with a known content on a disk in memory, and what a reader gets of it after the disk was changed."""

from __future__ import annotations

from duramen.testing.machine.memory_disk import MemoryDisk
from kit.log.engine_steps import (
    ZERO,
    copy_of,
    open_log,
)
from kit.log.sample_batches import keys_of, plain_batch
from log_tier.embedded import EmbeddedLog, EngineSettings
from log_tier.model.batch_header import read_header
from log_tier.model.errors import LogDamaged
from log_tier.model.identifiers import Offset
from log_tier.model.log import Topic

__all__ = ["LARGE", "filled", "places", "readable"]


LARGE = EngineSettings(segment_bytes=1 << 20, index_every_bytes=700)


async def filled(count: int, options: EngineSettings, *, clean: bool) -> tuple[MemoryDisk, Topic]:
    """A disk with a log of `count` batches, each committed by itself; closed, or as `kill -9` leaves it."""
    disk = MemoryDisk()
    log = await open_log(disk, options)
    topic = await log.create_topic("flights", partitions=2)
    for number in range(count):
        await log.append(topic.partition(ZERO), plain_batch(f"k{number}", value=bytes([number % 251]) * (number % 90)))
    killed = copy_of(disk)
    await log.close()
    return (disk if clean else killed), topic


async def readable(log: EmbeddedLog, topic: Topic) -> tuple[dict[int, bytes], LogDamaged | None]:
    """Every record that reading from the start gives, and the damage that it ends with."""
    found: dict[int, bytes] = {}
    try:
        async for chunk in log.read(topic.partition(ZERO), Offset(0), follow=False, chunk_bytes=1):
            found.update(keys_of([chunk.data]))
    except LogDamaged as damage:
        return found, damage
    return found, None


def places(data: bytes) -> list[int]:
    """Where the batches of a segment begin, and where they end."""
    found = [0]
    while found[-1] < len(data) and data[found[-1] : found[-1] + 4] == b"DuLb":
        found.append(found[-1] + read_header(data, found[-1]).length)
    return found
