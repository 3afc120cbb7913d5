"""The newest segment's file on a disk that has no room for it."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from duramen.testing.machine.memory_disk import MemoryDisk
from log_tier.embedded.segments.growing_file import GrowingFile
from log_tier.embedded.segments.open_files import OpenFiles
from log_tier.embedded.segments.settling import Settling


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
