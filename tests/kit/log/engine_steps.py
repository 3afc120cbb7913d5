"""Steps that several tests of the embedded engine take."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from duramen.testing.machine.memory_disk import Inode, MemoryDisk
from kit.log.in_turns import settings_here
from log_tier.embedded import EmbeddedLog, EngineSettings
from log_tier.model.identifiers import Partition
from log_tier.model.log import Topic

HOME = Path("/data/log")
ZERO = Partition(0)

SMALL = EngineSettings(segment_bytes=2048, index_every_bytes=300, journal_bytes=4096)
"""Segments of some ten small batches, index entries every second or third, and a journal that turns often."""


async def open_log(disk: MemoryDisk, settings: EngineSettings = SMALL) -> EmbeddedLog:
    """The log on a disk in memory, with a clock that ticks once a call. Within `in_turns` it starts no thread."""
    ticks = iter(range(1_000, 1 << 40))
    return await EmbeddedLog.open(HOME, disk=disk, clock=lambda: next(ticks), settings=settings_here(settings))


def segment_files(disk: MemoryDisk, topic: Topic, partition: int = 0) -> list[Path]:
    """The files of a partition's segments, oldest first."""
    folder = HOME / "topics" / topic.id / str(partition)
    return sorted(path for path in disk.files if path.parent == folder and path.suffix == ".log")


def overwrite(disk: MemoryDisk, path: Path, content: bytes) -> None:
    """Replace a file's bytes behind the engine's back."""
    disk.files[path] = Inode(content, number=disk.tick())


def change_content(disk: MemoryDisk, path: Path, content: bytes) -> None:
    """Replace what a file holds; it stays as long as it is, with zeros behind the content."""
    assert len(content) <= disk.files[path].length
    overwrite(disk, path, content.ljust(disk.files[path].length, b"\0"))


def copy_of(disk: MemoryDisk) -> MemoryDisk:
    """The same files on a disk of their own."""
    return disk.after_process_end()


def fails_from(number: int) -> Callable[[str, Path], None]:
    """The disk carries out so many steps, and then nothing more."""
    steps = iter(range(number))

    def on_step(what: str, path: Path) -> None:
        if next(steps, None) is None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    return on_step
