"""A disk that fails: a failed sync is final, a full disk passes, a full queue says so."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import threading
from pathlib import Path

import pytest
from kit.deadlines import patience_s, until
from kit.log.engine_steps import HOME, SMALL, ZERO, copy_of, open_log, segment_files
from kit.log.sample_batches import keys_of, plain_batch, read_all

from duramen.testing.machine.memory_disk import MemoryDisk
from log_tier.embedded import EmbeddedLog, EngineSettings
from log_tier.model.batch_header import BATCH_BYTES_MAX
from log_tier.model.errors import (
    DiskFull,
    FolderReadOnly,
    LogStopped,
    Overloaded,
    ShuttingDown,
    WriteUnknown,
)
from log_tier.model.identifiers import Offset, Partition


def fail_once(disk: MemoryDisk, what: str, suffix: str, number: int) -> None:
    """Make one step of a kind fail with an I/O error, on files of one suffix."""

    def on_step(step: str, path: Path) -> None:
        nonlocal number
        if step == what and path.suffix == suffix:
            number -= 1
            if number == 0:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

    disk.on_step = on_step


@pytest.mark.parametrize("what", ["sync", "write"])
async def test_after_a_failed_sync_nothing_is_acknowledged_and_reads_go_on(what: str) -> None:
    disk = MemoryDisk()
    async with await open_log(disk) as log:
        topic = await log.create_topic("flights", partitions=2)
        for number in range(5):
            await log.append(topic.partition(ZERO), plain_batch(f"k{number}"))
        fail_once(disk, what, ".log", 1)
        with pytest.raises(WriteUnknown, match="restart"):
            await log.append(topic.partition(ZERO), plain_batch("lost"))
        syncs = disk.steps
        for partition in (ZERO, Partition(1)):
            with pytest.raises(LogStopped):
                await log.append(topic.partition(partition), plain_batch("later"))
        with pytest.raises(LogStopped):
            await log.create_topic("other", partitions=1)
        assert disk.steps == syncs, "nothing is written or synced any more"
        assert keys_of(await read_all(log, topic.id)) == {n: b"k%d" % n for n in range(5)}
        assert (await log.bounds(topic.partition(ZERO))).latest == 4
        killed = copy_of(disk)
    async with await open_log(killed) as log:
        assert keys_of(await read_all(log, topic.id)).items() >= {n: b"k%d" % n for n in range(5)}.items()


async def test_every_caller_in_a_failed_commit_gets_its_error() -> None:
    disk = MemoryDisk()
    async with await open_log(disk) as log:
        topic = await log.create_topic("flights", partitions=3)
        await asyncio.gather(*(log.append(topic.partition(n % 3), plain_batch("a")) for n in range(30)))
        disk.on_step = lambda step, path: _raise(errno.EIO) if step == "sync" else None
        outcomes = await asyncio.wait_for(
            asyncio.gather(
                *(log.append(topic.partition(n % 3), plain_batch("b")) for n in range(30)), return_exceptions=True
            ),
            20,
        )
        # Whom the writer's thread had not taken yet was queued behind the failed commit, and is not written.
        assert {type(outcome) for outcome in outcomes} <= {WriteUnknown, LogStopped}
        assert any(isinstance(outcome, WriteUnknown) for outcome in outcomes)
        disk.on_step = lambda step, path: None


def _raise(number: int) -> None:
    raise OSError(number, os.strerror(number))


async def test_what_was_queued_behind_a_failed_sync_is_not_written() -> None:
    disk = MemoryDisk()
    async with await open_log(disk) as log:
        topic = await log.create_topic("flights", partitions=1)
        await log.append(topic.partition(ZERO), plain_batch("a"))
        in_sync, queued = threading.Event(), threading.Event()
        steps: list[str] = []

        def on_step(step: str, path: Path) -> None:
            steps.append(step)
            if step == "sync" and not in_sync.is_set():
                in_sync.set()
                assert queued.wait(patience_s(20))
                _raise(errno.EIO)

        disk.on_step = on_step
        first = asyncio.ensure_future(log.append(topic.partition(ZERO), plain_batch("b")))
        assert await asyncio.to_thread(in_sync.wait, 20)
        behind = [asyncio.ensure_future(log.append(topic.partition(ZERO), plain_batch("c"))) for _ in range(3)]
        await asyncio.sleep(0)
        queued.set()
        outcomes = await asyncio.wait_for(asyncio.gather(first, *behind, return_exceptions=True), patience_s(20))
        assert type(outcomes[0]) is WriteUnknown, "its bytes were written"
        assert {type(outcome) for outcome in outcomes[1:]} == {LogStopped}, "these never reached the disk"
        assert steps == ["write", "sync"]


async def test_a_waiting_follower_survives_a_stopped_log() -> None:
    disk = MemoryDisk()
    async with await open_log(disk) as log:
        topic = await log.create_topic("flights", partitions=1)
        await log.append(topic.partition(ZERO), plain_batch("a"))
        chunks = log.read(topic.partition(ZERO), Offset(1), follow=True)
        waiting = asyncio.ensure_future(anext(chunks))
        await asyncio.sleep(0)
        fail_once(disk, "sync", ".log", 1)
        with pytest.raises(WriteUnknown):
            await log.append(topic.partition(ZERO), plain_batch("b"))
        assert not waiting.done(), "what was not synced is not shown"
        await log.close()
        with pytest.raises(ShuttingDown):
            await asyncio.wait_for(waiting, patience_s(20))


@pytest.mark.parametrize(
    ("number", "remedy"),
    [(errno.ENOSPC, "free space"), (errno.EDQUOT, "free space"), (errno.EFBIG, "ulimit -f")],
    ids=["ENOSPC", "EDQUOT", "EFBIG"],
)
async def test_a_full_disk_refuses_keeps_reading_and_goes_on_when_space_returns(number: int, remedy: str) -> None:
    disk = MemoryDisk()
    disk.no_space = number
    log = await open_log(disk)
    topic = await log.create_topic("flights", partitions=2)
    disk.space = 5_000
    written = 0
    with contextlib.suppress(DiskFull):
        while written < 1000:
            await log.append(topic.partition(ZERO), plain_batch(f"k{written}", value=b"x" * 100))
            written += 1
    assert 5 < written < 1000
    for _ in range(3):
        with pytest.raises(DiskFull, match=remedy):
            await log.append(topic.partition(ZERO), plain_batch("refused", value=b"x" * 100))
    assert keys_of(await read_all(log, topic.id)) == {n: b"k%d" % n for n in range(written)}
    disk.space = None
    place = await log.append(topic.partition(ZERO), plain_batch("after"))
    assert place.base_offset == written
    for number in range(40):
        await log.append(topic.partition(ZERO), plain_batch(f"more{number}", value=b"x" * 100))
    killed = copy_of(disk)
    await log.close()
    for found in (killed, disk):
        async with await open_log(found) as log:
            assert log.recovery.damages == []
            assert (await log.bounds(topic.partition(ZERO))).latest == written + 40
            assert keys_of(await read_all(log, topic.id))[written] == b"after"


@pytest.mark.parametrize("space", range(0, 6000, 487))
async def test_wherever_space_ends_nothing_acknowledged_is_lost(space: int) -> None:
    disk = MemoryDisk()
    log = await open_log(disk)
    topic = await log.create_topic("flights", partitions=1)
    disk.space = space
    kept = 0
    for number in range(60):
        try:
            await log.append(topic.partition(ZERO), plain_batch(f"k{number}", value=b"x" * 100))
            kept += 1
        except DiskFull:
            break
    killed = copy_of(disk)
    disk.space = None
    await log.append(topic.partition(ZERO), plain_batch("after"))
    await log.close()
    for found, count in ((killed, kept), (disk, kept + 1)):
        async with await open_log(found) as log:
            assert log.recovery.damages == []
            assert (await log.bounds(topic.partition(ZERO))).latest == count - 1


async def test_one_partition_without_space_does_not_stop_another() -> None:
    disk = MemoryDisk()
    async with await open_log(disk) as log:
        topic = await log.create_topic("flights", partitions=2)
        for partition in (0, 1):
            await log.append(topic.partition(partition), plain_batch("a"))
        disk.space = 0
        outcomes = await asyncio.gather(
            log.append(topic.partition(ZERO), plain_batch("big", value=b"x" * 4000)),
            log.append(topic.partition(1), plain_batch("small")),
            return_exceptions=True,
        )
        assert isinstance(outcomes[0], DiskFull)
        assert not isinstance(outcomes[1], BaseException)
        disk.space = None


async def test_a_queue_over_its_limits_says_overloaded() -> None:
    disk = MemoryDisk()
    options = EngineSettings(queue_batches_max=10, queue_bytes_max=BATCH_BYTES_MAX)
    async with await open_log(disk, options) as log:
        topic = await log.create_topic("flights", partitions=1)
        outcomes = await asyncio.gather(
            *(log.append(topic.partition(ZERO), plain_batch(f"k{n}")) for n in range(2000)), return_exceptions=True
        )
        refused = [outcome for outcome in outcomes if isinstance(outcome, Overloaded)]
        assert refused
        assert refused[0].retryable
        accepted = len(outcomes) - len(refused)
        assert accepted >= 10
        assert (await log.bounds(topic.partition(ZERO))).latest == accepted - 1
        await log.append(topic.partition(ZERO), plain_batch("later"))


async def test_closing_commits_what_was_accepted_and_ends_readers() -> None:
    disk = MemoryDisk()
    log = await open_log(disk)
    topic = await log.create_topic("flights", partitions=1)
    chunks = log.read(topic.partition(ZERO), Offset(0), follow=True)
    waiting = asyncio.ensure_future(anext(chunks))
    await asyncio.sleep(0)
    appends = [asyncio.ensure_future(log.append(topic.partition(ZERO), plain_batch(f"k{n}"))) for n in range(50)]
    await asyncio.sleep(0)
    await log.close()
    places = await asyncio.gather(*appends)
    assert sorted(place.base_offset for place in places) == list(range(50))
    outcome = await asyncio.gather(waiting, return_exceptions=True)
    assert not isinstance(outcome[0], asyncio.CancelledError)
    with pytest.raises(ShuttingDown):
        await log.append(topic.partition(ZERO), plain_batch("late"))
    with pytest.raises(ShuttingDown):
        await log.topics()
    await log.close()
    assert not disk.open_files, "every file is closed"
    assert not disk.locks
    async with await open_log(disk) as log:
        assert (await log.bounds(topic.partition(ZERO))).latest == 49


async def test_a_closed_reader_lets_go_of_its_file() -> None:
    disk = MemoryDisk()
    async with await open_log(disk, EngineSettings(segment_bytes=4096, tail_bytes_max=0)) as log:
        topic = await log.create_topic("flights", partitions=1)
        for number in range(100):
            await log.append(topic.partition(ZERO), plain_batch(f"k{number}", value=b"x" * 100))
        held = len(disk.open_files)
        for taken in range(5):
            chunks = log.read(topic.partition(ZERO), Offset(0), follow=True, chunk_bytes=500)
            for _ in range(taken):
                await anext(chunks)
            if taken:
                assert len(disk.open_files) > held, "a reader has a file"
            await chunks.aclose()
            await until(lambda: len(disk.open_files) <= held)
        assert len(disk.open_files) == held


async def test_a_folder_that_cannot_be_written() -> None:
    disk = MemoryDisk()
    disk.on_step = lambda step, path: _raise(errno.EROFS)
    with pytest.raises(FolderReadOnly, match="make it writable"):
        await EmbeddedLog.open(HOME, disk=disk)
    disk.on_step = lambda step, path: _raise(errno.ENOSPC) if step == "write" else None
    with pytest.raises(DiskFull):
        await EmbeddedLog.open(HOME, disk=disk)
    disk.on_step = lambda step, path: None
    async with await open_log(disk) as log:
        assert await log.topics() == []


async def test_a_segment_begins_only_when_the_one_before_is_full() -> None:
    disk = MemoryDisk()
    async with await open_log(disk, SMALL) as log:
        topic = await log.create_topic("flights", partitions=1)
        for number in range(40):
            await log.append(topic.partition(ZERO), plain_batch(f"k{number}", value=b"x" * 100))
        files = segment_files(disk, topic)
        for path in files[:-1]:
            assert 1700 < disk.files[path].length <= 2048, "sealed segments end with their last batch"
        await log.append(topic.partition(ZERO), plain_batch("large", value=b"x" * 10_000))
        assert disk.files[segment_files(disk, topic)[-1]].length >= 10_000, "a large batch has a segment of its own"
        assert len(await read_all(log, topic.id)) == 41
