"""Logs of two partitions that ended cleanly or by a kill, and every way to damage one of their files."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from duramen.testing.machine.memory_disk import MemoryDisk
from kit.log.engine_steps import HOME, open_log, overwrite
from kit.log.sample_batches import plain_batch
from log_tier.embedded import EngineSettings
from log_tier.model.errors import DuramenError
from log_tier.model.log import Topic

OPTIONS = EngineSettings(segment_bytes=2048, index_every_bytes=300, journal_bytes=3000)
PARTITIONS = 2

Content = dict[Path, bytes]


class Stopped(NamedTuple):
    """A log that ended, and what had been acknowledged in it."""

    files: Content
    older: Content
    """Its files when half of it was written."""
    topic: Topic
    kept: dict[int, dict[int, bytes]]


def content_of(disk: MemoryDisk) -> Content:
    return {path: bytes(inode.content).ljust(inode.length, b"\0") for path, inode in disk.files.items()}


async def a_life(*, clean: bool, alone: bool, appends: int = 36, settings: EngineSettings = OPTIONS) -> Stopped:
    """With `alone`, the last commits are of one partition each, so that no frame of the journal holds them."""
    disk = MemoryDisk()
    log = await open_log(disk, settings)
    topic = await log.create_topic("flights", partitions=PARTITIONS)
    kept: dict[int, dict[int, bytes]] = {number: {} for number in range(PARTITIONS)}
    older: Content = {}
    for number in range(appends):
        key = f"k{number}"
        if number % 3 == 0 or (alone and number > appends - 5):
            place = await log.append(topic.partition(0), plain_batch(key, value=b"x" * 40))
            kept[0][place.base_offset] = key.encode()
        else:
            parts = [(topic.partition(p), plain_batch(key, value=b"x" * 40)) for p in range(PARTITIONS)]
            for partition, found in enumerate(await log.append_many(parts)):
                assert not isinstance(found, DuramenError)
                kept[partition][found.base_offset] = key.encode()
        if number == appends - 6:
            older = content_of(disk)
    killed = content_of(disk)
    await log.close()
    return Stopped(content_of(disk) if clean else killed, older, topic, kept)


LIVES = {
    (clean, alone): asyncio.run(a_life(clean=clean, alone=alone)) for clean in (True, False) for alone in (True, False)
}


def kind_of(path: Path) -> str:
    return {".log": "segment", ".index": "sparse index"}.get(path.suffix, path.name)


def boundaries(path: Path, data: bytes) -> list[int]:
    """Where what the file is made of begins."""
    marks = {".log": b"DuLb"}.get(path.suffix, b"DuJf" if path.name in ("journal.0", "journal.1") else b'"')
    found, at = [], data.find(marks)
    while at >= 0:
        found.append(at)
        at = data.find(marks, at + 1)
    return found


def changes_of(stopped: Stopped, path: Path, *, every: int) -> Iterator[tuple[str, bytes | None]]:
    """Each change of a file: what it is, and the file's bytes after it (None: removed)."""
    data = stopped.files[path]
    used = len(data.rstrip(b"\0"))
    for bit in range(0, used * 8, every):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        yield f"bit {bit} flipped", bytes(changed)
    for at in range(0, used, 4096):
        yield f"4 KiB at {at} zeroed", data[:at] + bytes(len(data[at : at + 4096])) + data[at + 4096 :]
    for at in boundaries(path, data)[:: max(1, every // 40)]:
        yield f"cut at {at}", data[:at]
        yield f"cut within, at {at + 9}", data[: at + 9]
    yield "emptied", b""
    yield "removed", None
    if path in stopped.older:
        yield "replaced by an older copy", stopped.older[path]
    for other in sorted(stopped.files):
        if other != path and kind_of(other) == kind_of(path):
            yield f"replaced by {other.parent.name}/{other.name}", stopped.files[other]


KINDS = sorted({kind_of(path) for path in LIVES[False, False].files})


def damaged_disk(stopped: Stopped, path: Path | None = None, data: bytes | None = None) -> MemoryDisk:
    """A disk with the log on it, and `data` in place of one of its files; None: the file is gone."""
    disk = MemoryDisk()
    for number in range(PARTITIONS):
        disk.make_folder(HOME / "topics" / stopped.topic.id / str(number))
    for name, content in stopped.files.items():
        overwrite(disk, name, content)
    if path is not None and data is None:
        del disk.files[path]
    elif path is not None and data is not None:
        overwrite(disk, path, data)
    disk.sync_folder(HOME)
    return disk
