"""Few open files for many partitions, and a process that has none left: refused, nothing written, and on it goes."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from kit.deadlines import within
from kit.log.engine_steps import HOME, SMALL, copy_of, open_log, segment_files
from kit.log.sample_batches import keys_of, plain_batch, read_all

from duramen.testing.machine.memory_disk import Inode, MemoryDisk, MemoryFile
from log_tier.embedded import EmbeddedLog, EngineSettings
from log_tier.embedded.segments.open_files import OpenFiles
from log_tier.model.errors import DuramenError, LogStopped, Overloaded, TableNotFound
from log_tier.model.identifiers import Partition, PartitionId
from log_tier.model.log import Appended

SOME = 3


class Owner:
    def __init__(self, *, is_in_commit: bool = False) -> None:
        self.is_in_commit = is_in_commit
        self.released = 0

    def release(self) -> None:
        self.released += 1


def test_the_least_recently_used_file_makes_room() -> None:
    files = OpenFiles(3)
    owners = [Owner() for _ in range(4)]
    for owner in owners[:3]:
        files.make_room()
        files.used(owner)
    files.used(owners[0])
    files.make_room()
    assert [owner.released for owner in owners] == [0, 1, 0, 0]


def test_only_its_own_end_takes_the_newest_away() -> None:
    """The newest one does not report its uses: if it stayed so with its file closed, nobody would open that."""
    files, a, b = OpenFiles(4), Owner(), Owner()
    files.used(a)
    files.used(b)
    files.closed(a)
    assert (files.newest, len(files)) == (b, 1)
    for _ in range(2):  # a file may be reported twice
        files.closed(b)
        assert (files.newest, len(files)) == (None, 0)


def test_a_file_that_a_commit_needs_is_not_closed() -> None:
    files = OpenFiles(2)
    busy, idle = Owner(is_in_commit=True), Owner()
    files.used(busy)
    files.used(idle)
    assert files.shed(5) == 1
    assert (busy.released, idle.released) == (0, 1)


class CountingDisk(MemoryDisk):
    """Counts the open files of segments, and refuses every open if the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.open_segments: set[MemoryFile] = set()
        self.most = 0
        self.allowed: Callable[[], bool] = lambda: True

    def _take_descriptor(self, path: Path) -> None:
        if not self.allowed():
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))

    def open(self, path: Path, *, write: bool = False, create: bool = False) -> MemoryFile:
        self._take_descriptor(path)
        file = super().open(path, write=write, create=create)
        if path.suffix == ".log":
            self.open_segments.add(file)
            close = file.close

            def closed() -> None:
                self.open_segments.discard(file)
                close()

            file.close = closed  # type: ignore[method-assign]
            self.most = max(self.most, len(self.open_segments))
        return file

    def list(self, folder: Path) -> list[str]:
        self._take_descriptor(folder)
        return super().list(folder)

    def sync_folder(self, folder: Path) -> None:
        self._take_descriptor(folder)
        super().sync_folder(folder)


@pytest.mark.parametrize("together", [False, True])
async def test_many_partitions_are_written_with_few_open_files(together: bool) -> None:
    disk = CountingDisk()
    settings = EngineSettings(segment_bytes=4096, open_segments_max=SOME, journal_bytes=16 << 10)
    async with await EmbeddedLog.open(HOME, disk=disk, settings=settings) as log:
        topics = [await log.create_topic(f"t{number}", partitions=2) for number in range(10)]
        for turn in range(12):
            for topic in topics:
                parts = [(topic.partition(n), plain_batch(f"k{turn}", value=bytes(300))) for n in range(2)]
                if together:
                    assert all(isinstance(found, Appended) for found in await log.append_many(parts))
                else:
                    for part in parts:
                        await log.append(*part)
        # One more while the settler of the journal syncs a segment by its name, one while a segment is sealed.
        assert disk.most <= SOME + 2
        killed = copy_of(disk)
    for left in (disk, killed):
        async with await EmbeddedLog.open(HOME, disk=left, settings=settings) as log:
            assert not log.recovery.damages
            for topic in topics:
                for partition in range(2):
                    assert len(keys_of(await read_all(log, topic.id, partition))) == 12


async def test_a_commit_over_more_partitions_than_may_be_open_goes_through() -> None:
    disk = CountingDisk()
    async with await EmbeddedLog.open(HOME, disk=disk, settings=EngineSettings(open_segments_max=SOME)) as log:
        topic = await log.create_topic("wide", partitions=20)
        parts = [(topic.partition(number), plain_batch("k")) for number in range(20)]
        assert all(isinstance(found, Appended) for found in await log.append_many(parts))
        await log.append(topic.partition(0), plain_batch("k"))
        assert len(disk.open_segments) == 20, "a commit that needs no new file closes none"
        other = await log.create_topic("other", partitions=1)
        await log.append(PartitionId(other.id, Partition(0)), plain_batch("k"))
        assert len(disk.open_segments) <= SOME


async def test_a_close_needs_no_file_more_than_the_log_had_open() -> None:
    """A process that has no more descriptors can close its log: the files that are open are closed first."""
    disk = CountingDisk()
    async with await EmbeddedLog.open(HOME, disk=disk, settings=EngineSettings(open_segments_max=SOME)) as log:
        topic = await log.create_topic("wide", partitions=21)
        parts = [(topic.partition(number), plain_batch("k")) for number in range(20)]
        assert all(isinstance(found, Appended) for found in await log.append_many(parts))
        await log.append(topic.partition(20), plain_batch("k"))
        disk.most = len(disk.open_segments)
        assert disk.most <= SOME
    assert disk.most <= SOME
    assert not disk.open_files
    async with await EmbeddedLog.open(HOME, disk=copy_of(disk)) as log:
        for number in range(21):
            assert list(keys_of(await read_all(log, topic.id, number)).values()) == [b"k"]


async def test_a_replay_of_many_segments_needs_few_open_files() -> None:
    disk = CountingDisk()
    async with await EmbeddedLog.open(HOME, disk=disk, settings=EngineSettings(open_segments_max=SOME)) as log:
        topic = await log.create_topic("wide", partitions=200)
        for turn in range(2):
            parts = [(topic.partition(number), plain_batch(f"k{turn}")) for number in range(200)]
            assert all(isinstance(found, Appended) for found in await log.append_many(parts))
        lost = CountingDisk()
        killed = copy_of(disk)
        lost.folders, lost.files = killed.folders, killed.files
        for path in segment_files(disk, topic, 7):
            first = bytes(disk.files[path].content[: len(plain_batch("k0"))])
            lost.files[path] = Inode(first.ljust(disk.files[path].length, b"\0"))
    async with await EmbeddedLog.open(HOME, disk=lost) as log:
        assert lost.most <= 40
        for number in range(200):
            assert list(keys_of(await read_all(log, topic.id, number)).values()) == [b"k0", b"k1"]


async def _one_round(log: EmbeddedLog, number: int, acknowledged: dict[str, list[str]]) -> list[DuramenError]:
    """A topic, writes to it and to the others, more than a segment takes; what was refused."""
    refused: list[DuramenError] = []
    try:
        await log.create_topic(f"t{number}", partitions=2)
        acknowledged[f"t{number}/0"], acknowledged[f"t{number}/1"] = [], []
    except Overloaded as error:
        refused.append(error)
    topics = await log.topics()
    for key in range(4):
        name = f"r{number}k{key}"
        parts = [
            (topic.partition(partition), plain_batch(name, value=bytes(400)))
            for topic in topics
            for partition in range(2)
        ]
        places = [f"{topic.name}/{partition}" for topic in topics for partition in range(2)]
        for place, result in zip(places, await log.append_many(parts), strict=True):
            if isinstance(result, Appended):
                acknowledged[place].append(name)
            else:
                refused.append(result)
        try:
            await log.append(PartitionId(topics[0].id, Partition(0)), plain_batch(name + "x"))
            acknowledged[f"{topics[0].name}/0"].append(name + "x")
        except Overloaded as error:
            refused.append(error)
    return refused


@pytest.mark.parametrize("lasting", [False, True], ids=["one open fails", "all fail from there on"])
async def test_without_a_descriptor_a_call_is_refused_and_the_log_goes_on(lasting: bool) -> None:
    """At every open in turn: what is refused was not written, what is acknowledged is there, and the rest goes on."""
    settings = EngineSettings(segment_bytes=1024, open_segments_max=SOME, journal_bytes=8 << 10)
    refusals = failures = 0
    number, reached = 0, True
    while reached:
        disk = CountingDisk()
        acknowledged: dict[str, list[str]] = {}
        async with await EmbeddedLog.open(HOME, disk=disk, settings=settings) as log:
            assert not await _one_round(log, 0, acknowledged)
            opened = 0

            def allowed() -> bool:
                nonlocal opened
                opened += 1
                return opened <= number if lasting else opened != number + 1  # noqa: B023 - called in this turn

            disk.allowed = allowed
            refused = await _one_round(log, 1, acknowledged)
            reached = opened > number
            disk.allowed = lambda: True
            assert all(type(error) is Overloaded for error in refused), refused
            refusals += len(refused)
            failures += reached
            assert not await _one_round(log, 2, acknowledged), "the log goes on"
        async with await open_log(disk) as log:
            assert not log.recovery.damages
            topics = await log.topics()
            assert {f"{topic.name}/{n}" for topic in topics for n in range(2)} == set(acknowledged)
            for topic in topics:
                for partition in range(2):
                    keys = keys_of(await read_all(log, topic.id, partition))
                    assert [key.decode() for key in keys.values()] == acknowledged[f"{topic.name}/{partition}"]
        number += 1 if number < 30 else 7
    assert failures > 20
    assert refusals > failures if lasting else refusals > 0


