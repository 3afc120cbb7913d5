"""A torn end is cut and reported; an end that was cut later is damage, and is named and kept."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from pathlib import Path

import pytest
from kit.log.engine_steps import (
    SMALL,
    ZERO,
    change_content,
    copy_of,
    fails_from,
    open_log,
    overwrite,
    segment_files,
)
from kit.log.filled_log import LARGE, filled, places, readable
from kit.log.sample_batches import keys_of, plain_batch, read_all

from duramen.testing.machine.memory_disk import MemoryDisk
from log_tier.embedded import EmbeddedLog, RecoveryReport
from log_tier.embedded.recovery.open_partition import open_partition
from log_tier.embedded.recovery.segment_end import Cut
from log_tier.embedded.segments.log_resources import LogResources
from log_tier.embedded.segments.open_files import OpenFiles
from log_tier.embedded.segments.settling import Settling
from log_tier.embedded.segments.tail_cache import TailMemory
from log_tier.embedded.storage.settings import PREALLOCATION_BYTES_MIN
from log_tier.model.batch_header import read_header
from log_tier.model.errors import DuramenError, LogDamaged
from log_tier.model.identifiers import Offset
from log_tier.model.moves import MoveFeed
from log_tier.tracing.written import WrittenTraces


async def test_a_clean_close_leaves_no_reserved_space_and_nothing_to_report(tmp_path: Path) -> None:
    path = tmp_path / "log"
    async with await EmbeddedLog.open(path) as log:
        topic = await log.create_topic("flights", partitions=1)
        await log.append(topic.partition(ZERO), plain_batch("a"))
        (file,) = path.glob("topics/*/0/*.log")
        assert file.stat().st_size == PREALLOCATION_BYTES_MIN, "space is reserved while the log is open"
    assert file.stat().st_size == len(plain_batch("a"))
    async with await EmbeddedLog.open(path) as log:
        assert str(log.recovery) == "nothing to recover"
        assert (await log.append(topic.partition(ZERO), plain_batch("b"))).base_offset == 1
        assert keys_of(await read_all(log, topic.id)) == {0: b"a", 1: b"b"}


@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
async def test_everything_is_there_after_a_restart(clean: bool) -> None:
    disk, topic = await filled(100, SMALL, clean=clean)
    assert len(segment_files(disk, topic)) > 3
    async with await open_log(disk) as log:
        assert str(log.recovery) == "nothing to recover"
        assert keys_of(await read_all(log, topic.id)) == {n: b"k%d" % n for n in range(100)}
        for start in range(100):
            assert min(keys_of(await read_all(log, topic.id, start=start))) == start


@pytest.mark.parametrize("filling", ["zeros", "garbage"])
async def test_the_newest_segment_cut_at_every_byte_of_its_last_4_kib(filling: str) -> None:
    """After a kill: what lies before the cut is kept, what lies behind it is cut and reported, nothing is invented."""
    disk, topic = await filled(60, LARGE, clean=False)
    (path,) = segment_files(disk, topic)
    whole = bytes(disk.files[path].content)
    ends = places(whole)
    assert len(ends) == 61
    disk.files.pop(path.with_suffix(".index"), None)
    chance = random.Random(1)
    for at in range(max(0, ends[-1] - 4096), ends[-1]):
        cut = copy_of(disk)
        tail = chance.randbytes(3000) if filling == "garbage" else bytes(3000)
        change_content(cut, path, whole[:at] + tail)
        kept = max(n for n, end in enumerate(ends) if end <= at)
        torn = (whole[ends[kept] : at] + tail).rstrip(b"\0")
        report = RecoveryReport()
        partition = open_partition(
            "flights/0",
            topic.partition(ZERO),
            path.parent,
            LogResources(cut, LARGE, TailMemory(0), OpenFiles(8), MoveFeed(), Settling(), WrittenTraces()),
            report=report,
        )
        assert partition.bounds()[:2] == (Offset(0), Offset(kept - 1))
        assert [(item.position, item.bytes, item.offset) for item in report.cuts if isinstance(item, Cut)] == (
            [(ends[kept], len(torn), kept)] if torn else []
        )
        assert not report.damages
        assert cut.files[path].durable.rstrip(b"\0") == whole[: ends[kept]].rstrip(b"\0")
        if at % 59 == 0:
            async with await open_log(cut, LARGE) as log:
                place = await log.append(topic.partition(ZERO), plain_batch("after"))
                assert place.base_offset == kept
                expected = {n: b"k%d" % n for n in range(kept)} | {kept: b"after"}
                assert keys_of(await read_all(log, topic.id)) == expected


async def test_a_newest_segment_that_is_shorter_than_it_was_is_damage_at_whatever_byte_it_ends() -> None:
    """Files grow, on stable storage, before they are written to: no crash makes one shorter."""
    disk, topic = await filled(60, LARGE, clean=False)
    (path,) = segment_files(disk, topic)
    whole, reserved = bytes(disk.files[path].content), disk.files[path].length
    ends = places(whole)
    for at in (*ends, *(end + 30 for end in ends[:-1]), reserved - 1):
        cut = copy_of(disk)
        overwrite(cut, path, whole[:at].ljust(at, b"\0"))
        cut.files.pop(path.with_suffix(".index"), None)
        kept = max(n for n, end in enumerate(ends) if end <= at)
        for _ in range(2):  # it is still damage the next time
            async with await open_log(cut, LARGE) as log:
                (damage,) = log.recovery.damages
                assert damage.fields == {"file": str(path), "position": ends[kept], "offset": kept}
                assert f"{at} bytes, and checkpoint.json says that {reserved} were reserved" in damage.message
                with pytest.raises(LogDamaged):
                    await log.append(topic.partition(ZERO), plain_batch("after"))
                found, met = await readable(log, topic)
                assert found == {n: b"k%d" % n for n in range(kept)}
                assert met is not None


async def test_an_older_copy_of_the_newest_segment_is_noticed_by_its_length_or_by_what_growing_proved() -> None:
    disk = MemoryDisk()
    log = await open_log(disk, LARGE)
    topic = await log.create_topic("flights", partitions=1)
    await log.append(topic.partition(ZERO), plain_batch("k0", value=bytes(100)))
    (path,) = segment_files(disk, topic)
    older = bytes(disk.files[path].content)
    reserved = disk.files[path].length
    count = 1
    while disk.files[path].length == reserved:
        await log.append(topic.partition(ZERO), plain_batch(f"k{count}", value=bytes(100)))
        count += 1
    killed = copy_of(disk)
    await log.close()
    for length, why in ((reserved, "were reserved"), (killed.files[path].length, "known to have been")):
        left = copy_of(killed)
        left.files.pop(path.with_suffix(".index"), None)
        overwrite(left, path, older.ljust(length, b"\0"))
        async with await open_log(left, LARGE) as log:
            (damage,) = log.recovery.damages
            assert damage.fields["offset"] == 1
            assert why in damage.message or f"offset {count - 2} is known" in damage.message
            with pytest.raises(LogDamaged):
                await log.append(topic.partition(ZERO), plain_batch("after"))


async def test_after_a_kill_every_file_may_be_cut_again_by_a_close_or_a_second_kill(tmp_path: Path) -> None:
    """Real files: what was reserved stays so until a close, and a cut between two batches is named."""
    log = await EmbeddedLog.open(tmp_path / "log")
    topic = await log.create_topic("flights", partitions=1)
    for number in range(3):
        await log.append(topic.partition(ZERO), plain_batch(f"k{number}"))
    shutil.copytree(tmp_path / "log", tmp_path / "killed")
    await log.close()
    (file,) = (tmp_path / "killed").glob("topics/*/0/*.log")
    async with await EmbeddedLog.open(tmp_path / "killed") as log:
        assert str(log.recovery) == "nothing to recover"
        assert file.stat().st_size == PREALLOCATION_BYTES_MIN
        shutil.copytree(tmp_path / "killed", tmp_path / "again")
    ends = places(file.read_bytes())
    assert file.stat().st_size == ends[-1], "a clean close leaves no reserved space"
    (file,) = (tmp_path / "again").glob("topics/*/0/*.log")
    os.truncate(file, ends[2])
    async with await EmbeddedLog.open(tmp_path / "again") as log:
        (damage,) = log.recovery.damages
        assert damage.fields == {"file": str(file), "position": ends[2], "offset": 2}


async def test_a_torn_end_is_cut_once_and_the_shorter_file_is_right_from_then_on() -> None:
    """Power may fail at each step of cutting it."""
    disk, topic = await filled(5, LARGE, clean=False)
    (path,) = segment_files(disk, topic)
    change_content(disk, path, bytes(disk.files[path].content) + b"torn")
    disk.sync_folder(path.parent)
    failed = 0
    while True:
        left = copy_of(disk)
        left.on_step = fails_from(failed)
        try:
            log = await open_log(left, LARGE)
        except DuramenError:
            failed += 1
        else:
            left.on_step = lambda what, where: None
            assert len(log.recovery.cuts) == 1
            await log.close()
            break
        for keep_everything in (True, False):
            survivor = left.after_power_loss(random.Random(failed), keep_everything=keep_everything)
            async with await open_log(survivor, LARGE) as log:
                assert not log.recovery.damages
                assert (await log.append(topic.partition(ZERO), plain_batch("after"))).base_offset == 5
    assert failed > 3


@pytest.mark.parametrize("filling", [b"", b"\0" * 300, b"garbage" * 40])
async def test_a_cut_after_a_clean_close_is_damage_and_not_a_tear(filling: bytes) -> None:
    disk, topic = await filled(20, LARGE, clean=True)
    (path,) = segment_files(disk, topic)
    whole = bytes(disk.files[path].content)
    ends = places(whole)
    for at in (ends[-1] - 1, ends[-2], ends[5] + 3, 1, 0):
        cut = copy_of(disk)
        overwrite(cut, path, whole[:at] + filling)
        async with await open_log(cut, LARGE) as log:
            (damage,) = log.recovery.damages
            kept = max(n for n, end in enumerate(ends) if end <= at)
            assert damage.fields == {"file": str(path), "position": ends[kept], "offset": kept}
            assert bytes(cut.files[path].content) == whole[:at] + filling, "damage is never cut"
            with pytest.raises(LogDamaged):
                await log.append(topic.partition(ZERO), plain_batch("after"))
            found, met = await readable(log, topic)
            assert found == {n: b"k%d" % n for n in range(kept)}
            assert met is not None
            other = await log.append(topic.partition(1), plain_batch("other"))
            assert other.base_offset == 0, "the other partitions go on"


async def test_a_torn_commit_of_many_batches_is_cut_although_later_ones_of_it_are_whole() -> None:
    """Batches of one commit are written together, so the disk may keep the last and lose the first."""
    disk = MemoryDisk()
    log = await open_log(disk, LARGE)
    topic = await log.create_topic("flights", partitions=1)
    await log.append(topic.partition(ZERO), plain_batch("first"))
    await asyncio.gather(*(log.append(topic.partition(ZERO), plain_batch(f"k{n}")) for n in range(20)))
    killed = copy_of(disk)
    await log.close()
    (path,) = segment_files(killed, topic)
    content = bytearray(killed.files[path].content)
    ends = places(bytes(content))
    headers = [read_header(bytes(content), at) for at in ends[:-1]]
    group = next(n for n, header in enumerate(headers) if n and header.unsynced == 0 and headers[n + 1].unsynced)
    last = max(n for n, header in enumerate(headers) if n >= group and header.base_offset - header.unsynced == group)
    change_content(
        killed, path, bytes(content[: ends[group]]) + bytes(10) + bytes(content[ends[group] + 10 : ends[last + 1]])
    )
    async with await open_log(killed, LARGE) as log:
        assert [cut.offset for cut in log.recovery.cuts if isinstance(cut, Cut)] == [group]
        assert (await log.append(topic.partition(ZERO), plain_batch("again"))).base_offset == group
