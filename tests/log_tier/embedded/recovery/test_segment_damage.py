"""Damage inside a segment or its index is named and kept, and no changed record is served."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.log.engine_steps import (
    HOME,
    SMALL,
    ZERO,
    change_content,
    copy_of,
    open_log,
    overwrite,
    segment_files,
)
from kit.log.filled_log import LARGE, filled, places, readable
from kit.log.sample_batches import keys_of, plain_batch, read_all

from duramen.testing.machine.memory_disk import MemoryFile
from log_tier.embedded import EngineSettings
from log_tier.embedded.recovery.segment_end import Cut
from log_tier.embedded.segments.sparse_index import SparseIndex
from log_tier.model.errors import LogDamaged
from log_tier.model.identifiers import Offset

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
                # The last commit before a kill: with one copy it looks like a tear. It is cut, and reported.
                assert (clean, offset) == (False, 69)
                assert [cut.offset for cut in log.recovery.cuts if isinstance(cut, Cut)] == [69]
                return
            assert damage.fields == {"file": str(path), "position": ends[broken], "offset": offset}
            assert bytes(disk.files[path].content[: len(content)]) == bytes(content), "damage is never cut"
            try:
                behind = keys_of(await read_all(log, topic.id, start=offset + 1)) if offset < 69 else {}
            except LogDamaged:
                return
            assert behind.items() <= truth.items(), "what is served is what was written"

    asyncio.run(check())


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("number", [0, 1, -1])
async def test_a_batch_that_lies_in_the_place_of_an_earlier_one_of_its_partition_is_damage(
    clean: bool, number: int
) -> None:
    """As a disk leaves it that wrote it to the wrong place. No compaction has made that hole."""
    original, topic = SEVENTY[clean]
    disk = copy_of(original)
    path = segment_files(disk, topic)[number]
    content = bytearray(disk.files[path].content)
    ends = places(bytes(content))
    begin, next_one, end = ends[1], ends[2], ends[3]
    content[begin : begin + end - next_one] = content[next_one:end]
    overwrite(disk, path, bytes(content))
    async with await open_log(disk) as log:
        found, damage = await readable(log, topic)
    offset = int(path.stem) + 1
    assert found == {n: b"k%d" % n for n in range(offset)}
    assert damage is not None
    assert damage.fields == {"file": str(path), "position": begin, "offset": offset}


async def test_a_batch_of_a_later_segment_is_damage_in_a_compacted_one() -> None:
    """Where a compaction may have left holes, a batch still belongs to the segment that holds its offset."""
    original, topic = SEVENTY[True]
    disk = copy_of(original)
    async with await open_log(disk) as log:
        for _ in range(4):
            await log.append(topic.partition(0), plain_batch(*(f"k{n}" for n in range(0, 60, 2))))
        dropped = await log.compact(topic.partition(0), Offset(150))
    assert dropped
    first, later = segment_files(disk, topic)[1:3]
    content, other = bytearray(disk.files[first].content), bytes(disk.files[later].content)
    end = places(other)[1]
    content[:end] = other[:end]
    overwrite(disk, first, bytes(content))
    async with await open_log(disk) as log:
        _, damage = await readable(log, topic)
        found = keys_of(await read_all(log, topic.id, start=int(later.stem)))
    assert damage is not None
    assert (damage.fields["file"], damage.fields["position"]) == (str(first), 0)
    assert min(found) == int(later.stem)


async def test_damage_in_the_middle_is_proved_by_what_was_written_after_its_sync() -> None:
    disk, topic = await filled(40, LARGE, clean=False)
    (path,) = segment_files(disk, topic)
    index = path.with_suffix(".index")
    disk.files.pop(index, None)
    content = bytearray(disk.files[path].content)
    ends = places(bytes(content))
    content[ends[20] + 70] ^= 4
    change_content(disk, path, bytes(content))
    async with await open_log(disk, LARGE) as log:
        (damage,) = log.recovery.damages
        assert damage.fields["position"] == ends[20]
        assert "offset 21 at byte" in damage.message
        assert (await log.bounds(topic.partition(ZERO)))[:2] == (Offset(0), Offset(19))


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
            await log.append(topic.partition(ZERO), plain_batch("after"))
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
        assert (await log.append(topic.partition(ZERO), plain_batch("after"))).base_offset == 120


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


async def test_after_a_kill_the_reserved_space_is_read_once_by_the_walk_and_once_to_see_that_it_is_zeros() -> None:
    disk, topic = await filled(5, LARGE, clean=False)
    (path,) = segment_files(disk, topic)
    reserved = disk.files[path].length
    read: list[int] = []
    pread = MemoryFile.pread

    def counting(self: MemoryFile, size: int, position: int) -> bytes:
        data = pread(self, size, position)
        if self.path == path:
            read.append(len(data))
        return data

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryFile, "pread", counting)
        async with await open_log(disk, LARGE) as log:
            assert str(log.recovery) == "nothing to recover"
    assert reserved < sum(read) < 2 * reserved, "the search for later batches reads nothing where there is nothing"


async def test_an_index_entry_proves_that_its_batch_was_there() -> None:
    """Entries are made after the sync: without its batch, the newest entry proves damage."""
    options = EngineSettings(segment_bytes=1 << 20, index_every_bytes=1)
    for with_index in (True, False):
        disk, topic = await filled(17, options, clean=False)
        (path,) = segment_files(disk, topic)
        content = bytearray(disk.files[path].content)
        content[places(bytes(content))[16] + 70] ^= 1
        change_content(disk, path, bytes(content))
        if not with_index:
            del disk.files[path.with_suffix(".index")]
        async with await open_log(disk, options) as log:
            assert len(log.recovery.damages) == with_index
            assert len(log.recovery.cuts) == (not with_index)
