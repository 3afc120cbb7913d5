"""A log that has lost power: 240 acknowledged keys are in its journal alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

from duramen.testing.machine.memory_disk import MemoryDisk
from kit.log.engine_steps import HOME, open_log, overwrite, segment_files
from kit.log.sample_batches import keys_of, plain_batch, read_all
from log_tier.embedded import EngineSettings
from log_tier.model.log import Topic

OPTIONS = EngineSettings(segment_bytes=1 << 20, journal_bytes=64 << 10)
PARTITIONS = 4
COMMITS = 60


async def _power_lost() -> tuple[MemoryDisk, Topic]:
    """240 acknowledged keys in the journal alone: power fails, and no segment was synced."""
    disk = MemoryDisk()
    log = await open_log(disk, OPTIONS)
    topic = await log.create_topic("flights", partitions=PARTITIONS)
    for number in range(COMMITS):
        await log.append_many(
            [(topic.partition(p), plain_batch(f"k{number}.{p}", value=b"x" * 20)) for p in range(PARTITIONS)]
        )
    survivor = disk.after_process_end()
    for partition in range(PARTITIONS):
        (path,) = segment_files(disk, topic, partition)
        inode = disk.files[path]
        overwrite(survivor, path, bytes(inode.durable).ljust(inode.durable_length, b"\0"))
    await log.close()
    survivor.sync_folder(HOME)
    return survivor, topic


POWER_LOST = asyncio.run(_power_lost())
"""Tests change copies of it."""


def power_lost() -> tuple[MemoryDisk, Topic]:
    disk, topic = POWER_LOST
    return disk.after_process_end(), topic


def used_journal(disk: MemoryDisk) -> Path:
    return max((HOME / "journal.0", HOME / "journal.1"), key=lambda path: len(bytes(disk.files[path].content)))


async def keys(disk: MemoryDisk, topic: Topic) -> int:
    async with await open_log(disk, OPTIONS) as log:
        found = 0
        for partition in range(PARTITIONS):
            got = keys_of(await read_all(log, topic.id, partition))
            assert list(got) == list(range(len(got)))
            found += len(got)
        return found


def frames_of(data: bytes) -> list[int]:
    """Where frames begin."""
    found = []
    at = data.find(b"DuJf")
    while at >= 0:
        found.append(at)
        at = data.find(b"DuJf", at + 1)
    return found
