"""Trimming: whole segments from the oldest on, and readers learn of it."""

from __future__ import annotations

import asyncio

import pytest
from kit.log.engine_steps import HOME, SMALL, ZERO, copy_of, open_log
from kit.log.sample_batches import keys_of, plain_batch, read_all

from duramen.testing.machine.memory_disk import MemoryDisk
from log_tier.embedded import EmbeddedLog
from log_tier.model.errors import LogDamaged, OffsetTrimmed
from log_tier.model.identifiers import Offset
from log_tier.model.retention import FOREVER, Retention


async def test_trimmed_logs_begin_later_and_say_so() -> None:
    disk = MemoryDisk()
    async with await open_log(disk, SMALL) as log:
        topic = await log.create_topic("flights", partitions=1)
        for number in range(120):
            await log.append(topic.partition(ZERO), plain_batch(f"k{number}"))
        assert await log.trim(topic.partition(ZERO), Offset(1)) == 0, "whole segments only"
        earliest = await log.trim(topic.partition(ZERO), Offset(100))
        assert 0 < earliest <= 100
        with pytest.raises(OffsetTrimmed, match=f"begins with offset {earliest}") as caught:
            await read_all(log, topic.id)
        assert caught.value.fields == {"partition": 0, "asked": 0, "earliest": earliest}
        assert sorted(keys_of(await read_all(log, topic.id, start=earliest))) == list(range(earliest, 120))
    async with await open_log(disk, SMALL) as log:
        assert log.recovery.damages == []
        assert (await log.bounds(topic.partition(ZERO))).earliest == earliest
        assert (await log.append(topic.partition(ZERO), plain_batch("after"))).base_offset == 120


async def test_a_trim_that_a_kill_ends_has_not_begun_or_is_finished_by_the_next_start() -> None:
    """At each change of the disk: no record that the trim has given up comes back after one that stays away."""
    disk, killed = MemoryDisk(), list[MemoryDisk]()
    async with await open_log(disk, SMALL) as log:
        topic = await log.create_topic("flights", partitions=1)
        for number in range(120):
            await log.append(topic.partition(ZERO), plain_batch(f"k{number}"))
        disk.on_step = lambda what, path: killed.append(copy_of(disk))
        earliest = await log.trim(topic.partition(ZERO), Offset(100))
        disk.on_step = lambda what, path: None
        killed.append(copy_of(disk))
    found = list[int]()
    for left in killed:
        async with await open_log(left, SMALL) as log:
            assert log.recovery.damages == []
            found.append((await log.bounds(topic.partition(ZERO))).earliest)
            assert sorted(keys_of(await read_all(log, topic.id, start=found[-1]))) == list(range(found[-1], 120))
    assert found == sorted(found)
    assert set(found) == {0, earliest}, "it removes all that it gives up, or nothing"


async def test_a_reader_behind_a_trim_gets_an_error() -> None:
    disk = MemoryDisk()
    async with await open_log(disk, SMALL) as log:
        topic = await log.create_topic("flights", partitions=1)
        for number in range(120):
            await log.append(topic.partition(ZERO), plain_batch(f"k{number}"))
    async with await open_log(disk, SMALL) as log:
        chunks = log.read(topic.partition(ZERO), Offset(0), follow=True, chunk_bytes=100)
        await anext(chunks)
        await log.trim(topic.partition(ZERO), Offset(100))
        seen = 0

        async def read_on() -> None:
            nonlocal seen
            async for chunk in chunks:
                seen = max(seen, *keys_of([chunk.data]))

        with pytest.raises(OffsetTrimmed):
            await read_on()
        assert seen < 100, "it read on in the file that it had open, and no further"


