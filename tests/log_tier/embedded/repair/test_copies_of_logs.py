"""Copies that are of no use, or of less: each is refused, or used as far as it goes, and says so."""

from __future__ import annotations

import pytest
from kit.log.engine_steps import HOME, open_log, overwrite
from kit.log.repairs import contents_of, damages_of, repaired, zeroed
from kit.log.sample_batches import plain_batch
from kit.log.stopped_logs import LIVES, OPTIONS, damaged_disk, kind_of
from kit.storage.versioned_document import sealed_json

from duramen.testing.machine.memory_disk import MemoryDisk
from log_tier.embedded import EngineSettings
from log_tier.embedded.verification import verify_log
from log_tier.model.errors import FolderInUse, InvalidRequest, UnknownFormat
from log_tier.model.identifiers import Offset

STOPPED = LIVES[True, True]
SEGMENTS = sorted(path for path in STOPPED.files if kind_of(path) == "segment")
FIRST, NEWEST = SEGMENTS[:2]


def damaged() -> MemoryDisk:
    return damaged_disk(STOPPED, FIRST, zeroed(STOPPED.files[FIRST], 0.4, 0.6))


async def written_on(disk: MemoryDisk, tag: str, count: int = 3) -> MemoryDisk:
    """A log that was copied, and started by itself."""
    async with await open_log(disk, OPTIONS) as log:
        for number in range(count):
            for partition in (0, 1):
                await log.append(STOPPED.topic.partition(partition), plain_batch(f"{tag}{number}"))
    return disk.after_process_end()


def test_a_copy_of_another_log() -> None:
    other = LIVES[True, False]
    with pytest.raises(InvalidRequest, match=f"is a copy of the log .*, and {HOME} is the log .*: name a copy of this"):
        repaired(damaged(), damaged_disk(other))
    unmarked = damaged_disk(STOPPED, HOME / "duramen.json", None)
    with pytest.raises(InvalidRequest, match=r"nothing in .* shows that it is the log"):
        repaired(unmarked, damaged_disk(other))
    with pytest.raises(InvalidRequest, match="is missing: whose files the others are is not known; name a copy"):
        repaired(unmarked, None)


def test_no_copy_at_all() -> None:
    with pytest.raises(InvalidRequest, match=r"is no copy of a log: it has no duramen\.json"):
        repaired(damaged(), MemoryDisk())
    with pytest.raises(InvalidRequest, match="is no log's folder"):
        repaired(MemoryDisk(), damaged_disk(STOPPED))


def test_a_copy_or_a_log_that_is_open() -> None:
    copy, disk = damaged_disk(STOPPED), damaged()
    release = copy.lock(HOME / "lock")
    with pytest.raises(FolderInUse, match="the copy /data/log is open in another Duramen, process 1, and nothing was"):
        repaired(disk, copy)
    release()
    disk.lock(HOME / "lock")
    with pytest.raises(FolderInUse):
        repaired(disk, copy)
    assert not copy.locks


def test_a_copy_of_a_newer_version() -> None:
    marker = HOME / "duramen.json"
    copy = damaged_disk(STOPPED, marker, sealed_json(STOPPED.files[marker], lambda fields: fields.update(version=9)))
    with pytest.raises(UnknownFormat, match="update this process"):
        repaired(damaged(), copy)
    newer = damaged_disk(STOPPED, marker, sealed_json(STOPPED.files[marker], lambda fields: fields.update(version=9)))
    with pytest.raises(UnknownFormat):
        repaired(newer, damaged_disk(STOPPED))


async def test_a_checkpoint_of_a_newer_version_keeps_its_partition_as_it_is() -> None:
    path = FIRST.with_name("checkpoint.json")
    newer = sealed_json(STOPPED.files[path], lambda fields: fields.update(version=9))
    disk = damaged_disk(STOPPED, path, newer)
    (refusal,) = repaired(disk, damaged_disk(STOPPED)).refusals
    assert refusal.partition == "flights/0"
    assert "update this process" in refusal.why
    assert bytes(disk.files[path].content) == newer


async def test_a_copy_that_is_damaged_at_the_same_place() -> None:
    copy = damaged_disk(STOPPED, FIRST, zeroed(STOPPED.files[FIRST], 0.5, 0.8))
    disk = damaged()
    plan = repaired(disk, copy)
    (refusal,) = plan.refusals
    assert "are damaged in it" in refusal.why
    assert damages_of(disk)
    elsewhere = damaged_disk(STOPPED, NEWEST, zeroed(STOPPED.files[NEWEST], 0.5, 0.8))
    assert not repaired(disk, elsewhere).refusals
    assert damages_of(disk) == []
    assert await contents_of(disk, STOPPED) == STOPPED.kept


