"""Index files: whole where a segment is sealed, in runs while it grows, and never with more than belongs into them."""

from __future__ import annotations

from pathlib import Path

from kit.log.engine_steps import overwrite

from duramen.testing.machine.memory_disk import MemoryDisk
from log_tier.embedded.segments.segment import Segment
from log_tier.embedded.segments.sparse_index import SparseIndex
from log_tier.embedded.segments.sparse_index_writer import SparseIndexWriter
from log_tier.model.identifiers import Offset

FOLDER = Path("/data/0")


def entry(number: int) -> tuple[Offset, int]:
    return Offset(10 * number), 1000 * number


def segment_with(count: int) -> Segment:
    """A segment with so many index entries, each of ten offsets and 1000 bytes."""
    index = SparseIndex()
    for number in range(1, count + 1):
        index.add(*entry(number))
    return Segment(FOLDER, Offset(0), Offset(10 * count + 10), 1000 * count + 1000, 0, index)


def entries_of(disk: MemoryDisk, segment: Segment) -> list[tuple[int, int]]:
    if not disk.exists(segment.index_path):
        return []
    found = Segment(FOLDER, segment.base, segment.end, segment.bytes, 0).load_index(disk)
    return [found.entry(number) for number in range(len(found))]


def test_a_whole_index_leaves_nothing_of_a_longer_one() -> None:
    """A crash can leave entries of batches that were cut; other batches lie there afterwards."""
    disk = MemoryDisk()
    disk.make_folder(FOLDER)
    segment, longer = segment_with(5), segment_with(40)
    assert segment.index is not None
    assert longer.index is not None
    for write in (SparseIndexWriter(disk).seal, SparseIndexWriter(disk).rewrite):
        overwrite(disk, segment.index_path, longer.index.encode(segment.base))
        write(segment)
        assert bytes(disk.files[segment.index_path].content) == segment.index.encode(segment.base)
        assert entries_of(disk, segment) == [entry(number) for number in range(1, 6)]
    assert not disk.open_files


def test_entries_come_to_the_file_in_runs() -> None:
    """After a crash no more than a run of them is missing; when the segment is sealed none is."""
    disk = MemoryDisk()
    disk.make_folder(FOLDER)
    segment, writer = segment_with(0), SparseIndexWriter(disk)
    assert segment.index is not None
    every = [entry(number) for number in range(1, 41)]
    for number in range(1, 41):
        segment.index.add(*entry(number))
        writer.add(segment, [entry(number)])
        there = entries_of(disk, segment)
        assert there == every[: len(there)]
        assert number - 16 < len(there) <= number
    assert entries_of(disk, segment) != every
    writer.seal(segment)
    assert entries_of(disk, segment) == every
    assert not disk.open_files
