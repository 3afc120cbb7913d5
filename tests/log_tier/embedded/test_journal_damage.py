"""A journal that is damaged is refused by name: what only it held is never given up in silence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from kit.log.engine_steps import HOME, fails_from, open_log, overwrite, segment_files
from kit.log.lost_power import COMMITS, OPTIONS, PARTITIONS, frames_of, keys, power_lost, used_journal
from kit.log.sample_batches import keys_of, plain_batch, read_all

from duramen.testing.machine.memory_disk import MemoryDisk
from log_tier.embedded import EngineSettings
from log_tier.embedded.commit.journal_format import FRAME_BYTES, VERSION
from log_tier.model.errors import DuramenError, LogDamaged
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId
from log_tier.model.log import Appended, Topic

Change = Callable[[bytearray], None]


async def test_240_keys_come_back_from_the_journal_alone() -> None:
    disk, topic = power_lost()
    assert len(frames_of(bytes(disk.files[used_journal(disk)].content))) >= 50
    assert await keys(disk, topic) == PARTITIONS * COMMITS


@pytest.mark.parametrize("frame", [0, 2, 30, 50])
@pytest.mark.parametrize("at", [0, 5, 10, 18, 26, 30, 34, 40, 60, 120])
async def test_one_flipped_bit_in_a_frame_is_refused_by_name(frame: int, at: int) -> None:
    disk, topic = power_lost()
    path = used_journal(disk)
    place = frames_of(bytes(disk.files[path].content))[frame]
    disk.files[path].content[place + at] ^= 4
    before = {name: bytes(inode.content) for name, inode in disk.files.items()}
    with pytest.raises(LogDamaged, match=r"journal\.\d") as caught:
        await keys(disk, topic)
    assert caught.value.fields == {"file": str(path), "position": place}
    after = {name: bytes(inode.content) for name, inode in disk.files.items()}
    assert after == before, "nothing was changed"
    disk.files[path].content[place + at] ^= 4
    assert await keys(disk, topic) == PARTITIONS * COMMITS, "with the bit put right, everything is there"


@pytest.mark.parametrize("bit", range(0, 60 * 8, 7))
async def test_one_flipped_bit_in_the_header_costs_nothing(bit: int) -> None:
    disk, topic = power_lost()
    disk.files[used_journal(disk)].content[bit // 8] ^= 1 << bit % 8
    assert await keys(disk, topic) == PARTITIONS * COMMITS


def _zero(start: int) -> Change:
    def change(data: bytearray) -> None:
        data[start : start + 4096] = bytes(len(data[start : start + 4096]))

    return change


def _other(data: bytearray) -> None:
    data[:] = b"\0" * len(data)


CHANGES: dict[str, Change] = {
    "both headers gone": lambda data: (_zero(0)(data), _zero(4096)(data))[0],
    "frames zeroed": _zero(8192),
    "zeros only": _other,
    "emptied": lambda data: data.clear(),
    "cut in its header": lambda data: data.__delitem__(slice(30, None)),
    "cut between its frames": lambda data: data.__delitem__(slice(frames_of(bytes(data))[9], None)),
    "cut in a frame": lambda data: data.__delitem__(slice(frames_of(bytes(data))[9] + 50, None)),
}


@pytest.mark.parametrize(
    ("which", "change"),
    # The other file holds no frames that a change could hit.
    [("used", change) for change in CHANGES] + [("other", change) for change in CHANGES if "frame" not in change],
)
async def test_a_file_that_lost_its_content_is_refused_by_name(change: str, which: str) -> None:
    disk, topic = power_lost()
    used = used_journal(disk)
    path = used if which == "used" else HOME / ("journal.1" if used.name == "journal.0" else "journal.0")
    content = bytearray(disk.files[path].content)
    CHANGES[change](content)
    overwrite(disk, path, bytes(content))
    with pytest.raises(LogDamaged, match=r"journal\.\d") as caught:
        await keys(disk, topic)
    assert caught.value.fields["file"] == str(path)
    assert "move" in caught.value.message, "it says what to do"


@pytest.mark.parametrize("names", [["journal.0"], ["journal.1"], ["journal.0", "journal.1"]])
async def test_a_file_that_is_gone_is_refused_by_name(names: list[str]) -> None:
    disk, topic = power_lost()
    for name in names:
        del disk.files[HOME / name]
    with pytest.raises(LogDamaged, match=r"journal\.\d"):
        await keys(disk, topic)


async def test_an_open_that_fails_between_two_new_headers_leaves_a_journal_that_can_be_read() -> None:
    """After the files took turns, the newest generation lies in the second file, which gets its new header first."""
    options = EngineSettings(journal_bytes=1024)
    disk = MemoryDisk()
    async with await open_log(disk, options) as log:
        topic = await log.create_topic("flights", partitions=2)
        while not frames_of(bytes(disk.files[HOME / "journal.1"].content)):
            parts = [(topic.partition(number), plain_batch("k", value=bytes(100))) for number in range(2)]
            assert all(isinstance(found, Appended) for found in await log.append_many(parts))
        bounds = await log.all_bounds(topic.id)
        killed = disk.after_process_end()
    failed = 0
    while True:
        left = killed.after_process_end()
        left.on_step = fails_from(failed)
        try:
            log = await open_log(left, options)
        except DuramenError:
            failed += 1
        else:
            left.on_step = lambda what, path: None
            await log.close()
            break
        async with await open_log(left.after_process_end(), options) as log:
            assert await log.all_bounds(topic.id) == bounds
    assert failed > 4


async def test_moving_the_whole_journal_away_is_the_operators_word() -> None:
    disk, topic = power_lost()
    for path in [path for path in disk.files if path.name.startswith("journal")]:
        del disk.files[path]
    assert await keys(disk, topic) < PARTITIONS * COMMITS


async def test_the_two_files_exchanged_are_refused() -> None:
    disk, topic = power_lost()
    one, two = HOME / "journal.0", HOME / "journal.1"
    disk.files[one], disk.files[two] = disk.files[two], disk.files[one]
    with pytest.raises(LogDamaged, match=r"journal\.\d"):
        await keys(disk, topic)


async def test_another_logs_journal_is_refused() -> None:
    disk, topic = power_lost()
    other, _ = power_lost()
    stranger = MemoryDisk()
    async with await open_log(stranger, OPTIONS) as log:
        there = await log.create_topic("flights", partitions=2)
        for _ in range(3):
            await log.append_many([(PartitionId(there.id, Partition(p)), plain_batch("k")) for p in range(2)])
        other = stranger.after_process_end()
    for name in ("journal.0", "journal.1"):
        overwrite(disk, HOME / name, bytes(other.files[HOME / name].content).ljust(other.files[HOME / name].length))
    with pytest.raises(LogDamaged, match="another log"):
        await keys(disk, topic)


async def test_the_last_frame_is_cut_and_reported_with_its_offsets() -> None:
    """With one copy, damage to the last frame looks like a tear: it is a cut, and it is reported."""
    disk, topic = power_lost()
    path = used_journal(disk)
    data = bytes(disk.files[path].content)
    place = frames_of(data)[-1]
    end = place + FRAME_BYTES + int.from_bytes(data[place + 4 : place + 8], "little")
    disk.files[path].content[end - 3] ^= 4
    async with await open_log(disk, OPTIONS) as log:
        assert (await log.bounds(topic.partition(0))).latest == COMMITS - 2
        (cut,) = [str(cut) for cut in log.recovery.cuts]
        assert f"{path}" in cut
        assert f"byte {place}" in cut
        assert f"{topic.id}/0 offset {COMMITS - 1}" in cut


async def test_after_a_clean_close_a_damaged_journal_costs_nothing() -> None:
    disk, topic = power_lost()
    assert await keys(disk, topic) == PARTITIONS * COMMITS
    for name in ("journal.0", "journal.1"):
        broken = disk.after_process_end()
        overwrite(broken, HOME / name, b"")
        assert await keys(broken, topic) == PARTITIONS * COMMITS


async def test_an_older_copy_of_a_file_that_was_filled_is_noticed() -> None:
    """The next file goes on where the one before ended, so frames that are missing at its end are missed."""
    disk = MemoryDisk()
    log = await open_log(disk, EngineSettings(journal_bytes=3000))
    topic = await log.create_topic("flights", partitions=2)
    copies: dict[str, bytes] = {}
    for number in range(9):
        await log.append_many([(topic.partition(p), plain_batch(f"k{number}", value=b"x" * 90)) for p in range(2)])
        if number == 2:
            copies = {name: bytes(disk.files[HOME / name].content) for name in ("journal.0", "journal.1")}
    killed = disk.after_process_end()
    await log.close()
    older = copies["journal.0"].ljust(killed.files[HOME / "journal.0"].length, b"\0")
    overwrite(killed, HOME / "journal.0", older)
    with pytest.raises(LogDamaged, match=r"journal\.0"):
        await open_log(killed, EngineSettings(journal_bytes=3000))


def of_version(version: int, name: str) -> bytes:
    text = (Path(__file__).parent / "fixtures" / f"{name.replace('.', '_')}_v{version}.hex").read_text()
    data = bytes.fromhex("".join(text.split()))
    if version == 1:
        return data.ljust(1024, b"\0")
    head = data[:56].ljust(4096, b"\0")
    return (head + head + data[56:]).ljust(8892, b"\0")


@pytest.mark.parametrize("flipped", [False, True])
@pytest.mark.parametrize("version", [1, 2])
async def test_a_journal_of_an_earlier_version_is_replayed(version: int, flipped: bool) -> None:
    disk = MemoryDisk()
    settings = EngineSettings(journal_bytes=3000, random_bytes=lambda size: bytes(range(size)))
    async with await open_log(disk, settings) as log:
        topic = await log.create_topic("flights", partitions=2)
        assert topic.id == TableId("AAECAwQFBgcICQoLDA0ODw")
        await log.append_many([(topic.partition(p), plain_batch("k0")) for p in range(2)])
    del disk.files[HOME / "journal.json"]
    for partition in range(2):
        (path,) = segment_files(disk, topic, partition)
        overwrite(disk, path, b"")
        disk.files.pop(path.parent / "checkpoint.json")
    for name in ("journal.0", "journal.1"):
        data = bytearray(of_version(version, name))
        if flipped and name == ("", "journal.1", "journal.0")[version]:
            data[(0, 300, 8300)[version]] ^= 1
        overwrite(disk, HOME / name, bytes(data))
    if flipped:
        with pytest.raises(LogDamaged, match=r"journal\.[01]"):
            await open_log(disk, settings)
        return
    async with await open_log(disk, settings) as log:
        for partition in range(2):
            assert keys_of(await read_all(log, topic.id, partition)) == {0: b"k0", 1: b"k1", 2: b"k2"}
            assert (await log.bounds(topic.partition(partition))).latest == 2
        assert (await log.append(topic.partition(0), plain_batch("k3"))).base_offset == Offset(3)
    for name in ("journal.0", "journal.1"):
        assert disk.files[HOME / name].content[4] == VERSION, "it has become one of this version"


async def killed(options: EngineSettings) -> tuple[MemoryDisk, Topic, dict[Path, bytes]]:
    """A log after `kill -9`, and its segments as they were at half time. The journal has turned in between."""
    disk = MemoryDisk()
    log = await open_log(disk, options)
    topic = await log.create_topic("flights", partitions=2)
    older: dict[Path, bytes] = {}
    for number in range(40):
        await log.append_many([(topic.partition(p), plain_batch(f"k{number}")) for p in range(2)])
        if number == 20:
            files = [path for path in disk.files if path.suffix == ".log"]
            older = {path: bytes(disk.files[path].content).ljust(disk.files[path].length, b"\0") for path in files}
    found = disk.after_process_end()
    await log.close()
    return found, topic, older


@pytest.mark.parametrize("journal_bytes", [2000, 64 << 10], ids=["turned", "whole"])
@pytest.mark.parametrize("change", ["truncated", "cut inside", "emptied", "older copy", "removed", "all removed"])
async def test_a_newest_segment_without_what_was_acknowledged(change: str, journal_bytes: int) -> None:
    """The journal has the bytes: they come back. It has only the later ones: the loss is named, and nothing is given
    twice.
    """
    options = EngineSettings(segment_bytes=1 << 20, journal_bytes=journal_bytes)
    disk, topic, older = await killed(options)
    (path,) = segment_files(disk, topic, 0)
    content = bytes(disk.files[path].content)
    batch = len(content) // 40
    if change == "older copy":
        overwrite(disk, path, older[path])
    elif change == "removed":
        del disk.files[path]
    elif change == "all removed":
        for name in [name for name in disk.files if name.parent == path.parent]:
            del disk.files[name]
    else:
        overwrite(disk, path, content[: {"truncated": 20 * batch, "cut inside": 20 * batch + 30}.get(change, 0)])
    async with await open_log(disk, options) as log:
        other = keys_of(await read_all(log, topic.id, 1))
        assert other == {number: b"k%d" % number for number in range(40)}
        if not log.recovery.damages:
            assert journal_bytes > 2000
            assert keys_of(await read_all(log, topic.id, 0)) == other
            assert (await log.append(topic.partition(0), plain_batch("next"))).base_offset == 40
            return
        (damage,) = log.recovery.damages
        assert damage.fields["file"] == str(path)
        if journal_bytes > 2000 and "removed" not in change:
            # All is back, and a file that was cut may have lost a later commit, of this partition alone.
            assert change != "older copy", "which has its length"
            assert damage.fields["offset"] == 40
            assert "were reserved" in damage.message
        else:
            assert int(damage.fields["offset"]) <= 21
            assert "39" in damage.message or change == "removed", damage.message
        with pytest.raises(LogDamaged):
            await log.append(topic.partition(0), plain_batch("next"))
