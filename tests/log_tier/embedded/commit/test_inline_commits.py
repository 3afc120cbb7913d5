"""Commits in the caller's thread: when they are made there, and that they are commits like any other."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from kit.deadlines import patience_s, within
from kit.log.engine_steps import SMALL, ZERO, copy_of, open_log
from kit.log.sample_batches import keys_of, plain_batch, read_all

from duramen.testing.machine.memory_disk import MemoryDisk
from log_tier.embedded import EmbeddedLog, EngineSettings
from log_tier.embedded.commit.lone_calls import LoneCalls
from log_tier.model.errors import DiskFull, LogStopped, ShuttingDown, WriteUnknown
from log_tier.model.identifiers import Offset
from log_tier.model.log import Appended, Topic

WARM_UP = 8
"""Commits after which a disk is known to be quick."""

IN_A_ROW = 61
"""Calls after which they are known to come one at a time."""

ALWAYS_QUICK = replace(SMALL, quick_commit_s=10.0)
"""What a busy machine's clock says is no part of these tests."""


class Witness:
    """Which threads touched the disk, step by step."""

    def __init__(self, disk: MemoryDisk) -> None:
        self.steps: list[tuple[str, int]] = []
        disk.on_step = lambda step, path: self.steps.append((step, threading.get_ident()))

    def threads(self) -> set[int]:
        found = {thread for _, thread in self.steps}
        self.steps.clear()
        return found


async def gathered(log: EmbeddedLog, topic: Topic, key: str, partition: int = 0, value: bytes = b"v") -> Appended:
    (place,) = await log.append_many([(topic.partition(partition), plain_batch(key, value=value))], gathered=True)
    if isinstance(place, Appended):
        return place
    raise place


async def warm(log: EmbeddedLog, topic: Topic) -> None:
    for _ in range(WARM_UP):
        await log.append(topic.partition(ZERO), plain_batch("warm"))
    await idle(log)


async def idle(log: EmbeddedLog) -> None:
    """The writer thread reports a commit and then releases its turn."""
    async with within(20):
        while log._committer._turn.locked():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_the_caller_commits_on_a_quick_disk() -> None:
    disk = MemoryDisk()
    async with await open_log(disk, ALWAYS_QUICK) as log:
        topic = await log.create_topic("flights", partitions=2)
        witness = Witness(disk)
        await gathered(log, topic, "first")
        await idle(log)
        assert threading.get_ident() not in witness.threads(), "nothing is known of this disk yet"
        await warm(log, topic)
        witness.steps.clear()
        place = await gathered(log, topic, "here")
        assert [step for step, _ in witness.steps][-1] == "sync"
        assert witness.threads() == {threading.get_ident()}
        assert place.base_offset == WARM_UP + 1
        both = [(topic.partition(number), plain_batch("both")) for number in range(2)]
        places = await log.append_many(both, gathered=True)
        assert [each.base_offset for each in places if isinstance(each, Appended)] == [WARM_UP + 2, 0]
        assert witness.threads() == {threading.get_ident()}
        await log.append(topic.partition(ZERO), plain_batch("there"))
        assert threading.get_ident() not in witness.threads()
        assert log._committer.commits_at_once == 2
        killed = copy_of(disk)
    async with await open_log(killed, ALWAYS_QUICK) as log:
        assert keys_of(await read_all(log, topic.id))[WARM_UP + 1] == b"here"


async def test_followers_hear_of_it() -> None:
    async with await open_log(MemoryDisk(), ALWAYS_QUICK) as log:
        topic = await log.create_topic("flights", partitions=1)
        await warm(log, topic)
        chunks = log.read(topic.partition(ZERO), Offset(WARM_UP), follow=True)
        waiting = asyncio.ensure_future(anext(chunks))
        await asyncio.sleep(0)
        await gathered(log, topic, "here")
        chunk = await asyncio.wait_for(waiting, patience_s(20))
        assert b"here" in chunk.data


async def test_nobody_is_overtaken() -> None:
    """What is queued, or in the writer's hands, goes first."""
    disk = MemoryDisk()
    async with await open_log(disk, ALWAYS_QUICK) as log:
        topic = await log.create_topic("flights", partitions=1)
        await warm(log, topic)
        in_sync, may_go = threading.Event(), threading.Event()

        def on_step(step: str, path: Path) -> None:
            if step == "sync" and not in_sync.is_set():
                in_sync.set()
                assert may_go.wait(patience_s(20))

        disk.on_step = on_step
        first = asyncio.ensure_future(log.append(topic.partition(ZERO), plain_batch("first")))
        assert await asyncio.to_thread(in_sync.wait, 20)
        second = asyncio.ensure_future(log.append(topic.partition(ZERO), plain_batch("second")))
        await asyncio.sleep(0)
        third = asyncio.ensure_future(gathered(log, topic, "third"))
        await asyncio.sleep(0)
        assert not third.done()
        may_go.set()
        places = await asyncio.wait_for(asyncio.gather(first, second, third), patience_s(20))
        assert [place.base_offset for place in places] == [WARM_UP, WARM_UP + 1, WARM_UP + 2]


