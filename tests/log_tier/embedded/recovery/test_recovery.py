"""Torn tails are cut and reported; damage is named, kept, and never served."""

from __future__ import annotations

import asyncio
import random
from itertools import pairwise
from pathlib import Path

import google_crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.log.engine_steps import HOME, SMALL, ZERO, copy_of, open_log, overwrite, segment_files
from kit.log.memory_disk import MemoryDisk, MemoryFile
from kit.log.sample_batches import keys_of, plain_batch, read_all

from log_tier.embedded import EmbeddedLog, EngineSettings, RecoveryReport
from log_tier.embedded.recovery.open_partition import open_partition
from log_tier.embedded.segments.sparse_index import SparseIndex
from log_tier.embedded.segments.tail_cache import TailMemory
from log_tier.embedded.storage.settings import PREALLOCATION_BYTES_MIN
from log_tier.model.batch import decode_batch
from log_tier.model.batch_header import place_of, read_header
from log_tier.model.errors import LogDamaged
from log_tier.model.identifiers import Offset, Partition
from log_tier.model.log import Bounds, Topic

LARGE = EngineSettings(segment_bytes=1 << 20, index_every_bytes=700)


async def filled(count: int, options: EngineSettings, *, clean: bool) -> tuple[MemoryDisk, Topic]:
    """A disk with a log of `count` batches, each committed by itself; closed, or as `kill -9` leaves it."""
    disk = MemoryDisk()
    log = await open_log(disk, options)
    topic = await log.create_topic("flights", partitions=2)
    for number in range(count):
        await log.append(topic.id, ZERO, plain_batch(f"k{number}", value=bytes([number % 251]) * (number % 90)))
    killed = copy_of(disk)
    await log.close()
    return (disk if clean else killed), topic


async def readable(log: EmbeddedLog, topic: Topic) -> tuple[dict[int, bytes], LogDamaged | None]:
    """Every record that reading from the start gives, and the damage that it ends with."""
    found: dict[int, bytes] = {}
    try:
        async for chunk in log.read(topic.id, ZERO, Offset(0), follow=False, chunk_bytes=1):
            found.update(keys_of([chunk.data]))
    except LogDamaged as damage:
        return found, damage
    return found, None


def places(data: bytes) -> list[int]:
    """Where the batches of a segment begin, and where they end."""
    found = [0]
    while found[-1] < len(data) and data[found[-1] : found[-1] + 4] == b"DuLb":
        found.append(found[-1] + read_header(data, found[-1]).length)
    return found


async def test_a_clean_close_leaves_no_reserved_space_and_nothing_to_report(tmp_path: Path) -> None:
    path = tmp_path / "log"
    async with await EmbeddedLog.open(path) as log:
        topic = await log.create_topic("flights", partitions=1)
        await log.append(topic.id, ZERO, plain_batch("a"))
        (file,) = path.glob("topics/*/0/*.log")
        assert file.stat().st_size == PREALLOCATION_BYTES_MIN, "space is reserved while the log is open"
    assert file.stat().st_size == len(plain_batch("a"))
    async with await EmbeddedLog.open(path) as log:
        assert str(log.recovery) == "nothing to recover"
        assert (await log.append(topic.id, ZERO, plain_batch("b"))).base_offset == 1
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


@pytest.mark.parametrize("filling", ["nothing", "zeros", "garbage"])
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
        rest = {"nothing": 0, "zeros": 3000, "garbage": 3000}[filling]
        tail = chance.randbytes(rest) if filling == "garbage" else bytes(rest)
        overwrite(cut, path, whole[:at] + tail)
        kept = max(n for n, end in enumerate(ends) if end <= at)
        torn = (whole[ends[kept] : at] + tail).rstrip(b"\0")
        report = RecoveryReport()
        partition = open_partition(
            topic,
            ZERO,
            path.parent,
            disk=cut,
            clock=lambda: 1,
            settings=LARGE,
            memory=TailMemory(0),
            report=report,
        )
        assert partition.bounds() == Bounds(Offset(0), Offset(kept - 1))
        assert [(item.position, item.bytes, item.offset) for item in report.cuts] == (
            [(ends[kept], len(torn), kept)] if torn else []
        )
        assert not report.damages
        assert cut.files[path].durable == whole[: ends[kept]]
        if at % 59 == 0:
            async with await open_log(cut, LARGE) as log:
                place = await log.append(topic.id, ZERO, plain_batch("after"))
                assert place.base_offset == kept
                expected = {n: b"k%d" % n for n in range(kept)} | {kept: b"after"}
                assert keys_of(await read_all(log, topic.id)) == expected


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
                await log.append(topic.id, ZERO, plain_batch("after"))
            found, met = await readable(log, topic)
            assert found == {n: b"k%d" % n for n in range(kept)}
            assert met is not None
            other = await log.append(topic.id, 1, plain_batch("other"))
            assert other.base_offset == 0, "the other partitions go on"