async def test_a_follower_waits_for_a_descriptor() -> None:
    disk = CountingDisk()
    async with await EmbeddedLog.open(HOME, disk=disk, settings=SMALL) as log:
        topic = await log.create_topic("flights", partitions=1)
        await log.append(topic.partition(0), plain_batch("a"))
    async with await EmbeddedLog.open(HOME, disk=disk, settings=SMALL) as log:
        refused = asyncio.Event()

        def allowed() -> bool:
            refused.set()
            return False

        disk.allowed = allowed
        with pytest.raises(Overloaded, match="cannot be read"):
            await read_all(log, topic.id)
        refused.clear()
        chunks = log.read(topic.partition(0), (await log.bounds(topic.partition(0))).earliest, follow=True)
        first = asyncio.ensure_future(anext(chunks))
        async with within(10):
            await refused.wait()
        assert not first.done()
        disk.allowed = lambda: True
        async with within(10):
            assert (await first).latest == 0
        await chunks.aclose()


async def test_without_a_descriptor_a_deletion_is_refused_and_the_topic_stays() -> None:
    disk = CountingDisk()
    async with await EmbeddedLog.open(HOME, disk=disk, settings=SMALL) as log:
        topic = await log.create_topic("flights", partitions=2)
        both = [(topic.partition(number), plain_batch("a")) for number in range(2)]
        assert all(isinstance(found, Appended) for found in await log.append_many(both))
        disk.allowed = lambda: False
        with pytest.raises(Overloaded):
            await log.delete_topic(topic.id)
        disk.allowed = lambda: True
        assert await log.topics() == [topic]
        await log.append(topic.partition(0), plain_batch("b"))
        killed = copy_of(disk)
        await log.delete_topic(topic.id)
        assert await log.topics() == []
        with pytest.raises(TableNotFound):
            await log.append(topic.partition(0), plain_batch("c"))
    async with await open_log(killed) as log:
        assert list(keys_of(await read_all(log, topic.id)).values()) == [b"a", b"b"]
    async with await open_log(disk) as log:
        assert await log.topics() == []


@pytest.mark.parametrize("step", ["sync of the new topic's folder", "sync of the deleted topic's folder"])
async def test_a_failed_sync_of_the_list_of_topics_stops_the_log(step: str) -> None:
    disk = CountingDisk()
    async with await EmbeddedLog.open(HOME, disk=disk, settings=SMALL) as log:
        topic = await log.create_topic("flights", partitions=1)

        def on_step(what: str, path: Path) -> None:
            if what == "sync_folder" and path.name == "topics":
                raise OSError(errno.EIO, os.strerror(errno.EIO))

        disk.on_step = on_step
        with pytest.raises(LogStopped):
            await (log.create_topic("trains", partitions=1) if "new" in step else log.delete_topic(topic.id))
        disk.on_step = lambda what, path: None
        with pytest.raises(LogStopped):
            await log.append(topic.partition(0), plain_batch("k"))


async def test_a_failed_sync_of_a_file_that_is_let_go_stops_the_log() -> None:
    disk = CountingDisk()
    async with await EmbeddedLog.open(HOME, disk=disk, settings=EngineSettings(open_segments_max=2)) as log:
        topic = await log.create_topic("flights", partitions=4)
        both = [(topic.partition(number), plain_batch("k")) for number in range(2)]
        assert all(isinstance(found, Appended) for found in await log.append_many(both))
        journalled = disk.steps

        def on_step(step: str, path: Path) -> None:
            if step == "sync" and path.suffix == ".log" and path.parent.name in "01":
                raise OSError(errno.EIO, os.strerror(errno.EIO))

        disk.on_step = on_step
        with pytest.raises(LogStopped):
            await log.append(topic.partition(2), plain_batch("k"))
        assert disk.steps >= journalled