async def test_many_partitions_go_through_the_thread() -> None:
    disk = MemoryDisk()
    async with await open_log(disk, ALWAYS_QUICK) as log:
        topic = await log.create_topic("flights", partitions=200)
        await warm(log, topic)
        for count in (200, 2, 20):
            parts = [(topic.partition(number), plain_batch("wide")) for number in range(count)]
            await log.append_many(parts, gathered=True)  # their files are looked at
            await idle(log)
        witness = Witness(disk)
        await log.append_many([(topic.partition(number), plain_batch("all")) for number in range(200)], gathered=True)
        assert threading.get_ident() not in witness.threads()
        await idle(log)
        await log.append_many([(topic.partition(number), plain_batch("some")) for number in range(20)], gathered=True)
        assert witness.threads() >= {threading.get_ident()}


async def test_a_large_batch_goes_through_the_thread(tmp_path: Path) -> None:
    async with await EmbeddedLog.open(tmp_path / "log", settings=EngineSettings(quick_commit_s=10.0)) as log:
        topic = await log.create_topic("flights", partitions=1)
        await warm(log, topic)
        await gathered(log, topic, "large", value=b"x" * 300_000)
        assert log._committer.commits_at_once == 0
        await idle(log)
        await gathered(log, topic, "small")
        assert log._committer.commits_at_once == 1


async def test_a_failed_sync_is_final_here_too() -> None:
    disk = MemoryDisk()
    async with await open_log(disk, ALWAYS_QUICK) as log:
        topic = await log.create_topic("flights", partitions=1)
        await warm(log, topic)

        def on_step(step: str, path: Path) -> None:
            if step == "sync":
                raise OSError(errno.EIO, os.strerror(errno.EIO))

        disk.on_step = on_step
        with pytest.raises(WriteUnknown, match="restart"):
            await gathered(log, topic, "lost")
        disk.on_step = lambda step, path: None
        for _ in range(2):
            with pytest.raises(LogStopped):
                await gathered(log, topic, "later")
            with pytest.raises(LogStopped):
                await log.append(topic.partition(ZERO), plain_batch("later"))
        assert len(keys_of(await read_all(log, topic.id))) == WARM_UP


async def test_a_full_disk_passes() -> None:
    disk = MemoryDisk()
    async with await open_log(disk, ALWAYS_QUICK) as log:
        topic = await log.create_topic("flights", partitions=1)
        await warm(log, topic)
        disk.space = 0
        with pytest.raises(DiskFull, match="free space"):
            await gathered(log, topic, "refused", value=b"x" * 4000)
        disk.space = None
        assert (await gathered(log, topic, "after")).base_offset == WARM_UP


async def test_a_bug_of_ours_stops_the_log_and_lets_nobody_wait() -> None:
    disk = MemoryDisk()
    async with await open_log(disk, ALWAYS_QUICK) as log:
        topic = await log.create_topic("flights", partitions=1)
        await warm(log, topic)

        def on_step(step: str, path: Path) -> None:
            raise ZeroDivisionError("a bug")

        disk.on_step = on_step
        with pytest.raises(ZeroDivisionError):
            await gathered(log, topic, "lost")
        disk.on_step = lambda step, path: None
        with pytest.raises(LogStopped, match="report this as a bug"):
            await asyncio.wait_for(gathered(log, topic, "later"), patience_s(20))


async def test_a_closed_log_takes_nothing() -> None:
    log = await open_log(MemoryDisk(), ALWAYS_QUICK)
    topic = await log.create_topic("flights", partitions=1)
    await warm(log, topic)
    await log.close()
    with pytest.raises(ShuttingDown):
        await gathered(log, topic, "late")


def test_many_loops_at_once(tmp_path: Path) -> None:
    """Callers in several threads, gathered and not: each one's records in its order, each offset once."""
    loops, each, partitions = 4, 300, 2

    async def write(log: EmbeddedLog, topic: Topic, number: int) -> list[tuple[int, int, str]]:
        chance = random.Random(number)
        places = []
        for count in range(each):
            partition, key = chance.randrange(partitions), f"{number}-{count}"
            batch = plain_batch(key)
            if chance.random() < 0.6:
                place = await gathered(log, topic, key, partition)
            else:
                place = await log.append(topic.partition(partition), batch)
            places.append((partition, int(place.base_offset), key))
        return places

    async def story() -> None:
        async with await EmbeddedLog.open(tmp_path / "log", settings=EngineSettings(quick_commit_s=10.0)) as log:
            topic = await log.create_topic("flights", partitions=partitions)
            with ThreadPoolExecutor(loops) as threads:
                running = [threads.submit(asyncio.run, write(log, topic, number)) for number in range(loops)]
                written = [await asyncio.wrap_future(task) for task in running]
            for partition in range(partitions):
                found = keys_of(await read_all(log, topic.id, partition))
                assert sorted(found) == list(range(len(found)))
                expected = {offset: key.encode() for places in written for p, offset, key in places if p == partition}
                assert found == expected
            for places in written:
                for partition in range(partitions):
                    offsets = [offset for p, offset, _ in places if p == partition]
                    assert offsets == sorted(offsets)
            # How many of them found the committer idle is the scheduler's affair; a caller alone always does.
            assert log._committer.commits_at_once < log._committer.commits
            before = log._committer.commits_at_once
            await gathered(log, topic, "alone")
            assert log._committer.commits_at_once == before + 1

    asyncio.run(story())


async def test_a_disk_that_is_slow_never_holds_up_a_loop() -> None:
    disk = MemoryDisk()
    async with await open_log(disk) as log:
        topic = await log.create_topic("flights", partitions=1)
        disk.on_step = lambda step, path: time.sleep(0.002) if step == "sync" else None
        for number in range(3 * WARM_UP):
            await gathered(log, topic, f"k{number}")
        assert log._committer.commits_at_once == 0


async def append_alone(log: EmbeddedLog, topic: Topic, times: int) -> None:
    for _ in range(times):
        await log.append(topic.partition(ZERO), plain_batch("alone"))
        await idle(log)


async def test_a_caller_that_is_alone_commits_itself_and_now_and_then_looks_for_others() -> None:
    async with await open_log(MemoryDisk(), ALWAYS_QUICK) as log:
        topic = await log.create_topic("flights", partitions=1)
        await append_alone(log, topic, IN_A_ROW)
        assert log._committer.commits_at_once == 0, "nothing is known of the callers yet"
        await append_alone(log, topic, IN_A_ROW)
        assert log._committer.commits_at_once == IN_A_ROW - 1
        await append_alone(log, topic, IN_A_ROW)
        assert log._committer.commits_at_once == 2 * (IN_A_ROW - 1)
        assert len(keys_of(await read_all(log, topic.id))) == 3 * IN_A_ROW


async def test_callers_that_come_together_share_commits() -> None:
    async with await open_log(MemoryDisk(), ALWAYS_QUICK) as log:
        topic = await log.create_topic("flights", partitions=1)
        partition = topic.partition(ZERO)
        await append_alone(log, topic, 2 * IN_A_ROW)
        alone = log._committer.commits_at_once
        for _ in range(2 * IN_A_ROW):
            places = await asyncio.gather(*(log.append(partition, plain_batch("together")) for _ in range(8)))
            assert len({place.base_offset for place in places}) == 8
        # Those that commit themselves until one looks that is not the last of its eight.
        assert log._committer.commits_at_once - alone <= 2 * IN_A_ROW
        at_once = log._committer.commits_at_once
        await append_alone(log, topic, IN_A_ROW // 2)
        assert log._committer.commits_at_once == at_once, "the last ones came together"


class TestLoneCalls:
    def test_calls_that_find_nothing_queued_come_alone(self) -> None:
        calls = LoneCalls()
        for _ in range(IN_A_ROW):
            calls.came(queued=False)
            assert not calls.is_alone
        calls.came(queued=False)
        assert calls.is_alone

    def test_one_of_them_goes_through_the_thread_to_look(self) -> None:
        calls = LoneCalls()
        looks = []
        for number in range(1, 5 * IN_A_ROW):
            calls.came(queued=False)
            if not calls.is_alone:
                looks.append(number)
        assert looks == [*range(1, IN_A_ROW + 1), 2 * IN_A_ROW, 3 * IN_A_ROW, 4 * IN_A_ROW]

    def test_a_call_that_meets_others_is_remembered(self) -> None:
        calls = LoneCalls()
        for _ in range(IN_A_ROW + 1):
            calls.came(queued=False)
        calls.came(queued=True)
        for _ in range(IN_A_ROW):
            assert not calls.is_alone
            calls.came(queued=False)
        assert not calls.is_alone
