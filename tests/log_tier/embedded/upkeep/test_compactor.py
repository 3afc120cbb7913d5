"""A compaction that is refused on its way leaves the log as it was, and the next one is not harmed by what it left."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from kit.log.engine_steps import HOME, ZERO, open_log
from kit.log.sample_batches import keys_of, plain_batch, read_all

from duramen.testing.machine.memory_disk import MemoryDisk
from log_tier.embedded import EngineSettings
from log_tier.embedded.verification import verify_log
from log_tier.model.errors import DiskFull
from log_tier.model.identifiers import Offset

SETTINGS = EngineSettings(segment_bytes=1024, index_every_bytes=200, tombstone_ms=1)


def is_part(path: Path) -> bool:
    return path.name.endswith(".log.part")


async def test_a_half_written_file_that_stays_is_no_part_of_the_next_one() -> None:
    disk = MemoryDisk()
    async with await open_log(disk, SETTINGS) as log:
        topic = await log.create_topic("flights", partitions=1)
        for number in range(120):
            await log.append(topic.partition(ZERO), plain_batch(f"k{number % 12}"))
        room = iter(range(3))

        def refuse(what: str, path: Path) -> None:
            if is_part(path) and (what == "unlink" or (what == "write" and next(room, None) is None)):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        disk.on_step = refuse
        with pytest.raises(DiskFull):
            await log.compact(topic.partition(ZERO), Offset(30))
        disk.on_step = lambda what, path: None
        (left,) = [path for path in disk.files if is_part(path)]
        half = len(disk.files[left].content)
        assert keys_of(await read_all(log, topic.id)) == {n: b"k%d" % (n % 12) for n in range(120)}
        assert await log.compact(topic.partition(ZERO), Offset(10**6)) > 50
        whole = disk.files[left.with_suffix("")]
        assert 0 < whole.length < half, "what stayed was longer"
        found = keys_of(await read_all(log, topic.id))
    assert list(verify_log(HOME, disk=disk, settings=SETTINGS)) == []
    async with await open_log(disk, SETTINGS) as log:
        assert log.recovery.damages == []
        assert keys_of(await read_all(log, topic.id)) == found
