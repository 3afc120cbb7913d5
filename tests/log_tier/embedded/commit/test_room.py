"""The first commit over many partitions makes their files together: concurrently, and each one's in its own order."""

from __future__ import annotations

import errno
import itertools
import os
import random
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from kit.deadlines import patience_s
from kit.log.engine_steps import SMALL, open_log, segment_files
from kit.log.sample_batches import keys_of, plain_batch, read_all

from duramen.testing.machine.memory_disk import MemoryDisk
from log_tier.embedded import EmbeddedLog
from log_tier.model.errors import DiskFull, DuramenError, LogStopped, WriteUnknown
from log_tier.model.identifiers import Partition
from log_tier.model.log import Appended, Topic

MANY = 40


async def append_to_all(log: EmbeddedLog, topic: Topic, prefix: str) -> list[Appended | DuramenError]:
    """One record to each partition, in one commit."""
    parts = [(topic.partition(Partition(n)), plain_batch(f"{prefix}{n}")) for n in range(topic.partitions)]
    return list(await log.append_many(parts))


async def check_all(disk: MemoryDisk, topic: Topic, *prefixes: str) -> None:
    async with await open_log(disk) as log:
        for number in range(topic.partitions):
            found = keys_of(await read_all(log, topic.id, number))
            assert found == {at: f"{prefix}{number}".encode() for at, prefix in enumerate(prefixes)}, number


async def test_the_files_of_many_fresh_partitions_are_synced_at_the_same_time() -> None:
    disk = MemoryDisk()
    async with await open_log(disk) as log:
        topic = await log.create_topic("flights", partitions=MANY)
        together, numbers = threading.Barrier(2, timeout=patience_s(20)), itertools.count()

        def meet(what: str, path: Path) -> None:
            if what == "sync" and next(numbers) < 2:
                together.wait()  # breaks, and fails the commit, where nobody else comes meanwhile

        disk.on_step = meet
        assert all(isinstance(place, Appended) for place in await append_to_all(log, topic, "k"))
    await check_all(disk, topic, "k")


async def test_each_partition_has_its_file_before_its_checkpoint_says_so() -> None:
    """Which is what a crash between two steps of several partitions must find, as between two steps of one."""
    disk = MemoryDisk()
    async with await open_log(disk, replace(SMALL, journal_bytes=1 << 20)) as log:
        topic = await log.create_topic("flights", partitions=MANY)
        steps: dict[Path, list[str]] = {}
        noting = threading.Lock()

        def note(what: str, path: Path) -> None:
            with noting:
                steps.setdefault(path if what == "sync_folder" else path.parent, []).append(f"{what} {path.suffix}")

        disk.on_step = note
        await append_to_all(log, topic, "k")
        disk.on_step = lambda what, path: None
        folders = {path.parent for n in range(MANY) for path in segment_files(disk, topic, n)}
    assert len(folders) == MANY
    expected = ["create .log", "preallocate .log", "sync .log"]
    expected += ["create .part", "truncate .part", "write .part", "sync .part", "rename .part", "sync_folder "]
    for folder in folders:
        assert steps[folder] == [*expected, "write .log"]


@pytest.mark.parametrize("seed", range(30))
async def test_power_may_fail_at_any_step_of_it(seed: int) -> None:
    """What was acknowledged is there; a partition that was not yet takes its first record afterwards."""
    chance = random.Random(seed)
    disk = MemoryDisk()
    log = await open_log(disk)
    topic = await log.create_topic("flights", partitions=MANY)
    last_step = disk.steps + chance.randrange(10 * MANY)
    survivors: list[MemoryDisk] = []
    pulling = threading.Lock()

    def pull(what: str, path: Path) -> None:
        with pulling:
            if not survivors and disk.steps >= last_step:
                survivors.append(disk.after_power_loss(chance))

    disk.on_step = pull
    await append_to_all(log, topic, "a")
    disk.on_step = lambda what, path: None
    acknowledged = not survivors
    await log.close()
    if acknowledged:
        survivors.append(disk.after_power_loss(chance))
    async with await open_log(survivors[0]) as again:
        assert not again.recovery.damages
        for number in range(MANY):
            assert list(keys_of(await read_all(again, topic.id, number)).values()) in (
                [[f"a{number}".encode()]] if acknowledged else [[], [f"a{number}".encode()]]
            )
        assert all(isinstance(place, Appended) for place in await append_to_all(again, topic, "b"))


@pytest.mark.parametrize("suffix", [".log", ".part"])
@pytest.mark.parametrize("number", [1, 7, MANY])
async def test_a_sync_that_fails_stops_the_log(suffix: str, number: int) -> None:
    disk = MemoryDisk()
    async with await open_log(disk) as log:
        topic = await log.create_topic("flights", partitions=MANY)
        counted = itertools.count(1)

        def fail(what: str, path: Path) -> None:
            if what == "sync" and path.suffix == suffix and next(counted) == number:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

        disk.on_step = fail
        outcomes = await append_to_all(log, topic, "k")
        assert any(isinstance(outcome, LogStopped) for outcome in outcomes)
        assert all(isinstance(outcome, (LogStopped, WriteUnknown)) for outcome in outcomes)
        disk.on_step = lambda what, path: None
        assert all(isinstance(outcome, LogStopped) for outcome in await append_to_all(log, topic, "later"))
    survivor = disk.after_power_loss(random.Random(number))
    async with await open_log(survivor) as again:
        assert not again.recovery.damages
        assert all(isinstance(place, Appended) for place in await append_to_all(again, topic, "b"))


async def test_a_disk_that_fills_meanwhile_refuses_those_that_found_no_room() -> None:
    disk = MemoryDisk()
    async with await open_log(disk) as log:
        topic = await log.create_topic("flights", partitions=MANY)
        disk.space = 20 * 3000
        outcomes = await append_to_all(log, topic, "k")
        kinds = {type(outcome) for outcome in outcomes}
        assert kinds == {Appended, DiskFull}
        disk.space = None
        again = await append_to_all(log, topic, "l")
        assert all(isinstance(place, Appended) for place in again)


async def test_a_bound_on_open_files_below_their_number() -> None:
    settings = replace(SMALL, open_segments_max=8)
    disk = MemoryDisk()
    async with await open_log(disk, settings=settings) as log:
        topic = await log.create_topic("flights", partitions=MANY)
        for prefix in ("a", "b"):
            assert all(isinstance(place, Appended) for place in await append_to_all(log, topic, prefix))
    await check_all(disk, topic, "a", "b")
