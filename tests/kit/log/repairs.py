"""Repairs of logs on disks in memory, and what is held of a log afterwards."""

from __future__ import annotations

from pathlib import Path

from duramen.testing.machine.memory_disk import MemoryDisk
from kit.log.engine_steps import HOME, open_log
from kit.log.sample_batches import keys_of
from kit.log.stopped_logs import OPTIONS, PARTITIONS, Stopped
from log_tier.embedded.repair import GiveUp, LogRepair, RepairPlan
from log_tier.embedded.verification import verify_log
from log_tier.model.files.finding import FileFinding
from log_tier.model.identifiers import Offset

__all__ = ["contents_of", "damages_of", "repaired", "zeroed"]


def repaired(
    disk: MemoryDisk, copy: MemoryDisk | None, give_up: GiveUp | None = None, *, only_if_all: bool = False
) -> RepairPlan:
    """Repair the log on `disk`; with `only_if_all` not if a part of it is refused. The copy is not changed."""
    before = None if copy is None else _bytes(copy)
    home = None if copy is None else HOME
    with LogRepair(HOME, copy=home, give_up=give_up, disk=disk, copy_disk=copy, settings=OPTIONS) as repair:
        ours = _bytes(disk)
        plan = repair.plan()
        assert _bytes(disk) == ours, "planning changed something"
        if not (only_if_all and plan.refusals):
            repair.carry_out()
    assert copy is None or _bytes(copy) == before, "the copy was changed"
    assert not disk.locks
    assert copy is None or not copy.locks
    return plan


def _bytes(disk: MemoryDisk) -> dict[Path, bytes]:
    return {
        path: bytes(inode.content).ljust(inode.length, b"\0")
        for path, inode in disk.files.items()
        if path.name != "lock"
    }


def damages_of(disk: MemoryDisk) -> list[FileFinding]:
    """What a verification calls damage."""
    return [each for each in verify_log(HOME, disk=disk, settings=OPTIONS) if each.is_damage]


async def contents_of(disk: MemoryDisk, stopped: Stopped) -> dict[int, dict[int, bytes]]:
    """The keys of each partition by offset, after a start on a disk of its own, without the records that end repairs;
    nothing is damaged.
    """
    async with await open_log(disk.after_process_end(), OPTIONS) as log:
        assert log.recovery.damages == []
        found: dict[int, dict[int, bytes]] = {number: {} for number in range(PARTITIONS)}
        for number in range(PARTITIONS):
            async for chunk in log.read(stopped.topic.partition(number), Offset(0), follow=False, chunk_bytes=1):
                found[number].update({at: key for at, key in keys_of([chunk.data]).items() if key})
        return found


def zeroed(data: bytes, first: float, last: float) -> bytes:
    """A file with zeros in place of a part of what it holds; `first` and `last`: 0 to 1."""
    used = len(data.rstrip(b"\0"))
    start, end = int(used * first), int(used * last)
    return data[:start] + bytes(end - start) + data[end:]