SEVENTY = {clean: asyncio.run(filled(70, SMALL, clean=clean)) for clean in (True, False)}
"""A log of several segments, closed and killed; tests change copies of it."""


@given(clean=st.booleans(), number=st.integers(0, 7), at=st.floats(0, 1, exclude_max=True))
@settings(max_examples=250, deadline=None)
def test_single_flipped_bits_are_found_named_and_never_served(clean: bool, number: int, at: float) -> None:
    original, topic = SEVENTY[clean]
    disk = copy_of(original)
    files = segment_files(disk, topic)
    path = files[number % len(files)]
    content = bytearray(disk.files[path].content)
    ends = places(bytes(content))
    bit = int(ends[-1] * 8 * at)
    content[bit // 8] ^= 1 << bit % 8
    overwrite(disk, path, bytes(content))
    # Batches of one record: the nth of a segment has the nth offset.
    broken = max(n for n, end in enumerate(ends) if end <= bit // 8)
    offset = int(path.stem) + broken
    truth = {n: b"k%d" % n for n in range(70)}

    async def check() -> None:
        async with await open_log(disk) as log:
            found, damage = await readable(log, topic)
            assert found == {n: truth[n] for n in range(offset)}
            if damage is None:
                # The last commit before a kill: no single copy can tell it from a tear. It is cut, and reported.
                assert (clean, offset) == (False, 69)
                assert log.recovery.cuts[0].offset == 69
                return
            assert damage.fields == {"file": str(path), "position": ends[broken], "offset": offset}
            assert bytes(disk.files[path].content[: len(content)]) == bytes(content), "damage is never cut"
            try:
                behind = keys_of(await read_all(log, topic.id, start=offset + 1)) if offset < 69 else {}
            except LogDamaged:
                return
            assert behind.items() <= truth.items(), "what is served is what was written"

    asyncio.run(check())


async def test_damage_in_the_middle_is_proved_by_what_was_written_after_its_sync() -> None:
    disk, topic = await filled(40, LARGE, clean=False)
    (path,) = segment_files(disk, topic)
    index = path.with_suffix(".index")
    disk.files.pop(index, None)
    content = bytearray(disk.files[path].content)
    ends = places(bytes(content))
    content[ends[20] + 70] ^= 4
    overwrite(disk, path, bytes(content))
    async with await open_log(disk, LARGE) as log:
        (damage,) = log.recovery.damages
        assert damage.fields["position"] == ends[20]
        assert "offset 21 at byte" in damage.message
        assert await log.bounds(topic.id, ZERO) == Bounds(Offset(0), Offset(19))


async def test_a_torn_commit_of_many_batches_is_cut_although_later_ones_of_it_are_whole() -> None:
    """Batches of one commit are written together, so the disk may keep the last and lose the first."""
    disk = MemoryDisk()
    log = await open_log(disk, LARGE)
    topic = await log.create_topic("flights", partitions=1)
    await log.append(topic.id, ZERO, plain_batch("first"))
    await asyncio.gather(*(log.append(topic.id, ZERO, plain_batch(f"k{n}")) for n in range(20)))
    killed = copy_of(disk)
    await log.close()
    (path,) = segment_files(killed, topic)
    content = bytearray(killed.files[path].content)
    ends = places(bytes(content))
    headers = [read_header(bytes(content), at) for at in ends[:-1]]
    group = next(n for n, header in enumerate(headers) if n and header.unsynced == 0 and headers[n + 1].unsynced)
    last = max(n for n, header in enumerate(headers) if n >= group and header.base_offset - header.unsynced == group)
    overwrite(
        killed, path, bytes(content[: ends[group]]) + bytes(10) + bytes(content[ends[group] + 10 : ends[last + 1]])
    )
    async with await open_log(killed, LARGE) as log:
        assert [cut.offset for cut in log.recovery.cuts] == [group]
        assert (await log.append(topic.id, ZERO, plain_batch("again"))).base_offset == group


@pytest.mark.parametrize("which", [0, 1, -1])
async def test_a_missing_segment_is_damage(which: int) -> None:
    disk, topic = await filled(70, SMALL, clean=True)
    files = segment_files(disk, topic)
    missing = files[which]
    del disk.files[missing]
    async with await open_log(disk) as log:
        (damage,) = log.recovery.damages
        assert "missing" in damage.message
        with pytest.raises(LogDamaged):
            await log.append(topic.id, ZERO, plain_batch("after"))
        if which:
            found, met = await readable(log, topic)
            assert sorted(found) == list(range(int(missing.stem)))
            assert met is not None


@pytest.mark.parametrize("content", [None, b"", b"garbage" * 100, "truncated", "shifted", "half true"])
@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
async def test_an_index_file_that_lies_is_replaced_by_a_scan(content: bytes | str | None, clean: bool) -> None:
    disk, topic = await filled(120, SMALL, clean=clean)
    for path in [path for path in disk.files if path.suffix == ".index"]:
        true = bytes(disk.files[path].content)
        if content is None:
            del disk.files[path]
        elif content == "truncated":
            overwrite(disk, path, true[: len(true) // 2 + 3])
        elif content == "shifted":
            # Another segment's index: valid entries that are wrong here.
            other = HOME / path.parent / f"{0:020d}.index"
            overwrite(disk, path, true[:16] + bytes(disk.files[other].content[16:]))
        elif content == "half true":
            # Valid entries, the last one right and the others one batch too far.
            base = Offset(int(path.stem))
            index, lie = SparseIndex.decode(true, base), SparseIndex()
            for number in range(len(index)):
                offset, position = index.entry(number)
                lie.add(offset, position + (73 if number < len(index) - 1 else 0))
            overwrite(disk, path, lie.encode(base))
        else:
            assert isinstance(content, bytes)
            overwrite(disk, path, content)
    async with await open_log(disk) as log:
        assert not log.recovery.damages
        for start in range(0, 120, 7):
            assert sorted(keys_of(await read_all(log, topic.id, start=start))) == list(range(start, 120))
        assert (await log.append(topic.id, ZERO, plain_batch("after"))).base_offset == 120


async def test_opening_reads_only_the_end_of_each_segment() -> None:
    disk, topic = await filled(400, EngineSettings(segment_bytes=16384, index_every_bytes=500), clean=True)
    read: list[int] = []
    pread = MemoryFile.pread

    def counting(self: MemoryFile, size: int, position: int) -> bytes:
        data = pread(self, size, position)
        if self.path.suffix == ".log":
            read.append(len(data))
        return data

    total = sum(len(disk.files[path].content) for path in segment_files(disk, topic))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryFile, "pread", counting)
        async with await open_log(disk, EngineSettings(segment_bytes=16384, index_every_bytes=500)):
            pass
    assert sum(read) < total / 5


async def test_an_index_entry_proves_that_its_batch_was_there() -> None:
    """Entries are made after the sync: without its batch, the newest entry tells damage from a tear."""
    options = EngineSettings(segment_bytes=1 << 20, index_every_bytes=1)
    for with_index in (True, False):
        disk, topic = await filled(17, options, clean=False)
        (path,) = segment_files(disk, topic)
        content = bytearray(disk.files[path].content)
        content[places(bytes(content))[16] + 70] ^= 1
        overwrite(disk, path, bytes(content))
        if not with_index:
            del disk.files[path.with_suffix(".index")]
        async with await open_log(disk, options) as log:
            assert len(log.recovery.damages) == with_index
            assert len(log.recovery.cuts) == (not with_index)


async def two_alike(path: Path, records: int) -> tuple[Topic, Topic]:
    """Two topics of two partitions whose files look alike: the same keys at the same offsets, other values."""
    async with await EmbeddedLog.open(path, settings=SMALL) as log:
        topics = [await log.create_topic(name, partitions=2) for name in ("flights", "trains")]
        for number in range(records):
            for topic in topics:
                for partition in range(2):
                    value = f"{topic.name}{partition}".encode().ljust(20)
                    await log.append(topic.id, Partition(partition), plain_batch(f"k{number:03}", value=value))
    return topics[0], topics[1]


@pytest.mark.parametrize("whose", ["other partition", "other table"])
@pytest.mark.parametrize("what", ["a sealed segment", "the newest segment", "all files", "one batch"])
async def test_a_batch_of_another_partition_is_damage_and_never_served(tmp_path: Path, whose: str, what: str) -> None:
    """Its checksums hold and its offset fits: only its stamp says that it belongs elsewhere."""
    flights, trains = await two_alike(tmp_path / "log", 60)
    topics = tmp_path / "log" / "topics"
    here = topics / flights.id / "0"
    there = topics / flights.id / "1" if whose == "other partition" else topics / trains.id / "0"
    files = sorted(here.glob("*.log"))
    assert len(files) > 2
    if what == "all files":
        for file in there.iterdir():
            (here / file.name).write_bytes(file.read_bytes())
    elif what == "one batch":
        mine, other = files[1].read_bytes(), (there / files[1].name).read_bytes()
        ends = places(mine)
        assert ends == places(other)
        files[1].write_bytes(mine[: ends[2]] + other[ends[2] : ends[3]] + mine[ends[3] :])
    else:
        file = files[1 if what == "a sealed segment" else -1]
        file.write_bytes((there / file.name).read_bytes())
    async with await EmbeddedLog.open(tmp_path / "log", settings=SMALL) as log:
        found, damage = await readable(log, flights)
        assert damage is not None
        assert any("another partition's" in each.message for each in (damage, *log.recovery.damages))
        assert str(here) in str(damage.fields["file"])
        assert list(found) == list(range(len(found)))
        assert len(found) <= int(damage.fields["offset"]), "what lies before it is served, and nothing of it"
        other = await read_all(log, trains.id, 1)
        assert len(other) == 60


async def test_a_batch_of_an_older_client_is_stored_with_the_stronger_stamp() -> None:
    disk = MemoryDisk()
    old = bytes.fromhex((Path(__file__).parents[1] / "fixtures" / "batch_v1_plain.hex").read_text())
    async with await open_log(disk) as log:
        topic = await log.create_topic("flights", partitions=1)
        place = await log.append(topic.id, ZERO, old)
        assert place.base_offset == 0
        (stored,) = await read_all(log, topic.id)
        batch = decode_batch(stored, place_of(topic.id, ZERO))
        assert batch.header.version == 2
        assert batch.columns.keys == decode_batch(old).columns.keys


async def test_segments_of_batch_version_1_are_read_on() -> None:
    """A log that an older version wrote: its batches have the weaker stamp, and new ones follow them."""
    disk, topic = await filled(3, LARGE, clean=True)
    (path,) = segment_files(disk, topic)
    data, ends = bytes(disk.files[path].content), places(bytes(disk.files[path].content))
    overwrite(disk, path, b"".join(as_version_1(data[a:b]) for a, b in pairwise(ends)))
    async with await open_log(disk, LARGE) as log:
        assert str(log.recovery) == "nothing to recover"
        assert (await log.append(topic.id, ZERO, plain_batch("new"))).base_offset == 3
    async with await open_log(disk, LARGE) as log:
        assert keys_of(await read_all(log, topic.id)) == {0: b"k0", 1: b"k1", 2: b"k2", 3: b"new"}


def as_version_1(batch: bytes) -> bytes:
    """A stored batch as version 1 would have stored it."""
    middle = b"\1" + batch[5:12]
    body = google_crc32c.extend(google_crc32c.value(middle), batch[40:])
    head = batch[:4] + middle + body.to_bytes(4, "little") + batch[16:36]
    return head + google_crc32c.value(head).to_bytes(4, "little") + batch[40:]


async def test_another_partitions_checkpoint_removes_nothing() -> None:
    """It says that its own partition was trimmed: believed here, it would remove segments that nobody gave up."""
    disk = MemoryDisk()
    async with await open_log(disk) as log:
        topic = await log.create_topic("flights", partitions=2)
        for number in range(60):
            for partition in range(2):
                await log.append(topic.id, Partition(partition), plain_batch(f"k{number:02}", value=b"x" * 60))
        await log.trim(topic.id, Partition(1), Offset(40))
    mine, other = (segment_files(disk, topic, number)[0].parent / "checkpoint.json" for number in (0, 1))
    overwrite(disk, mine, bytes(disk.files[other].content))
    async with await open_log(disk) as log:
        assert sorted(keys_of(await read_all(log, topic.id))) == list(range(60))
        (note,) = log.recovery.notes
        assert f"{mine} is of partition {topic.id}/1" in note


async def test_another_tables_description_is_refused() -> None:
    disk = MemoryDisk()
    async with await open_log(disk) as log:
        flights = await log.create_topic("flights", partitions=2)
        trains = await log.create_topic("trains", partitions=1)
    mine, other = (HOME / "topics" / topic.id / "topic.json" for topic in (flights, trains))
    overwrite(disk, mine, bytes(disk.files[other].content))
    with pytest.raises(LogDamaged, match=f"{mine} is of topic {trains.id}"):
        await open_log(disk)
