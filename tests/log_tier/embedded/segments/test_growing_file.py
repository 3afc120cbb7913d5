"""The newest segment's file on a disk that has no room for it."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from duramen.testing.machine.memory_disk import MemoryDisk
from log_tier.embedded.segments.growing_file import GrowingFile
from log_tier.embedded.segments.open_files import OpenFiles
from log_tier.embedded.segments.settling import Settling
from log_tier.embedded.storage.settings import PREALLOCATION_BYTES_MIN, PREALLOCATION_FACTOR
from log_tier.model.errors import LogStopped


def begun_file(disk: MemoryDisk) -> GrowingFile:
    folder = Path("/data/0")
    disk.make_folder(folder)
    file = GrowingFile(disk, folder, OpenFiles(4), Settling(), 1 << 20, capacity=0)
    file.begin(folder / "0.log", 200)
    return file


def test_a_new_segments_file_has_room_for_its_first_batch_and_a_minimum() -> None:
    assert begun_file(MemoryDisk()).capacity == PREALLOCATION_BYTES_MIN
    disk, folder = MemoryDisk(), Path("/data/0")
    disk.make_folder(folder)
    for segment_bytes, size, capacity in ((4096, 200, 4096), (4096, 5000, 5000), (1 << 20, 50_000, 50_000)):
        file = GrowingFile(disk, folder, OpenFiles(4), Settling(), segment_bytes, capacity=0)
        file.begin(folder / f"{size}-{segment_bytes}.log", size)
        assert file.capacity == capacity


def test_a_file_grows_step_by_step_up_to_its_segment() -> None:
    file, capacities = begun_file(MemoryDisk()), list[int]()
    while file.capacity < 1 << 20:
        file.make_room(file.capacity, 1, 1)
        capacities.append(file.capacity)
    assert capacities == [PREALLOCATION_BYTES_MIN * PREALLOCATION_FACTOR**step for step in (1, 2, 3)]
    file.make_room(file.capacity, 100, 100)
    assert file.capacity == (1 << 20) + 100, "a batch that does not fit in what is left of it"


def test_a_file_grows_to_what_is_needed_where_the_disk_has_no_more() -> None:
    disk = MemoryDisk()
    file = begun_file(disk)
    disk.space = 100
    file.make_room(file.capacity, 100, 100)
    assert (file.capacity, disk.space) == (PREALLOCATION_BYTES_MIN + 100, 0)
    with pytest.raises(OSError, match="No space"):
        file.make_room(file.capacity, 1, 1)
    assert file.capacity == PREALLOCATION_BYTES_MIN + 100


@pytest.mark.parametrize(
    ("failing", "number", "kind"), [("preallocate", errno.EIO, OSError), ("sync", errno.ENOSPC, LogStopped)]
)
def test_a_disk_that_fails_is_asked_once(failing: str, number: int, kind: type[Exception]) -> None:
    """Only for want of space a smaller piece is tried: a second call after a failed one could hide that failure."""
    disk = MemoryDisk()
    file = begun_file(disk)
    asked: list[str] = []

    def fail(step: str, path: Path) -> None:
        asked.append(step)
        if step == failing:
            raise OSError(number, "it fails")

    disk.on_step = fail
    with pytest.raises(kind, match="it fails"):
        file.make_room(file.capacity, 100, 100)
    assert asked.count(failing) == 1
    assert file.capacity == PREALLOCATION_BYTES_MIN


def test_a_file_that_is_cut_holds_its_batches_and_no_room() -> None:
    disk = MemoryDisk()
    file = begun_file(disk)
    file.seal(70)
    assert (file.is_open, file.capacity) == (False, 0)
    assert [disk.open(path).size() for path in disk.files] == [70]


def test_a_segment_that_finds_no_room_leaves_no_file() -> None:
    disk, folder = MemoryDisk(), Path("/data/0")
    disk.make_folder(folder)
    disk.space = 100
    file = GrowingFile(disk, folder, OpenFiles(4), Settling(), 1 << 20, capacity=0)
    with pytest.raises(OSError, match="No space") as refused:
        file.begin(folder / "0.log", 200)
    assert refused.value.errno == errno.ENOSPC
    assert not disk.files
    assert not disk.open_files
    assert not file.is_open
    disk.space = None
    file.begin(folder / "0.log", 200)
    assert file.capacity >= 200
