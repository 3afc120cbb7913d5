"""What a `KernelDisk` does to a process: kills, failed syncs, and folders that are synced one by one."""

from __future__ import annotations

import errno
import random
from pathlib import Path

import pytest

from duramen.testing.machine.kernel_disk import KernelDisk

HOME = Path("/data")
FILE = HOME / "file"


def disk_with(content: bytes, *, forgets_failures: bool = False) -> KernelDisk:
    """One file that is synced, and its name too."""
    disk = KernelDisk(random.Random(1), forgets_failures=forgets_failures)
    disk.make_folder(HOME)
    disk.sync_folder(HOME.parent)
    file = disk.open(FILE, write=True, create=True)
    file.pwrite((content,), 0)
    file.fdatasync()
    file.close()
    disk.sync_folder(HOME)
    return disk


def held(disk: KernelDisk) -> bytes:
    file = disk.open(FILE)
    try:
        return file.pread(100, 0)
    finally:
        file.close()


def test_what_a_killed_process_wrote_is_shown_and_may_be_lost_with_the_power() -> None:
    disk = disk_with(b"old")
    disk.open(FILE, write=True).pwrite((b"new",), 0)
    after = disk.after_process_end()
    assert held(after) == b"new"
    assert {held(after.after_power_loss(random.Random(seed))) for seed in range(20)} == {b"old", b"new"}
    after.open(FILE, write=True).fdatasync()
    assert {held(after.after_power_loss(random.Random(seed))) for seed in range(20)} == {b"new"}


def test_after_a_failed_sync_the_kernel_shows_what_it_does_not_have() -> None:
    def fail(what: str, path: Path) -> None:
        if what == "sync":
            raise OSError(errno.EIO, "broken")

    found = set()
    for seed in range(20):
        disk = disk_with(b"old")
        disk.chance = random.Random(seed)
        file = disk.open(FILE, write=True)
        file.pwrite((b"new",), 0)
        disk.on_step = fail
        with pytest.raises(OSError, match="broken"):
            file.fdatasync()
        disk.on_step = lambda what, path: None
        assert held(disk) == b"new"
        file.fdatasync()
        file.forget_cached()
        found.add(held(disk))
    assert found == {b"old", b"new"}


def test_the_kernel_forgets_a_failure_of_a_file_that_nobody_has_open() -> None:
    found = set()
    for seed in range(20):
        disk = disk_with(b"old", forgets_failures=True)
        disk.chance = random.Random(seed)
        file = disk.open(FILE, write=True)
        file.pwrite((b"new",), 0)
        file.close()
        file = disk.open(FILE, write=True)
        file.fdatasync()
        file.forget_cached()
        found.add(held(disk))
    assert found == {b"old", b"new"}


def test_a_folder_is_synced_by_itself() -> None:
    disk = disk_with(b"old")
    disk.make_folder(HOME / "inner")
    disk.open(HOME / "inner" / "file", create=True)
    disk.sync_folder(HOME / "inner")
    there = {disk.after_power_loss(random.Random(seed)).exists(HOME / "inner" / "file") for seed in range(20)}
    assert there == {True, False}
    disk.sync_folder(HOME)
    assert all(disk.after_power_loss(random.Random(seed)).exists(HOME / "inner" / "file") for seed in range(20))


def test_a_renamed_folder_keeps_what_is_in_it() -> None:
    disk = disk_with(b"old")
    disk.make_folder(HOME / "new")
    disk.open(HOME / "new" / "file", create=True)
    disk.sync_folder(HOME / "new")
    disk.rename(HOME / "new", HOME / "ready")
    disk.sync_folder(HOME)
    assert disk.after_power_loss(random.Random(1)).exists(HOME / "ready" / "file")
