"""A disk that answers slowly holds up who uses it, and not the appends of the same partition.

The appends here, and `bounds_now`, which runs on the event loop, happen while another thread is held in a call of the
disk.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from kit.log.engine_steps import ZERO, open_log, segment_files
from kit.log.held_step import HeldStep
from kit.log.sample_batches import keys_of, plain_batch, read_all

from duramen.testing.machine.memory_disk import MemoryDisk
from log_tier.embedded import EmbeddedLog
from log_tier.model.errors import TableNotFound
from log_tier.model.identifiers import Offset
from log_tier.model.log import Topic

RECORDS = 120
ALL = {number: b"k%d" % number for number in range(RECORDS)}


async def several_segments(disk: MemoryDisk, *, keys: int = RECORDS) -> tuple[EmbeddedLog, Topic]:
    """A log that was opened anew, so that nothing of its partition is in memory."""
    async with await open_log(disk) as log:
        topic = await log.create_topic("flights", partitions=1)
        for number in range(RECORDS):
            await log.append(topic.partition(ZERO), plain_batch(f"k{number % keys}"))
    assert len(segment_files(disk, topic)) > 3
    return await open_log(disk), topic


async def append_one(log: EmbeddedLog, topic: Topic) -> None:
    latest = log.bounds_now(topic.partition(ZERO)).latest
    appended = await log.append(topic.partition(ZERO), plain_batch("new"))
    assert appended.base_offset == latest + 1


async def test_appends_go_on_while_a_reader_opens_a_file() -> None:
    disk = MemoryDisk()
    log, topic = await several_segments(disk)
    async with log:
        await append_one(log, topic)  # the partition is awake, and its newest file open
        first = segment_files(disk, topic)[0]
        held = HeldStep(disk, "open", lambda path: path == first)
        reading = asyncio.create_task(read_all(log, topic.id))
        await held.reached()
        await append_one(log, topic)
        assert not reading.done()
        held.let_go()
        assert keys_of(await reading).items() >= ALL.items()


async def test_appends_go_on_while_a_compacted_segment_is_renamed_and_a_reader_comes() -> None:
    disk = MemoryDisk()
    log, topic = await several_segments(disk, keys=7)
    async with log:
        await append_one(log, topic)
        held = HeldStep(disk, "rename", lambda path: ".log" in path.name)
        compacting = asyncio.create_task(log.compact(topic.partition(ZERO), Offset(RECORDS)))
        await held.reached()
        await append_one(log, topic)
        reading = asyncio.create_task(read_all(log, topic.id))
        await append_one(log, topic)
        assert not compacting.done()
        held.let_go()
        assert await compacting > 0
        check_newest_of_each_key(keys_of(await reading))


def check_newest_of_each_key(seen: dict[int, bytes]) -> None:
    written = {number: b"k%d" % (number % 7) for number in range(RECORDS)}
    newest = {key: number for number, key in written.items()}
    assert {number: written[number] for number in newest.values()}.items() <= seen.items()
    assert {number: key for number, key in seen.items() if key != b"new"}.items() <= written.items()


class HeldRename(MemoryDisk):
    """Holds a compacted segment after its rename, before the log can say so."""

    held: HeldStep | None = None

    def rename(self, old: Path, new: Path) -> None:
        super().rename(old, new)
        if self.held is not None and new.suffix == ".log":
            held, self.held = self.held, None
            held.hold()


async def test_a_reader_never_has_the_new_file_with_the_old_facts() -> None:
    disk = HeldRename()
    log, topic = await several_segments(disk, keys=7)
    async with log:
        disk.held = held = HeldStep(disk, "nothing")
        compacting = asyncio.create_task(log.compact(topic.partition(ZERO), Offset(RECORDS)))
        await held.reached()
        reading = asyncio.create_task(read_all(log, topic.id))
        for _ in range(20):  # time enough for a reader that waits for nothing
            await append_one(log, topic)
        held.let_go()
        assert await compacting > 0
        check_newest_of_each_key(keys_of(await reading))


async def test_a_segment_that_is_trimmed_while_a_reader_opens_it_is_not_called_missing() -> None:
    disk = MemoryDisk()
    log, topic = await several_segments(disk)
    async with log:
        await append_one(log, topic)
        first = segment_files(disk, topic)[0]
        held = HeldStep(disk, "open", lambda path: path == first)
        reading = asyncio.create_task(read_all(log, topic.id))
        await held.reached()
        trimming = asyncio.create_task(log.trim(topic.partition(ZERO), Offset(RECORDS // 2)))
        for _ in range(20):
            await append_one(log, topic)
        held.let_go()
        assert await trimming > 0
        assert first not in disk.files
        # What the reader has open it reads to its end; then it meets that the next one is gone, or goes on.
        await asyncio.wait([reading])
        error = reading.exception()
        assert error is None or "was requested: start from a snapshot" in str(error)


async def test_a_reader_of_a_topic_that_is_deleted_learns_that_and_not_of_damage() -> None:
    disk = MemoryDisk()
    log, topic = await several_segments(disk)
    async with log:
        first = segment_files(disk, topic)[0]
        held = HeldStep(disk, "open", lambda path: path == first)
        reading = asyncio.create_task(read_all(log, topic.id))
        await held.reached()
        await log.delete_topic(topic.id)
        held.let_go()
        with pytest.raises(TableNotFound, match="was deleted"):
            await reading