async def test_retention_removes_what_is_too_old_or_too_much() -> None:
    now_ms = [1_000_000]
    async with await EmbeddedLog.open(HOME, disk=MemoryDisk(), settings=SMALL, clock=lambda: now_ms[0]) as log:
        topic = await log.create_topic("flights", partitions=1)
        for number in range(120):
            await log.append(topic.partition(ZERO), plain_batch(f"k{number}"))
            now_ms[0] += 1000
        everything = Offset(120)
        assert await log.retain(topic.partition(ZERO), FOREVER, below=everything) == 0
        assert await log.retain(topic.partition(ZERO), Retention(ms=3_600_000), below=everything) == 0
        assert await log.retain(topic.partition(ZERO), Retention(ms=1), below=Offset(0)) == 0, (
            "only the bounds were checked"
        )
        by_age = await log.retain(topic.partition(ZERO), Retention(ms=60_000), below=everything)
        assert 0 < by_age <= 60, "records of the last minute stay"
        held = await log.retain(topic.partition(ZERO), Retention(ms=1, bytes=1), below=Offset(by_age + 1))
        assert held == by_age, "nothing from `below` on goes"
        bytes_left = sum(map(len, await read_all(log, topic.id, start=by_age)))
        by_size = await log.retain(topic.partition(ZERO), Retention(bytes=bytes_left // 2), below=everything)
        assert by_age < by_size < 120
        assert sum(map(len, await read_all(log, topic.id, start=by_size))) >= bytes_left // 2
        newest = await log.retain(topic.partition(ZERO), Retention(ms=1), below=everything)
        assert newest < 120, "the newest segment stays"
        with pytest.raises(OffsetTrimmed, match=f"begins with offset {newest}"):
            await read_all(log, topic.id, start=by_size)


async def test_retention_and_a_trim_at_once_never_go_back() -> None:
    now_ms = [1_000_000]
    disk = MemoryDisk()
    async with await EmbeddedLog.open(HOME, disk=disk, settings=SMALL, clock=lambda: now_ms[0]) as log:
        topic = await log.create_topic("flights", partitions=1)
        for number in range(120):
            await log.append(topic.partition(ZERO), plain_batch(f"k{number}"))
            now_ms[0] += 1000
        found = await asyncio.gather(
            log.retain(topic.partition(ZERO), Retention(ms=60_000), below=Offset(120)),
            log.trim(topic.partition(ZERO), Offset(100)),
            log.retain(topic.partition(ZERO), Retention(ms=80_000), below=Offset(120)),
            log.trim(topic.partition(ZERO), Offset(20)),
        )
        assert list(found) == sorted(found), "each of them begins where the one before left off"
        assert (await log.bounds(topic.partition(ZERO))).earliest == max(found)
    async with await EmbeddedLog.open(HOME, disk=disk, settings=SMALL, clock=lambda: now_ms[0]) as log:
        assert log.recovery.damages == []
        assert (await log.bounds(topic.partition(ZERO))).earliest == max(found)


async def test_what_was_trimmed_is_not_called_missing() -> None:
    """The oldest file of a trimmed log is gone: what lay below was trimmed all the same."""
    disk = MemoryDisk()
    async with await open_log(disk, SMALL) as log:
        topic = await log.create_topic("flights", partitions=1)
        for number in range(120):
            await log.append(topic.partition(ZERO), plain_batch(f"k{number}"))
        earliest = await log.trim(topic.partition(ZERO), Offset(60))
        assert earliest > 0
    oldest = min(path for path in disk.files if path.suffix == ".log" and str(topic.id) in str(path))
    disk.unlink(oldest)
    async with await open_log(disk, SMALL) as log:
        (damage,) = log.recovery.damages
        first = (await log.bounds(topic.partition(ZERO))).earliest
        assert first > earliest
        for start in (0, earliest - 1):
            with pytest.raises(OffsetTrimmed):
                await read_all(log, topic.id, start=start)
        for start in (earliest, first - 1):
            with pytest.raises(LogDamaged) as missing:
                await read_all(log, topic.id, start=start)
            assert missing.value.message == damage.message