async def test_a_copy_without_its_journal_is_used_as_far_as_it_goes() -> None:
    killed = LIVES[False, False]
    copy = damaged_disk(killed, HOME / "journal.0", b"?" * len(killed.files[HOME / "journal.0"]))
    path = min(each for each in killed.files if kind_of(each) == "segment")
    disk = damaged_disk(killed, path, zeroed(killed.files[path], 0.4, 0.6))
    plan = repaired(disk, copy)
    assert "what only the copy's journal holds is not used" in plan.notes[0]
    assert damages_of(disk) == []
    assert await contents_of(disk, killed) == killed.kept


async def test_a_log_that_went_another_way() -> None:
    """Both were copied from the same log, and both were written on since."""
    copy = await written_on(damaged_disk(STOPPED), "theirs", 12)
    ours = await written_on(damaged_disk(STOPPED), "ours", 14)
    path = max(each for each in ours.files if kind_of(each) == "segment" and each.parent.name == "0")
    overwrite(ours, path, zeroed(bytes(ours.files[path].content), 0.5, 0.7))
    (refusal,) = repaired(ours, copy).refusals
    assert "the copy is of another history of this log: at offset" in refusal.why
    assert refusal.offsets, "they can be given up"
    plan = repaired(ours, copy, {("flights", 0): refusal.offsets})
    assert plan.given_up
    assert damages_of(ours) == []
    assert not any(b"theirs" in key for key in (await contents_of(ours, STOPPED))[0].values())


async def test_a_copy_that_is_longer_gives_nothing_that_was_not_lost() -> None:
    copy = await written_on(damaged_disk(STOPPED), "later")
    disk = damaged_disk(STOPPED)
    plan = repaired(disk, copy)
    assert not plan.steps
    assert "nothing shows that this log has held more, and nothing of it is taken" in plan.notes[0]
    assert await contents_of(disk, STOPPED) == STOPPED.kept


async def test_a_journal_is_not_taken_from_an_older_copy() -> None:
    killed = LIVES[False, False]
    disk = damaged_disk(killed, HOME / "journal.1", b"?" * len(killed.files[HOME / "journal.1"]))
    disk.files[HOME / "journal.0"].content[:5000] = b"?" * 5000
    older = damaged_disk(killed._replace(files=killed.older))
    (refusal,) = repaired(disk, older).refusals
    assert refusal.partition == "journal"
    assert "Not repaired: the copy's journal.0 lacks frame" in refusal.why
    for name in ("journal.0", "journal.1"):
        overwrite(disk, HOME / name, bytes(len(killed.files[HOME / name])))
    (refusal,) = repaired(disk, older).refusals
    assert "Not repaired: the copy is older: flights/0 ends with offset" in refusal.why
    assert damages_of(disk)


async def test_a_compacted_log_and_a_copy_from_before() -> None:
    """A record of the copy would bring back a key that the compaction has deleted for good."""
    settings = EngineSettings(segment_bytes=1024, index_every_bytes=200, tombstone_ms=1)
    disk = MemoryDisk()
    async with await open_log(disk, settings) as log:
        topic = await log.create_topic("flights", partitions=1)
        for number in range(40):
            await log.append(topic.partition(0), plain_batch(f"k{number % 6}", value=bytes(60)))
    before = disk.after_process_end()
    async with await open_log(disk, settings) as log:
        await log.compact(topic.partition(0), Offset(38))
    after = disk.after_process_end()
    path = min(each for each in after.files if each.suffix == ".log" and after.files[each].length > 300)
    whole = bytes(after.files[path].content)
    overwrite(after, path, whole[:20] + b"????" + whole[24:])
    (refusal,) = repaired(after, before).refusals
    assert "is compacted below offset" in refusal.why
    repaired(after, disk)
    assert list(verify_log(HOME, disk=after, settings=settings)) == []
    assert bytes(after.files[path].content) == whole


async def test_a_copy_that_was_trimmed_since() -> None:
    """What it lacks at its beginning is refused, what it has is taken."""
    copy = damaged_disk(STOPPED)
    async with await open_log(copy, OPTIONS) as log:
        assert await log.trim(STOPPED.topic.partition(0), Offset(20)) > 0
    disk = damaged()
    (refusal,) = repaired(disk, copy.after_process_end()).refusals
    assert "the copy does not have them" in refusal.why
    late = damaged_disk(STOPPED, NEWEST, zeroed(STOPPED.files[NEWEST], 0.4, 0.6))
    assert not repaired(late, copy.after_process_end()).refusals
    assert await contents_of(late, STOPPED) == STOPPED.kept
