"""What the engine counts, when it begins a file, and what it leaves behind."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from kit.deadlines import until, within
from kit.log.engine_steps import SMALL, open_log, segment_files
from kit.log.sample_batches import keys_of, plain_batch, read_all

from duramen.testing.machine.memory_disk import MemoryDisk
from log_tier.model.errors import DuramenError, LogStopped, WriteUnknown
from log_tier.model.log import Appended, Topic


async def test_every_acknowledged_batch_is_counted_once() -> None:
    log = await open_log(MemoryDisk())
    try:
        topic = await log.create_topic("flights", partitions=2)
        begun = log.statistics()
        assert (begun.appends, begun.commits, begun.bytes) == (0, 0, 0)
        one = plain_batch("a")
        for number in range(3):
            await log.append(topic.partition(number % 2), one)
        counted = log.statistics()
        assert (counted.topics, counted.appends, counted.bytes) == (1, 3, 3 * len(one))
        assert 1 <= counted.commits <= 3
    finally:
        await log.close()


@pytest.mark.parametrize("value_bytes", [400, 5000], ids=["in one piece", "in a file that grows"])
async def test_a_segment_may_be_filled_to_its_last_byte(value_bytes: int) -> None:
    batch = plain_batch("a", value=b"x" * value_bytes)
    size = len(batch)
    disk = MemoryDisk()
    log = await open_log(disk, replace(SMALL, segment_bytes=4 * size))
    try:
        topic = await log.create_topic("flights", partitions=1)
        for number in range(5):
            await log.append(topic.partition(0), batch)
            assert len(segment_files(disk, topic)) == (1 if number < 4 else 2), number
    finally:
        await log.close()


async def test_a_log_that_is_closed_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    log = await open_log(MemoryDisk())
    topic = await log.create_topic("flights", partitions=1)
    await log.append(topic.partition(0), plain_batch("a"))
    assert set(threading.enumerate()) - before, "its writer has a thread"
    await log.close()

    def left() -> list[str]:
        return [each.name for each in threading.enumerate() if each not in before and "duramen-log" in each.name]

    await until(lambda: not left())
    assert left() == [], "the writer, the keeper and the readers have ended"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_bug_in_the_writer_is_reported_to_everyone_who_waits() -> None:
    """What it was about to write may be in the log; what waited behind it is not."""
    disk = MemoryDisk()
    log = await open_log(disk, replace(SMALL, quick_commit_s=0.0))
    topic = await log.create_topic("flights", partitions=2)
    await log.append(topic.partition(0), plain_batch("a"))
    loop = asyncio.get_running_loop()
    behind: list[asyncio.Future[Appended]] = []

    def bug(step: str, path: Path) -> None:
        disk.on_step = lambda step, path: None
        asyncio.run_coroutine_threadsafe(wait_behind(), loop).result()
        raise ZeroDivisionError

    async def wait_behind() -> None:
        behind.extend(
            asyncio.ensure_future(log.append(topic.partition(number), plain_batch("behind"))) for number in range(2)
        )
        await asyncio.sleep(0)

    disk.on_step = bug
    async with within(20):
        with pytest.raises(WriteUnknown, match="ZeroDivisionError"):
            await log.append(topic.partition(0), plain_batch("b"))
        answers = await asyncio.gather(*behind, return_exceptions=True)
        assert [type(each) for each in answers] == [LogStopped, LogStopped]
        with pytest.raises(LogStopped):
            await log.append(topic.partition(1), plain_batch("c"))
    with suppress(DuramenError):
        await log.close()
    assert set(keys_of(await read_stored(disk, topic)).values()) <= {b"a", b"b"}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_bug_in_an_errand_of_the_writer_is_reported_too() -> None:
    """A trim writes its checkpoint in the writer's thread."""
    disk = MemoryDisk()
    log = await open_log(disk)
    topic = await log.create_topic("flights", partitions=1)
    while len(segment_files(disk, topic)) < 3:
        end = await log.append(topic.partition(0), plain_batch("a", value=b"x" * 400))

    def bug(step: str, path: Path) -> None:
        disk.on_step = lambda step, path: None
        raise ZeroDivisionError

    disk.on_step = bug
    async with within(20):
        with pytest.raises(LogStopped, match="ZeroDivisionError"):
            await log.trim(topic.partition(0), end.base_offset)
        with pytest.raises(LogStopped):
            await log.append(topic.partition(0), plain_batch("b"))
    with suppress(DuramenError):
        await log.close()
    async with await open_log(disk.after_process_end()) as log:
        assert (await log.bounds(topic.partition(0))).latest == end.base_offset


async def read_stored(disk: MemoryDisk, topic: Topic) -> list[bytes]:
    async with await open_log(disk.after_process_end()) as log:
        return [batch for number in range(2) for batch in await read_all(log, topic.id, number)]
