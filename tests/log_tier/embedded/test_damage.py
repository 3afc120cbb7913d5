"""Every file of a log, damaged in every way, after a clean stop and after a kill.

What was acknowledged is served right, or it is refused, or reported as a cut: by name, with the offset. Nothing else is
ever served, and no acknowledged offset is given again unless a cut was reported.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from kit.log.engine_steps import HOME, open_log, overwrite
from kit.log.memory_disk import MemoryDisk
from kit.log.sample_batches import keys_of, plain_batch

from log_tier.embedded import EmbeddedLog, EngineSettings
from log_tier.model.errors import DuramenError, LogDamaged
from log_tier.model.identifiers import Offset
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


async def a_life(*, clean: bool, alone: bool) -> Stopped:
    """With `alone`, the last commits are of one partition each, so that no frame of the journal holds them."""
    disk = MemoryDisk()
    log = await open_log(disk, OPTIONS)
    topic = await log.create_topic("flights", partitions=PARTITIONS)
    kept: dict[int, dict[int, bytes]] = {number: {} for number in range(PARTITIONS)}
    older: Content = {}
    for number in range(36):
        key = f"k{number}"
        if number % 3 == 0 or (alone and number > 31):
            place = await log.append(topic.partition(0), plain_batch(key, value=b"x" * 40))
            kept[0][place.base_offset] = key.encode()
        else:
            parts = [(topic.partition(p), plain_batch(key, value=b"x" * 40)) for p in range(PARTITIONS)]
            for partition, found in enumerate(await log.append_many(parts)):
                assert not isinstance(found, DuramenError)
                kept[partition][found.base_offset] = key.encode()
        if number == 30:
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


async def check(stopped: Stopped, path: Path, what: str, data: bytes | None) -> None:
    disk = MemoryDisk()
    disk.make_folder(HOME / "topics" / stopped.topic.id / "0")
    disk.make_folder(HOME / "topics" / stopped.topic.id / "1")
    for name, content in stopped.files.items():
        overwrite(disk, name, content)
    if data is None:
        del disk.files[path]
    else:
        overwrite(disk, path, data)
    disk.sync_folder(HOME)
    await check_opened(stopped, path, what, lambda: open_log(disk, OPTIONS))


async def check_opened(stopped: Stopped, path: Path, what: str, open_it: Callable[[], Awaitable[EmbeddedLog]]) -> None:
    context = f"{kind_of(path)} {path.parent.name}/{path.name}: {what}"
    refusal: DuramenError | None = None
    try:
        log = await open_it()
    except DuramenError as error:
        refusal = error
    if refusal is not None:
        assert path.name in refusal.message or path.parent.name in refusal.message, f"{context}: {refusal.message}"
        return
    async with log:
        assert stopped.topic.id in [topic.id for topic in await log.topics()], f"{context}: the topic is gone"
        for number in range(PARTITIONS):
            await check_partition(log, stopped, number, context)


async def check_partition(log: EmbeddedLog, stopped: Stopped, number: int, context: str) -> None:
    kept = stopped.kept[number]
    damage: LogDamaged | None = None
    found: dict[int, bytes] = {}
    try:
        async for chunk in log.read(stopped.topic.partition(number), Offset(0), follow=False, chunk_bytes=1):
            found.update(keys_of([chunk.data]))
    except LogDamaged as error:
        damage = error
    assert found.items() <= kept.items(), f"{context}: served {found.items() - kept.items()}"
    reports = [str(cut) for cut in log.recovery.cuts] + [each.message for each in log.recovery.damages]
    if found != kept and damage is None:
        assert reports, f"{context}: shortened in silence, {sorted(kept.keys() - found.keys())} are gone"
    try:
        place = await log.append(stopped.topic.partition(number), plain_batch("next"))
    except LogDamaged:
        return
    if not log.recovery.cuts:
        assert place.base_offset not in kept, f"{context}: offset {place.base_offset} is given again"


KINDS = sorted({kind_of(path) for path in LIVES[False, False].files})


@pytest.mark.campaign
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize("alone", [True, False], ids=["alone", "together"])
async def test_no_damage_shortens_a_log_in_silence(kind: str, clean: bool, alone: bool) -> None:
    stopped = LIVES[clean, alone]
    every = 41 if os.environ.get("DURAMEN_CAMPAIGN") else 1601
    failures: list[str] = []
    for path in sorted(stopped.files):
        if kind_of(path) == kind:
            for what, data in changes_of(stopped, path, every=every):
                if (clean, alone, what) == (False, True, "replaced by an older copy"):
                    # Nothing but this file ever held the last commits, and nothing was written since.
                    continue
                try:
                    await check(stopped, path, what, data)
                except AssertionError as error:
                    failures.append(str(error).split("\n")[0])
    assert failures == []


@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
async def test_the_same_on_real_files(clean: bool, tmp_path: Path) -> None:
    stopped = LIVES[clean, False]
    number = 0
    for path in sorted(stopped.files):
        data = stopped.files[path]
        used = data.rstrip(b"\0")
        middle = len(used) // 2
        flipped = used[:middle] + bytes([used[middle] ^ 8]) + data[middle + 1 :] if used else data
        for what, changed in (("bit", flipped), ("half", data[:middle]), ("empty", b""), ("whole", data)):
            number += 1
            home = tmp_path / str(number)
            for name, content in stopped.files.items():
                place = home / name.relative_to(HOME)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(changed if name == path else content)
            for partition in range(PARTITIONS):
                (home / "topics" / stopped.topic.id / str(partition)).mkdir(parents=True, exist_ok=True)
            await check_opened(stopped, path, what, partial(EmbeddedLog.open, home, settings=OPTIONS))
