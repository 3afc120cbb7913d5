"""A process that dies while a thread of it uses the disk: what was confirmed is there for the next one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from duramen.testing.machine.fault import MachineFault
from duramen.testing.machine.memory_disk import Inode, MemoryDisk
from duramen.testing.machine.simulated_disk import FaultyDisk
from duramen.testing.machine.story import RunStory

HERE = Path("/data/log/file")


@pytest.mark.parametrize("kind", ["kill", "power"])
def test_a_sync_next_to_the_death_is_kept_or_fails(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread writes and syncs while what stays of the disk is being copied."""
    disk = FaultyDisk(RunStory(lambda: 0.0), lambda: None)
    disk.now.make_folder(HERE.parent)
    file = disk.now.open(HERE, write=True, create=True)
    disk.now.sync_folder(HERE.parent)
    copy = MemoryDisk.after_power_loss
    failed: list[OSError] = []

    def copied(self: MemoryDisk, *given: Any, **named: Any) -> MemoryDisk:
        left = copy(self, *given, **named)
        try:
            file.pwrite([b"confirmed"], 0)
            file.fdatasync()
        except OSError as error:
            failed.append(error)
        return left

    monkeypatch.setattr(MemoryDisk, "after_power_loss", copied)
    disk.die(MachineFault(0.0, kind, 0, seed=1), "a test's word")
    assert failed, "the next process would not find what was confirmed"


def test_a_sync_that_the_process_did_not_live_to_see_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """It had begun before the death, and ends after it."""
    disk = FaultyDisk(RunStory(lambda: 0.0), lambda: None)
    disk.now.make_folder(HERE.parent)
    file = disk.now.open(HERE, write=True, create=True)
    file.pwrite([b"written"], 0)
    synced = Inode.sync

    def sync(self: Inode) -> None:
        monkeypatch.setattr(Inode, "sync", synced)
        disk.die(MachineFault(0.0, "power", 0, seed=1), "a sync")
        synced(self)

    monkeypatch.setattr(Inode, "sync", sync)
    with pytest.raises(OSError, match="Input/output"):
        file.fdatasync()
