"""A disk that lost the end of the journal shows zeros there: that is damage, and not where the journal ended."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from kit.log.engine_steps import HOME, open_log
from kit.log.lost_power import COMMITS, OPTIONS, PARTITIONS, frames_of, keys, power_lost, used_journal
from kit.log.sample_batches import keys_of, plain_batch, read_all

from duramen.testing.machine.memory_disk import MemoryDisk
from log_tier.embedded import EmbeddedLog, EngineSettings
from log_tier.embedded.commit.journal_format import FRAME_BYTES, FRAMES_AT, read_headers
from log_tier.embedded.commit.journal_room import unused_room
from log_tier.embedded.verification.verify import verify_log
from log_tier.model.errors import DuramenError, LogDamaged
from log_tier.model.log import Appended, Topic

PAGE = 4096


def content_of(disk: MemoryDisk, path: Path) -> bytearray:
    return disk.files[path].content


def frame_end(data: bytes, place: int) -> int:
    return place + FRAME_BYTES + int.from_bytes(data[place + 4 : place + 8], "little")


def newest_page(data: bytes) -> tuple[int, int]:
    """The page with the last byte of the newest frame."""
    begin = (frame_end(data, frames_of(data)[-1]) - 1) // PAGE * PAGE
    return begin, begin + PAGE


def zeroed(disk: MemoryDisk, path: Path, begin: int, end: int) -> None:
    content = content_of(disk, path)
    end = min(end, len(content))
    content[begin:end] = bytes(end - begin)


async def check_refused(disk: MemoryDisk, topic: Topic, path: Path, place: int) -> None:
    """By name, with nothing changed; a verification says the same."""
    before = {name: bytes(inode.content) for name, inode in disk.files.items()}
    found = [finding for finding in verify_log(HOME, disk=disk, settings=OPTIONS) if finding.file == path]
    assert [(finding.position, finding.is_damage) for finding in found] == [(place, True)]
    with pytest.raises(LogDamaged, match=r"there are zeros.*duramen log repair") as caught:
        await keys(disk, topic)
    assert caught.value.fields == {"file": str(path), "position": place}
    assert {name: bytes(inode.content) for name, inode in disk.files.items()} == before


async def test_the_last_4_kib_are_zeros() -> None:
    disk, topic = power_lost()
    path = used_journal(disk)
    data = bytes(content_of(disk, path))
    begin, end = newest_page(data)
    lost = [place for place in frames_of(data) if frame_end(data, place) > begin]
    assert len(lost) > 3, "several frames"
    zeroed(disk, path, begin, end)
    await check_refused(disk, topic, path, lost[0])
    content_of(disk, path)[begin:end] = data[begin:end]
    assert await keys(disk, topic) == PARTITIONS * COMMITS, "with the page put right, everything is there"


@pytest.mark.parametrize("count", [1, 2, 5, COMMITS - 1, COMMITS])
@pytest.mark.parametrize("cut", ["frames", "to the end"])
async def test_the_last_frames_are_zeros(count: int, cut: str) -> None:
    disk, topic = power_lost()
    path = used_journal(disk)
    data = bytes(content_of(disk, path))
    begin = frames_of(data)[-count]
    zeroed(disk, path, begin, frame_end(data, frames_of(data)[-1]) if cut == "frames" else len(data))
    await check_refused(disk, topic, path, begin)


@pytest.mark.parametrize("inside", [1, 6, 12, 30, 44, 100, 300])
async def test_zeros_begin_inside_of_a_frame(inside: int) -> None:
    disk, topic = power_lost()
    path = used_journal(disk)
    data = bytes(content_of(disk, path))
    place = frames_of(data)[-4]
    assert place + inside < frame_end(data, place)
    zeroed(disk, path, place + inside, frame_end(data, frames_of(data)[-1]))
    await check_refused(disk, topic, path, place)


async def test_after_a_clean_close_zeros_cost_nothing() -> None:
    """The file is used again, and its room is made fit where the zeros are, so that they are not taken for a loss."""
    disk, topic = power_lost()
    assert await keys(disk, topic) == PARTITIONS * COMMITS
    path = HOME / "journal.0"
    zeroed(disk, path, FRAMES_AT, len(content_of(disk, path)))
    (named,) = [finding for finding in verify_log(HOME, disk=disk, settings=OPTIONS) if "zeros" in finding.message]
    assert "Nothing is lost" in named.message
    assert (named.file, named.position, named.remedy) == (path, FRAMES_AT, "alone")
    async with await open_log(disk, OPTIONS) as log:
        parts = [(topic.partition(p), plain_batch("again")) for p in range(PARTITIONS)]
        for _ in range(3):
            assert all(isinstance(found, Appended) for found in await log.append_many(parts))
            killed = disk.after_process_end()
            assert await keys(killed, topic) > PARTITIONS * COMMITS
    assert await keys(disk, topic) == PARTITIONS * (COMMITS + 3)


async def test_room_that_was_never_made_fit_may_hold_zeros() -> None:
    """A log without a commit over several partitions, as each one is before its first."""
    disk = MemoryDisk()
    async with await open_log(disk, OPTIONS) as log:
        topic = await log.create_topic("flights", partitions=PARTITIONS)
        await log.append(topic.partition(0), plain_batch("k"))
        killed = disk.after_process_end()
    header = read_headers(bytes(content_of(killed, used_journal(killed))))
    assert header is not None
    assert header.fit == FRAMES_AT
    assert await keys(killed, topic) == 1


async def test_a_frame_that_reads_as_unused_room_is_lost_without_a_sign() -> None:
    """One copy cannot know of a write that its disk confirmed and lost whole: docs/RELIABILITY.md says so."""
    disk, topic = power_lost()
    path = used_journal(disk)
    data = content_of(disk, path)
    place = frames_of(bytes(data))[-2]
    data[place:] = unused_room(len(data) - place)
    assert await keys(disk, topic) == PARTITIONS * (COMMITS - 2)


class FailingPower:
    """Power fails at a step of the disk; nothing succeeds afterwards."""

    def __init__(self, disk: MemoryDisk, steps: int, chances: Sequence[random.Random]) -> None:
        self.left: list[MemoryDisk] = []
        """What the disk may hold then."""
        self._disk, self._at, self._chances = disk, disk.steps + steps, chances
        disk.on_step = self._on_step

    def _on_step(self, what: str, path: Path) -> None:
        if self._disk.steps > self._at:
            if not self.left:
                self.left = [self._disk.after_power_loss(chance) for chance in self._chances]
                self.left.append(self._disk.after_process_end())
            raise OSError(errno.EIO, os.strerror(errno.EIO))


async def commits(log: EmbeddedLog, topic: Topic, most: int) -> int:
    """How many commits over both partitions are acknowledged, of `most`. They have many zeros in them."""
    for number in range(most):
        parts = [
            (topic.partition(p), plain_batch(f"k{number}.{p}", value=bytes(100 + 70 * (number % 3)))) for p in range(2)
        ]
        try:
            found = await log.append_many(parts)
        except DuramenError:
            return number
        if not all(isinstance(each, Appended) for each in found):
            return number
    return most


async def counts_of(log: EmbeddedLog, topic: Topic) -> list[int]:
    """How many records each partition has, without a hole."""
    found = [keys_of(await read_all(log, topic.id, partition)) for partition in range(2)]
    assert all(list(each) == list(range(len(each))) for each in found)
    assert not log.recovery.damages
    return [len(each) for each in found]


@pytest.mark.parametrize("seed", range(25))
async def test_values_of_zeros_are_no_lost_writes(seed: int) -> None:
    """Power fails at any step of commits with zeros in them, over room that earlier ones have used and while room is
    made fit: the log opens, with all that was acknowledged.
    """
    chance = random.Random(seed)
    settings = EngineSettings(segment_bytes=1 << 20, journal_bytes=chance.choice((1200, 3000, 200 << 10)))
    disk, expected = MemoryDisk(), [0, 0]
    async with await open_log(disk, settings) as log:
        topic = await log.create_topic("flights", partitions=2)
    for _ in range(8):
        log = await open_log(disk, settings)
        counts = await counts_of(log, topic)
        assert all(found >= least for found, least in zip(counts, expected, strict=True)), "acknowledged"
        power = FailingPower(disk, chance.randrange(90), [chance])
        acknowledged = await commits(log, topic, 1000)
        expected = [count + acknowledged for count in counts]
        with suppress(DuramenError):
            await log.close()
        disk = power.left[0]
    async with await open_log(disk, settings) as log:
        assert all(found >= least for found, least in zip(await counts_of(log, topic), expected, strict=True))


async def test_power_lost_at_each_step_of_a_logs_first_commits() -> None:
    """Headers, room, the header that says so, and the frame: after each step the log opens."""
    settings = EngineSettings(segment_bytes=1 << 20, journal_bytes=1500)
    steps, left = 0, [MemoryDisk()]
    while left:
        disk = MemoryDisk()
        log = await open_log(disk, settings)
        topic = await log.create_topic("flights", partitions=2)
        power = FailingPower(disk, steps, [random.Random(f"{steps} {seed}") for seed in range(4)])
        acknowledged = await commits(log, topic, 8)  # the files take turns in them
        left = power.left
        disk.on_step = lambda what, path: None
        with suppress(DuramenError):
            await log.close()
        for survivor in left:
            async with await open_log(survivor, settings) as log:
                assert min(await counts_of(log, topic)) >= acknowledged
        steps += 1
    assert acknowledged == 8
    assert steps > 30
