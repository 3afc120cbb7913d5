"""The two disks, the machine's and the tests', behave alike: what is proved on one holds on the other."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from duramen.testing.machine.memory_disk import MemoryDisk
from log_tier.embedded.storage.disk import Disk, LocalDisk, replace_file
from log_tier.model.errors import FolderInUse


@pytest.fixture(params=["local", "memory"])
def disk(request: pytest.FixtureRequest) -> Disk:
    return LocalDisk() if request.param == "local" else MemoryDisk()


def test_files(disk: Disk, tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    disk.make_folder(folder)
    disk.make_folder(folder)
    assert disk.list(folder) == []
    path = folder / "file"
    with pytest.raises(FileNotFoundError):
        disk.open(path)
    file = disk.open(path, write=True, create=True)
    file.pwrite((b"hello ", b"", b"world"), 3)
    assert file.size() == 14
    assert file.pread(100, 0) == b"\0\0\0hello world"
    assert file.pread(5, 3) == b"hello"
    assert file.pread(5, 14) == b""
    file.preallocate(14, 6)
    assert (file.size(), file.pread(100, 12)) == (20, b"ld" + bytes(6))
    file.truncate(4)
    file.fdatasync()
    file.forget_cached()
    assert (file.size(), file.pread(100, 0)) == (4, b"\0\0\0h")
    file.pwrite([b"x"] * 3000, 0)
    assert file.pread(4000, 0) == b"x" * 3000
    file.close()
    assert disk.exists(path)
    assert disk.list(folder) == ["file"]
    disk.rename(path, folder / "other")
    assert disk.list(folder) == ["other"]
    disk.sync_folder(folder)
    with pytest.raises(OSError, match="empty"):
        disk.remove_folder(folder)
    disk.unlink(folder / "other")
    with pytest.raises(FileNotFoundError):
        disk.unlink(folder / "other")
    disk.remove_folder(folder)
    assert not disk.exists(folder)
    with pytest.raises(FileNotFoundError):
        disk.list(folder)


def test_folders_are_renamed_with_what_is_in_them(disk: Disk, tmp_path: Path) -> None:
    disk.make_folder(tmp_path / "old" / "inner")
    disk.open(tmp_path / "old" / "inner" / "file", write=True, create=True).close()
    disk.rename(tmp_path / "old", tmp_path / "new")
    assert disk.list(tmp_path / "new" / "inner") == ["file"]
    assert not disk.exists(tmp_path / "old")


def test_an_open_file_outlives_its_name(disk: Disk, tmp_path: Path) -> None:
    disk.make_folder(tmp_path)
    for path, data in ((tmp_path / "a", b"old"), (tmp_path / "b", b"new")):
        replace_file(disk, path, data, part=tmp_path / "part")
    file = disk.open(tmp_path / "a")
    disk.rename(tmp_path / "b", tmp_path / "a")
    assert file.pread(10, 0) == b"old"
    file.close()
    file = disk.open(tmp_path / "a")
    assert file.pread(10, 0) == b"new"
    disk.unlink(tmp_path / "a")
    assert file.pread(10, 0) == b"new"
    file.close()


def test_a_lock_is_held_once(disk: Disk, tmp_path: Path) -> None:
    disk.make_folder(tmp_path)
    release = disk.lock(tmp_path / "lock")
    with pytest.raises(FolderInUse):
        disk.lock(tmp_path / "lock")
    release()
    disk.lock(tmp_path / "lock")()


def test_who_holds_a_lock_is_named(tmp_path: Path) -> None:
    """What helps differs: the database that this process has open, or another process."""
    path = tmp_path / "lock"
    release = LocalDisk().lock(path)
    with pytest.raises(FolderInUse, match=rf"process {os.getpid()} \(this one, or .*: use the database that is open"):
        LocalDisk().lock(path)
    path.write_text("1")
    with pytest.raises(FolderInUse, match="process 1: connect to that one") as refused:
        LocalDisk().lock(path)
    assert refused.value.fields == {"pid": 1}
    release()


@pytest.mark.parametrize("refused", ["os.pwrite", "os.ftruncate", "fcntl.flock"])
def test_a_lock_that_cannot_be_taken_whole_is_given_back(
    refused: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk takes no process id, and some network file systems know no locks: the next try meets no lock."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = len(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as patch:
        patch.setattr(f"log_tier.embedded.storage.disk.{refused}", refuse)
        with pytest.raises(OSError, match="No space left"):
            LocalDisk().lock(tmp_path / "lock")
    assert len(os.listdir("/proc/self/fd")) == before
    LocalDisk().lock(tmp_path / "lock")()


def test_a_read_that_the_kernel_cuts_short_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One call gives at most 2 GiB, and a signal may end it earlier."""
    path, data = tmp_path / "file", bytes(range(100))
    path.write_bytes(data)
    whole_read = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, position: whole_read(fd, min(size, 7), position))
    file = LocalDisk().open(path)
    try:
        assert file.pread(50, 10) == data[10:60]
        assert file.pread(100, 60) == data[60:]
    finally:
        file.close()
