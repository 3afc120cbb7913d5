"""Partitions at rest whose files were damaged while the log was closed: refused by name at the latest at first use."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest
from kit.deadlines import patience_s
from kit.log.engine_steps import HOME, SMALL, open_log, overwrite, segment_files
from kit.log.sample_batches import keys_of, plain_batch, read_all

from duramen.testing.machine.memory_disk import MemoryDisk
from log_tier.catalog.catalog import Catalog
from log_tier.catalog.commands import RegisterNode
from log_tier.embedded import EmbeddedLog
from log_tier.embedded.recovery.log_summary import LogSummary
from log_tier.model.errors import DiskFailed, LogDamaged, Overloaded
from log_tier.model.identifiers import Offset
from log_tier.model.log import Topic

RESTS = replace(SMALL, summary_partitions_min=1)
RECORDS = 6


async def closed_log() -> tuple[MemoryDisk, Topic, MemoryDisk]:
    """A log of two partitions that was closed cleanly, and what it was before its last three records."""
    disk = MemoryDisk()
    async with await open_log(disk, RESTS) as log:
        topic = await log.create_topic("flights", partitions=2)
        for number in range(RECORDS // 2):
            for p in range(2):
                await log.append(topic.partition(p), plain_batch(f"{p}.{number}"))
    older = disk.after_process_end()
    async with await open_log(disk, RESTS) as log:
        for number in range(RECORDS // 2, RECORDS):
            for p in range(2):
                await log.append(topic.partition(p), plain_batch(f"{p}.{number}"))
    return disk, topic, older


def truncated(disk: MemoryDisk, older: MemoryDisk, segment: Path) -> None:
    overwrite(disk, segment, bytes(disk.files[segment].content)[:-10])


def cut_at_a_batch(disk: MemoryDisk, older: MemoryDisk, segment: Path) -> None:
    content = bytes(disk.files[segment].content)
    overwrite(disk, segment, content[: len(content) // RECORDS * (RECORDS - 1)])


def emptied(disk: MemoryDisk, older: MemoryDisk, segment: Path) -> None:
    overwrite(disk, segment, b"")


def removed(disk: MemoryDisk, older: MemoryDisk, segment: Path) -> None:
    disk.unlink(segment)


def replaced(disk: MemoryDisk, older: MemoryDisk, segment: Path) -> None:
    overwrite(disk, segment, bytes(older.files[segment].content))


def folder_replaced(disk: MemoryDisk, older: MemoryDisk, segment: Path) -> None:
    """Everything that proves the end by itself is of the older copy too; the summary alone knows better."""
    for path in [path for path in disk.files if path.parent == segment.parent]:
        overwrite(disk, path, bytes(older.files[path].content))


def folder_emptied(disk: MemoryDisk, older: MemoryDisk, segment: Path) -> None:
    for path in [path for path in disk.files if path.parent == segment.parent]:
        disk.unlink(path)


def flipped(disk: MemoryDisk, older: MemoryDisk, segment: Path) -> None:
    disk.files[segment].content[-5] ^= 4


DAMAGES = (truncated, cut_at_a_batch, emptied, removed, replaced, folder_replaced, folder_emptied, flipped)


def forge(disk: MemoryDisk, log_id: str, topic: Topic) -> None:
    """Have the summary name the files as they are now, as if they had not been changed since the close."""
    found = LogSummary.take(disk, HOME, log_id)  # type: ignore[arg-type]
    known = found.topics[topic.id]
    parts = []
    for number, each in enumerate(known.partitions):
        assert each is not None
        names = [".", "checkpoint.json", *(f"{base:020d}.log" for base, *_ in each.segments)]
        files = disk.identities(HOME / "topics" / topic.id / str(number), names)
        parts.append(each._replace(files=tuple(files)))
    found._replace(topics={topic.id: known._replace(partitions=tuple(parts))}).write(disk, HOME, log_id)  # type: ignore[arg-type]


def log_id_of(disk: MemoryDisk) -> str:
    text = disk.files[HOME / "duramen.json"].content.decode()
    return text.partition('"id": "')[2][:22]


async def check_other_partition(log: EmbeddedLog, topic: Topic) -> None:
    assert (await log.append(topic.partition(1), plain_batch("next"))).base_offset == RECORDS
    assert len(keys_of(await read_all(log, topic.id, 1))) == RECORDS + 1


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
async def test_damage_that_shows_in_the_files_is_found_at_open(
    damage: Callable[[MemoryDisk, MemoryDisk, Path], None],
) -> None:
    disk, topic, older = await closed_log()
    (segment,) = segment_files(disk, topic, 0)
    damage(disk, older, segment)
    if damage is flipped:
        disk.files[segment].changed = disk.tick()
    async with await open_log(disk, RESTS) as log:
        at_rest = [each.is_at_rest for each in log._topics[topic.id].partitions]
        assert at_rest == [False, True]
        (found,) = log.recovery.damages
        assert found.fields["file"] == str(segment)
        with pytest.raises(LogDamaged):
            await log.append(topic.partition(0), plain_batch("k"))
        await check_other_partition(log, topic)


@pytest.mark.parametrize("use", ["append", "read", "follow"])
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
async def test_damage_that_does_not_show_is_found_at_first_use(
    damage: Callable[[MemoryDisk, MemoryDisk, Path], None], use: str
) -> None:
    disk, topic, older = await closed_log()
    (segment,) = segment_files(disk, topic, 0)
    damage(disk, older, segment)
    forge(disk, log_id_of(disk), topic)
    before = {path: bytes(inode.content) for path, inode in disk.files.items() if topic.id in str(path)}
    async with await open_log(disk, RESTS) as log:
        assert all(each.is_at_rest for each in log._topics[topic.id].partitions)
        if use == "append":
            with pytest.raises(LogDamaged) as caught:
                await log.append(topic.partition(0), plain_batch("k"))
        elif use == "read":
            with pytest.raises(LogDamaged) as caught:
                await read_all(log, topic.id, 0)
        else:
            follower = asyncio.create_task(follow(log, topic))
            await asyncio.sleep(0)
            with pytest.raises(LogDamaged):
                await log.append(topic.partition(0), plain_batch("k"))
            with pytest.raises(LogDamaged) as caught:
                await asyncio.wait_for(follower, patience_s(30))
        assert caught.value.fields["file"] == str(segment)
        assert [found.fields["file"] for found in log.recovery.damages] == [str(segment)]
        for _ in range(2):
            with pytest.raises(LogDamaged):
                await log.append(topic.partition(0), plain_batch("k"))
        now = {path: bytes(inode.content) for path, inode in disk.files.items() if path.parent == segment.parent}
        assert now == {path: content for path, content in before.items() if path.parent == segment.parent}
        await check_other_partition(log, topic)
    for _ in range(2):  # it is refused for as long as it is not mended
        async with await open_log(disk, RESTS) as log:
            with pytest.raises(LogDamaged):
                await log.append(topic.partition(0), plain_batch("k"))
            assert [found.fields["file"] for found in log.recovery.damages] == [str(segment)]


async def follow(log: EmbeddedLog, topic: Topic) -> None:
    async with aclosing(log.read(topic.partition(0), Offset(RECORDS), follow=True)) as chunks:
        async for chunk in chunks:
            raise AssertionError(f"nothing can be there: {chunk}")


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE], ids=["EIO", "EMFILE"])
async def test_files_that_cannot_be_looked_at_now_refuse_this_write_alone(number: int) -> None:
    disk, topic, _ = await closed_log()
    folder = HOME / "topics" / topic.id / "0"
    async with await open_log(disk, RESTS) as log:

        def fails(what: str, path: Path) -> None:
            if what in ("list", "open") and folder in (path, path.parent):
                raise OSError(number, os.strerror(number))

        disk.on_look = fails
        for _ in range(2):
            with pytest.raises(Overloaded if number == errno.EMFILE else DiskFailed):
                await log.append(topic.partition(0), plain_batch("k"))
        if number == errno.EIO:
            with pytest.raises(DiskFailed):
                await read_all(log, topic.id, 0)
        await check_other_partition(log, topic)
        disk.on_look = lambda what, path: None
        assert (await log.append(topic.partition(0), plain_batch("k"))).base_offset == RECORDS
        assert len(keys_of(await read_all(log, topic.id, 0))) == RECORDS + 1


async def test_damage_of_the_catalog_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    """Every start reads it: the caller of that read says what is wrong, and the log's own line said it again."""
    disk = MemoryDisk()
    async with await open_log(disk, RESTS) as log:
        catalog = await Catalog.open(log)
        for number in range(3):
            await catalog.submit(RegisterNode(f"n{number}", "host:1", "a"))
        await catalog.close()
    (segment,) = (path for path in disk.files if path.suffix == ".log" and disk.files[path].content)
    flipped(disk, disk, segment)
    async with await open_log(disk, RESTS) as log:
        assert [damage.fields["file"] for damage in log.recovery.damages] == [str(segment)]
        with pytest.raises(LogDamaged, match="stable storage"):
            await Catalog.open(log)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []
