"""Verification finds what opening would refuse, cut or go on without, by file, and changes nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from kit.log.engine_steps import HOME, open_log, segment_files
from kit.log.sample_batches import keys_of, plain_batch
from kit.log.stopped_logs import KINDS, LIVES, OPTIONS, PARTITIONS, Stopped, changes_of, damaged_disk, kind_of

from duramen.testing.machine.memory_disk import MemoryDisk
from log_tier.embedded import EngineSettings
from log_tier.embedded.verification import LogVerification, verify_log
from log_tier.model.errors import DuramenError, FolderInUse, InvalidRequest
from log_tier.model.files.finding import FileFinding
from log_tier.model.identifiers import Offset


def verified(disk: MemoryDisk, seen: LogVerification | None = None) -> list[FileFinding]:
    before = {path: bytes(inode.content) for path, inode in disk.files.items()}
    steps = disk.steps
    found = list(verify_log(HOME, disk=disk, settings=OPTIONS, seen=seen))
    assert ({path: bytes(inode.content) for path, inode in disk.files.items()}, disk.steps) == (before, steps)
    assert not disk.locks, "the lock is held on"
    return found


async def loses_nothing(stopped: Stopped, disk: MemoryDisk) -> bool:
    """Whether the log opens, serves all that was acknowledged, and has nothing to say."""
    try:
        log = await open_log(disk, OPTIONS)
    except DuramenError:
        return False
    async with log:
        if log.recovery.cuts or log.recovery.damages:
            return False
        for number in range(PARTITIONS):
            found: dict[int, bytes] = {}
            try:
                async for chunk in log.read(stopped.topic.partition(number), Offset(0), follow=False, chunk_bytes=1):
                    found.update(keys_of([chunk.data]))
            except DuramenError:
                return False
            if found != stopped.kept[number]:
                return False
    return True


@pytest.mark.parametrize("alone", [True, False], ids=["alone", "together"])
def test_a_log_that_was_closed_has_no_findings(alone: bool) -> None:
    seen = LogVerification()
    stopped = LIVES[True, alone]
    assert verified(damaged_disk(stopped), seen) == []
    segments = [path for path in stopped.files if kind_of(path) == "segment"]
    assert seen == LogVerification(1, PARTITIONS, len(segments), sum(len(stopped.files[path]) for path in segments))


async def test_a_segment_of_several_reads_is_whole() -> None:
    """Also one whose batches are read in pieces of a megabyte."""
    disk, settings = MemoryDisk(), EngineSettings(segment_bytes=8 << 20)
    async with await open_log(disk, settings) as log:
        topic = await log.create_topic("flights", partitions=1)
        for number in range(9):
            await log.append(topic.partition(0), plain_batch(f"k{number}", value=bytes([number]) * 300_000))
    (path,) = segment_files(disk, topic)
    assert list(verify_log(HOME, disk=disk, settings=settings)) == []
    disk.files[path].content[-9] ^= 1
    (damage,) = [found for found in verify_log(HOME, disk=disk, settings=settings) if found.is_damage]
    assert (damage.file, damage.position) == (path, 8 * disk.files[path].length // 9)


@pytest.mark.parametrize("alone", [True, False], ids=["alone", "together"])
def test_a_log_that_was_killed_has_no_damage(alone: bool) -> None:
    assert [found for found in verified(damaged_disk(LIVES[False, alone])) if found.is_damage] == []


@pytest.mark.campaign
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize("alone", [True, False], ids=["alone", "together"])
async def test_what_is_damaged_is_named(kind: str, clean: bool, alone: bool) -> None:
    """The only changes that have no finding are those by which nothing is lost, and no segment of a closed log has
    one.
    """
    stopped = LIVES[clean, alone]
    every = 41 if os.environ.get("DURAMEN_CAMPAIGN") else 1601
    failures: list[str] = []
    for path in sorted(stopped.files):
        if kind_of(path) != kind or kind == "lock":
            continue
        for what, data in changes_of(stopped, path, every=every):
            if data == stopped.files[path]:
                continue
            if (clean, alone, what) == (False, True, "replaced by an older copy"):
                continue  # as in `test_damage.py`: no file but this one ever held the last commits
            disk = damaged_disk(stopped, path, data)
            found = verified(disk)
            if any(path.name in each.message for each in found):
                continue
            if not (clean and kind == "segment") and await loses_nothing(stopped, disk):
                continue
            failures.append(f"{path.parent.name}/{path.name}: {what}: {[each.message for each in found]}")
    assert failures == []


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "lock"])
@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
def test_each_damage_has_a_remedy(kind: str, clean: bool) -> None:
    """A repair from a copy; or one without, where nothing is lost."""
    stopped = LIVES[clean, False]
    found: list[FileFinding] = []
    for path in sorted(stopped.files):
        if kind_of(path) == kind:
            for data in (None, b"", b"{}", stopped.files[path][:40] + b"?" + stopped.files[path][41:]):
                found += [each for each in verified(damaged_disk(stopped, path, data)) if each.is_damage]
    assert found or (not clean and kind == "sparse index")
    assert [each for each in found if not each.remedy] == []
    lossless = {"sparse index", "journal.json"} | ({"journal.0", "journal.1"} if clean else set())
    assert {each.remedy for each in found if kind_of(each.file) == kind} <= (
        {"alone"} if kind in lossless else {"copy"}
    )


def test_a_log_that_is_open_is_not_looked_at(tmp_path: Path) -> None:
    disk = damaged_disk(LIVES[True, False])
    release = disk.lock(HOME / "lock")
    with pytest.raises(FolderInUse):
        list(verify_log(HOME, disk=disk, settings=OPTIONS))
    release()
    with pytest.raises(InvalidRequest, match=r"no log's folder: name the one that holds duramen\.json"):
        list(verify_log(tmp_path))


@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
def test_every_damaged_segment_of_a_partition_is_named(clean: bool) -> None:
    stopped = LIVES[clean, True]
    disk = damaged_disk(stopped)
    segments = [path for path in stopped.files if kind_of(path) == "segment" and path.parent.name == "0"]
    assert len(segments) > 1
    for path in segments:
        disk.files[path].content[-9] ^= 1  # in what a start reads
    damaged = {finding.file for finding in verified(disk) if finding.is_damage and finding.file.suffix == ".log"}
    assert damaged == set(segments[:-1]) | damaged & {segments[-1]}
    assert segments[-1] in {finding.file for finding in verified(disk)}, "as a tear, or as damage"
