"""Closing a log of many partitions: by several threads, with one sync for each segment, safe at every step."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import random
import threading
from collections import Counter
from pathlib import Path

import pytest
from kit.log.engine_steps import open_log, segment_files
from kit.log.sample_batches import keys_of, plain_batch, read_all

from duramen.testing.machine.memory_disk import MemoryDisk
from log_tier.embedded import EmbeddedLog
from log_tier.model.errors import DuramenError, LogStopped
from log_tier.model.identifiers import Partition
from log_tier.model.log import Topic

MANY = 80
DEADLINE_S = 30.0


async def written(disk: MemoryDisk, partitions: int) -> tuple[EmbeddedLog, Topic]:
    """A log with one record in each partition, committed together: only the journal has made them stable."""
    log = await open_log(disk)
    topic = await log.create_topic("flights", partitions=partitions)
    parts = [(topic.partition(Partition(number)), plain_batch(f"key{number}")) for number in range(partitions)]
    assert not [place for place in await log.append_many(parts) if isinstance(place, DuramenError)]
    return log, topic


async def check_all_there(disk: MemoryDisk, topic: Topic) -> None:
    async with await open_log(disk) as log:
        for number in range(topic.partitions):
            assert keys_of(await read_all(log, topic.id, number)) == {0: b"key%d" % number}


async def test_partitions_are_synced_at_the_same_time() -> None:
    disk = MemoryDisk()
    log, topic = await written(disk, MANY)
    together, numbers = threading.Barrier(2, timeout=DEADLINE_S), itertools.count()

    def meet(what: str, path: Path) -> None:
        if what == "sync" and next(numbers) < 2:
            together.wait()  # breaks, and fails the close, where nobody else comes meanwhile

    disk.on_step = meet
    await log.close()
    disk.on_step = lambda what, path: None
    assert not disk.open_files
    await check_all_there(disk, topic)


@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_second_close_waits_for_the_first(cancelled: bool) -> None:
    """It returned at once, and who then opened the folder found it in use."""
    disk = MemoryDisk()
    log, topic = await written(disk, 3)
    reached, go_on = threading.Event(), threading.Event()

    def stop(what: str, path: Path) -> None:
        if what == "sync":
            reached.set()
            assert go_on.wait(DEADLINE_S)

    disk.on_step = stop
    first = asyncio.create_task(log.close())
    assert await asyncio.to_thread(reached.wait, DEADLINE_S)
    second = asyncio.create_task(log.close())
    for _ in range(5):
        await asyncio.sleep(0)
    if cancelled:
        second.cancel()
        await asyncio.sleep(0)
    is_early = second.done()
    go_on.set()
    (ended,) = await asyncio.gather(second, return_exceptions=True)
    assert isinstance(ended, asyncio.CancelledError) is cancelled
    assert not is_early
    disk.on_step = lambda what, path: None
    await check_all_there(disk, topic)
    await first
    await log.close()


@pytest.mark.parametrize("partitions", [3, MANY])
async def test_a_segment_is_synced_once(partitions: int) -> None:
    disk = MemoryDisk()
    log, topic = await written(disk, partitions)
    segments = {path for number in range(partitions) for path in segment_files(disk, topic, number)}
    syncs: Counter[Path] = Counter()
    disk.on_step = lambda what, path: syncs.update([path] if what == "sync" and path in segments else [])
    await log.close()
    assert syncs == dict.fromkeys(segments, 1)


async def test_a_partition_that_was_written_to_takes_three_syncs() -> None:
    """The checkpoint says first that the file may be as short as its batches. A close of thousands of partitions waits
    for little else.
    """
    disk = MemoryDisk()
    log, topic = await written(disk, 3)
    (segment,) = segment_files(disk, topic, 1)
    syncs: list[str] = []

    def note(what: str, path: Path) -> None:
        if what.startswith("sync") and segment.parent in (path, path.parent):
            syncs.append(f"{what} {path.name}")

    disk.on_step = note
    await log.close()
    assert syncs == ["sync checkpoint.json.part", "sync_folder 1", f"sync {segment.name}"]


@pytest.mark.parametrize("seed", range(12))
async def test_power_may_fail_at_any_step_of_it(seed: int) -> None:
    chance = random.Random(seed)
    disk = MemoryDisk()
    log, topic = await written(disk, MANY)
    last_step = disk.steps + chance.randrange(6 * MANY)
    survivors: list[MemoryDisk] = []
    pulling = threading.Lock()

    def pull(what: str, path: Path) -> None:
        with pulling:
            if not survivors and disk.steps >= last_step:
                survivors.append(disk.after_power_loss(chance))

    disk.on_step = pull
    await log.close()
    assert survivors, "it takes more steps than that"
    await check_all_there(survivors[0], topic)
    await check_all_there(disk, topic)


async def test_one_that_fails_leaves_the_others_closed_and_nothing_lost() -> None:
    disk = MemoryDisk()
    log, topic = await written(disk, MANY)
    (bad,) = segment_files(disk, topic, 17)

    def fail(what: str, path: Path) -> None:
        if what == "sync" and path == bad:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    disk.on_step = fail
    with pytest.raises(LogStopped, match=str(bad)):
        await log.close()
    assert not disk.open_files
    assert not disk.locks
    await check_all_there(disk.after_process_end(), topic)
