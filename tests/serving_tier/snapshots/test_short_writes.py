"""A disk may take a part of a write and report no error, as it does when it becomes full."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path
from typing import Any

import pytest
from kit.log.stored_log import PARTITION, TABLE, StoredLog, put

from log_tier.model.errors import SnapshotDamaged
from log_tier.model.identifiers import PartitionId
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.snapshots.contents import read_contents
from serving_tier.snapshots.local_disk import write_whole


class HalfWritten(io.RawIOBase):
    """A file that takes half of each write, and after `room` bytes nothing."""

    def __init__(self, room: int = 1 << 30) -> None:
        self.taken = b""
        self._room = room

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        piece = bytes(data)[: max(1, len(data) // 2)]
        if len(self.taken) + len(piece) > self._room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.taken += piece
        return len(piece)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 1000])
def test_everything_is_written(size: int) -> None:
    file, data = HalfWritten(), bytes(range(256)) * 4
    write_whole(file, data[:size])
    assert file.taken == data[:size]


def test_a_disk_that_is_full_is_an_error() -> None:
    with pytest.raises(OSError, match="No space left"):
        write_whole(HalfWritten(room=600), bytes(1000))


def test_a_copy_that_ends_early_is_not_opened(tmp_path: Path) -> None:
    """LMDB maps the file: a read behind its end would kill the process."""
    index = LmdbIndex.open(tmp_path / "index", partition=PartitionId(TABLE, PARTITION))
    index.apply(StoredLog().append(put(b"a", b"1")))
    index.close()
    size = (tmp_path / "index" / "data.mdb").stat().st_size
    os.truncate(tmp_path / "index" / "data.mdb", size - 4096)
    with pytest.raises(SnapshotDamaged, match=rf"has {size - 4096} bytes, its pages end at {size}"):
        read_contents(tmp_path / "index")
