"""Trimming: whole segments from the oldest on, and readers learn of it."""

from __future__ import annotations

import pytest
from kit.log.engine_steps import SMALL, ZERO, open_log
from kit.log.memory_disk import MemoryDisk
from kit.log.sample_batches import keys_of, plain_batch, read_all

from log_tier.model.errors import OffsetTrimmed
from log_tier.model.identifiers import Offset


async def test_trimmed_logs_begin_later_and_say_so() -> None:
    disk = MemoryDisk()
    async with await open_log(disk, SMALL) as log:
        topic = await log.create_topic("flights", partitions=1)
        for number in range(120):
            await log.append(topic.id, ZERO, plain_batch(f"k{number}"))
        assert await log.trim(topic.id, ZERO, Offset(1)) == 0, "whole segments only"
        earliest = await log.trim(topic.id, ZERO, Offset(100))
        assert 0 < earliest <= 100
        with pytest.raises(OffsetTrimmed, match=f"begins with offset {earliest}") as caught:
            await read_all(log, topic.id)
        assert caught.value.fields == {"partition": 0, "asked": 0, "earliest": earliest}
        assert sorted(keys_of(await read_all(log, topic.id, start=earliest))) == list(range(earliest, 120))
    async with await open_log(disk, SMALL) as log:
        assert log.recovery.damages == []
        assert (await log.bounds(topic.id, ZERO)).earliest == earliest
        assert (await log.append(topic.id, ZERO, plain_batch("after"))).base_offset == 120


async def test_a_reader_behind_a_trim_is_told() -> None:
    disk = MemoryDisk()
    async with await open_log(disk, SMALL) as log:
        topic = await log.create_topic("flights", partitions=1)
        for number in range(120):
            await log.append(topic.id, ZERO, plain_batch(f"k{number}"))
    async with await open_log(disk, SMALL) as log:
        chunks = log.read(topic.id, ZERO, Offset(0), follow=True, chunk_bytes=100)
        await anext(chunks)
        await log.trim(topic.id, ZERO, Offset(100))
        seen = 0

        async def read_on() -> None:
            nonlocal seen
            async for chunk in chunks:
                seen = max(seen, *keys_of([chunk.data]))

        with pytest.raises(OffsetTrimmed):
            await read_on()
        assert seen < 100, "it read on in the file that it had open, and no further"
