"""The commit journal: its bytes, its turns, and what a replay puts back."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import google_crc32c
import pytest
from kit.log.engine_steps import HOME, SMALL, copy_of, open_log, overwrite, segment_files
from kit.log.sample_batches import keys_of, plain_batch, read_all

from duramen.testing.machine.memory_disk import MemoryDisk
from log_tier.embedded.commit.journal import Journal, JournalEntry
from log_tier.embedded.commit.journal_format import FRAMES_AT
from log_tier.model.errors import DuramenError, LogStopped, WriteUnknown
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId
from log_tier.model.log import Appended

TOPIC = TableId("AAECAwQFBgcICQoLDA0ODw")
LOG = bytes(range(16, 32))
FOLDER = Path("/log")
SEGMENTS = {Partition(0): Path("/segment.0"), Partition(1): Path("/segment.1")}


def new_disk() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_folder(FOLDER)
    for path in SEGMENTS.values():
        disk.open(path, create=True).close()
    return disk


def newest(partition: PartitionId, base: Offset) -> Path | None:
    return SEGMENTS.get(partition.partition) if partition.table == TOPIC and base == 0 else None


def entry(partition: int, position: int, data: bytes, *, segment: int = 0) -> JournalEntry:
    return JournalEntry(PartitionId(TOPIC, Partition(partition)), Offset(segment), position, data)


def write(journal: Journal, *entries: JournalEntry) -> None:
    journal.write(entries, [SEGMENTS[entry.partition.partition] for entry in entries])


def open_journal(disk: MemoryDisk, size: int = 1024) -> tuple[Journal, int]:
    journal, replayed = Journal.open(disk, FOLDER, size=size, log_id=LOG, segment_of=newest)
    return journal, replayed.restored


def test_the_bytes_are_those_of_the_format_page() -> None:
    disk = new_disk()
    journal, _ = open_journal(disk)
    write(journal, entry(0, 64, b"one"), entry(1, 7, b"three"))
    journal.close(settle=False)
    first, second = (bytes(disk.files[FOLDER / name].content) for name in ("journal.0", "journal.1"))
    log = "101112131415161718191a1b1c1d1e1f"
    assert first[:52].hex() == f"44754a6c030000000200000000000000{log}00240000000000000000000000000000" + "00000000"
    assert second[:52].hex() == f"44754a6c030000000100000000000000{log}00240000000000000000000000000000" + "00000000"
    for data in (first, second):
        assert google_crc32c.value(data[:52]) == int.from_bytes(data[52:56], "little")
        assert google_crc32c.value(data[:64]) == int.from_bytes(data[64:68], "little")
        assert data[4096 : 4096 + 68] == data[:68], "each header is there twice"
    assert [int.from_bytes(data[56:64], "little") for data in (first, second)] == [8192 + 1024, 8192], "fit for frames"
    head = first[8192:8232].hex()
    assert head == "44754a66580000000200000000000000000000000000000000000000" + "00000000" + "02000000" + head[-8:]
    assert google_crc32c.value(first[8192:8228] + first[8232 : 8232 + 88]) == int.from_bytes(first[8228:8232], "little")
    assert first[8232 + 88 :] == (b"DuJ: unused room" * 64)[120 + 8 :], "the rest of the room"
    payload = first[8232 : 8232 + 88].hex()
    topic = "000102030405060708090a0b0c0d0e0f"
    assert payload == (
        f"{topic}00000000"
        "0000000000000000"
        "4000000000000000"
        "03000000" + b"one".hex() + f"{topic}01000000"
        "0000000000000000"
        "0700000000000000"
        "05000000" + b"three".hex()
    )


def test_a_replay_puts_back_what_a_segment_lost_and_nothing_else() -> None:
    disk = new_disk()
    journal, _ = open_journal(disk)
    write(journal, entry(0, 0, b"aaaa"), entry(1, 0, b"bb"))
    write(journal, entry(0, 4, b"cc"), entry(1, 2, b"dd"))
    disk.open(SEGMENTS[Partition(1)], write=True).pwrite((b"bbdd",), 0)
    journal.close(settle=False)
    _, restored = open_journal(disk)
    assert restored == 2, "the second segment had lost nothing"
    assert bytes(disk.files[SEGMENTS[Partition(0)]].durable) == b"aaaacc"
    assert bytes(disk.files[SEGMENTS[Partition(1)]].content) == b"bbdd"


def test_frames_of_an_earlier_run_do_not_count() -> None:
    disk = new_disk()
    journal, _ = open_journal(disk)
    write(journal, entry(0, 0, b"old"), entry(1, 0, b"old"))
    journal.close(settle=False)
    journal, restored = open_journal(disk)
    assert restored == 2
    journal.close(settle=True)
    overwrite(disk, SEGMENTS[Partition(0)], b"new")
    _, restored = open_journal(disk)
    assert restored == 0
    assert bytes(disk.files[SEGMENTS[Partition(0)]].content) == b"new"


@pytest.mark.parametrize("at", [0, 10, 20, 30, 33, 50, 100, 123])
def test_a_last_frame_that_does_not_hold_its_checksum_is_cut(at: int) -> None:
    disk = new_disk()
    journal, _ = open_journal(disk)
    write(journal, entry(0, 64, b"one"), entry(1, 7, b"three"))
    journal.close(settle=False)
    disk.files[FOLDER / "journal.0"].content[FRAMES_AT + at] ^= 4
    _, replayed = Journal.open(disk, FOLDER, size=1024, log_id=LOG, segment_of=newest)
    assert replayed.restored == 0
    assert replayed.cut is not None
    assert (replayed.cut.file, replayed.cut.position) == (str(FOLDER / "journal.0"), FRAMES_AT)


def test_only_the_newest_segment_is_written_to() -> None:
    disk = new_disk()
    journal, _ = open_journal(disk)
    write(journal, entry(0, 0, b"sealed", segment=5), entry(1, 0, b"newest"))
    journal.close(settle=False)
    _, restored = open_journal(disk)
    assert restored == 1
    assert bytes(disk.files[SEGMENTS[Partition(0)]].content) == b""


def test_a_file_is_overwritten_only_when_its_segments_were_synced() -> None:
    disk = new_disk()
    journal, _ = open_journal(disk, size=200)
    synced: list[str] = []
    disk.on_step = lambda what, path: synced.append(path.name) if what == "sync" else None
    position = 0
    for _ in range(12):
        for path in SEGMENTS.values():
            disk.open(path, write=True).pwrite((b"x" * 20,), position)
        write(journal, entry(0, position, b"x" * 20), entry(1, position, b"x" * 20))
        position += 20
    journal.close(settle=True)
    turns = [name for name in synced if name in ("journal.0", "journal.1")]
    made_fit = [*["journal.0"] * 3, *["journal.1"] * 4]
    assert turns == [*made_fit, *["journal.0", "journal.0", "journal.1", "journal.1"] * 5], (
        "each file holds one frame of this size, and its header is synced before it"
    )
    assert synced.count("segment.0") >= 10
    assert bytes(disk.files[SEGMENTS[Partition(0)]].durable) == b"x" * 240


def test_a_clean_close_leaves_nothing_to_replay() -> None:
    """What only frames cover is synced in its segments, but for what the caller has synced itself."""
    disk = new_disk()
    journal, _ = open_journal(disk)
    for path in SEGMENTS.values():
        disk.open(path, write=True).pwrite((b"x" * 20,), 0)
    write(journal, entry(0, 0, b"x" * 20), entry(1, 0, b"x" * 20))
    journal.close(settle=True, synced={SEGMENTS[Partition(1)]})
    assert [bytes(disk.files[path].durable) for path in SEGMENTS.values()] == [b"x" * 20, b""]
    assert open_journal(disk)[1] == 0


def test_a_commit_over_several_partitions_is_one_sync() -> None:
    async def story() -> None:
        disk = MemoryDisk()
        async with await open_log(disk) as log:
            topic = await log.create_topic("flights", partitions=4)
            parts = [(topic.partition(number), plain_batch(f"k{number}")) for number in range(4)]
            await log.append_many(parts)
            before = log.statistics().syncs
            synced: list[str] = []
            disk.on_step = lambda what, path: synced.append(path.name) if what == "sync" else None
            places = await log.append_many(parts)
            assert all(isinstance(place, Appended) and place.base_offset == 1 for place in places)
            assert log.statistics().syncs == before + 1
            assert [name for name in synced if not name.startswith("journal")] == []

    asyncio.run(story())


def test_a_failed_sync_of_the_journal_stops_the_log() -> None:
    async def story() -> None:
        disk = MemoryDisk()

        def fail(what: str, path: Path) -> None:
            if what == "sync" and path.name.startswith("journal"):
                raise OSError(errno.EIO, "Input/output error")

        async with await open_log(disk) as log:
            topic = await log.create_topic("flights", partitions=3)
            parts = [(topic.partition(number), plain_batch(f"k{number}")) for number in range(3)]
            await log.append_many(parts)
            disk.on_step = fail
            places = await log.append_many(parts)
            assert all(isinstance(place, WriteUnknown) for place in places)
            disk.on_step = lambda what, path: None
            with pytest.raises(LogStopped):
                await log.append(topic.partition(0), plain_batch("later"))
            assert (await log.bounds(topic.partition(0))).latest == 0, "what was not acknowledged is not read"

    asyncio.run(story())


def test_acknowledged_writes_come_back_from_the_journal() -> None:
    async def story() -> None:
        disk = MemoryDisk()
        async with await open_log(disk) as log:
            topic = await log.create_topic("flights", partitions=2)
            parts = [(topic.partition(number), plain_batch(f"k{number}")) for number in range(2)]
            await log.append_many(parts)
            await log.append_many(parts)
            # Power fails: of the segments, only what was synced by itself is left.
            survivor = copy_of(disk)
            for number in range(2):
                path = segment_files(disk, topic, number)[0]
                overwrite(survivor, path, bytes(disk.files[path].durable).ljust(disk.files[path].durable_length, b"\0"))
        async with await open_log(survivor) as log:
            assert any("back from the journal" in note for note in log.recovery.notes), log.recovery.notes
            for number in range(2):
                assert list(keys_of(await read_all(log, topic.id, number))) == [0, 1]

    asyncio.run(story())


def test_without_room_for_a_journal_each_partition_is_synced() -> None:
    async def story() -> None:
        disk = MemoryDisk()

        def full(what: str, path: Path) -> None:
            if what == "preallocate" and path.name.startswith("journal"):
                raise OSError(errno.ENOSPC, "No space left on device")

        disk.on_step = full
        async with await open_log(disk, SMALL) as log:
            assert any("no room for a journal" in note for note in log.recovery.notes)
            topic = await log.create_topic("flights", partitions=2)
            parts = [(topic.partition(number), plain_batch("k")) for number in range(2)]
            places = await log.append_many(parts)
            assert not any(isinstance(place, DuramenError) for place in places)
        assert HOME / "journal.0" in disk.files

    asyncio.run(story())
