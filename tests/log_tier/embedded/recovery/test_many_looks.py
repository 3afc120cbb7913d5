"""After a kill many partitions are looked at by several threads, and what they find is as one thread finds it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from kit.log.engine_steps import SMALL, change_content, copy_of, open_log
from kit.log.sample_batches import keys_of, plain_batch, read_all

from duramen.testing.machine.memory_disk import MemoryDisk, MemoryFile
from log_tier.embedded import RecoveryReport
from log_tier.embedded.recovery.many_looks import look_at_many
from log_tier.embedded.recovery.open_partition import look_at_partition
from log_tier.embedded.recovery.segment_end import Cut
from log_tier.model.errors import DiskFailed, DuramenError
from log_tier.model.identifiers import Offset
from log_tier.model.log import Topic

PARTITIONS = 70
DEADLINE_S = 60.0


async def killed_log() -> tuple[MemoryDisk, Topic]:
    """A log of many partitions with one record each, whose process was killed."""
    disk = MemoryDisk()
    async with await open_log(disk, SMALL) as log:
        topic = await log.create_topic("flights", partitions=PARTITIONS)
        parts = [(topic.partition(number), plain_batch(f"{number}")) for number in range(PARTITIONS)]
        for place in await log.append_many(parts):
            assert not isinstance(place, DuramenError)
        killed = copy_of(disk)
    return killed, topic


def segments_in_order(disk: MemoryDisk, topic: Topic) -> list[Path]:
    paths = [path for path in disk.files if topic.id in path.parts and path.suffix == ".log"]
    return sorted(paths, key=lambda path: int(path.parent.name))


async def test_two_looks_are_under_way_at_once_and_every_record_is_there() -> None:
    disk, topic = await killed_log()
    two, fdatasync = threading.Barrier(2), MemoryFile.fdatasync
    lookers: set[str] = set()
    first_two = threading.Lock()

    def meeting(self: MemoryFile) -> None:
        name = threading.current_thread().name
        with first_two:
            waits = name.startswith("duramen-log-look") and name not in lookers and len(lookers) < 2
            if waits:
                lookers.add(name)
        if waits:
            two.wait(DEADLINE_S)  # broken at its deadline where one thread looks after another
        fdatasync(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryFile, "fdatasync", meeting)
        log = await open_log(disk, SMALL)
    async with log:
        assert len(lookers) == 2
        assert str(log.recovery) == "nothing to recover"
        for number in range(PARTITIONS):
            assert keys_of(await read_all(log, topic.id, number)) == {0: f"{number}".encode()}


async def test_torn_and_damaged_partitions_are_reported_in_their_order_as_by_one_thread() -> None:
    disk, topic = await killed_log()
    files, alone = segments_in_order(disk, topic), copy_of(disk)
    for each in (disk, alone):
        for number in range(0, PARTITIONS, 3):
            content = bytes(each.files[files[number]].content).rstrip(b"\0")
            change_content(each, files[number], content + b"torn" + bytes(400))
        for number in range(1, PARTITIONS, 10):
            each.unlink(files[number])
    expected = RecoveryReport()
    for file in files:
        look_at_partition(file.parent, alone, SMALL, report=expected)
    found = RecoveryReport()
    for looked in look_at_many([(file.parent, Offset(0)) for file in files], disk, SMALL):
        found.add(looked.report)
    assert str(found) == str(expected)
    assert len([cut for cut in found.cuts if isinstance(cut, Cut)]) > PARTITIONS / 4
    assert len(found.damages) == len(range(1, PARTITIONS, 10))


async def test_a_disk_that_fails_one_look_keeps_the_log_closed_and_the_next_open_has_everything() -> None:
    disk, topic = await killed_log()
    failing = segments_in_order(disk, topic)[40]
    fdatasync = MemoryFile.fdatasync

    def refuse(self: MemoryFile) -> None:
        if self.path == failing:
            raise OSError(5, "Input/output error", str(failing))
        fdatasync(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryFile, "fdatasync", refuse)
        with pytest.raises((DiskFailed, DuramenError), match="Input/output error"):
            await open_log(disk, SMALL)
    async with await open_log(disk, SMALL) as log:
        assert str(log.recovery) == "nothing to recover"
        assert keys_of(await read_all(log, topic.id, 40)) == {0: b"40"}
