"""A sync that failed once proves nothing later: not in the next life, and not by a second sync of the same file."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from kit.log.engine_steps import SMALL, ZERO, open_log
from kit.log.sample_batches import keys_of, plain_batch, read_all

from duramen.testing.machine.kernel_disk import KernelDisk
from log_tier.model.errors import DuramenError
from log_tier.model.log import Topic

FAILURE = OSError(errno.EIO, os.strerror(errno.EIO))


def nothing_fails(what: str, path: Path) -> None:
    """Let every step happen."""


def fails_once(step: str, named: Callable[[Path], bool]) -> Callable[[str, Path], None]:
    left = [FAILURE]

    def on_step(what: str, path: Path) -> None:
        if what == step and named(path) and left:
            raise left.pop()

    return on_step


async def keys_after_power_loss(disk: KernelDisk, topic: Topic, partition: int = 0) -> list[dict[int, bytes]]:
    """What a log holds after each of twenty ways to lose power."""
    found = []
    for seed in range(20):
        async with await open_log(disk.after_process_end().after_power_loss(random.Random(seed))) as log:
            found.append(keys_of(await read_all(log, topic.id, partition)))
    return found


async def test_a_name_that_was_not_synced_is_synced_before_the_next_acknowledgement() -> None:
    """The folder's sync failed, and the process was killed; the next process finds the file all the same."""
    disk = KernelDisk(random.Random(1))
    log = await open_log(disk)
    topic = await log.create_topic("flights", partitions=1)
    disk.on_step = fails_once("sync_folder", lambda path: path.name == "0" and path.parent.name == topic.id)
    with pytest.raises(DuramenError):
        await log.append(topic.partition(ZERO), plain_batch("lost"))
    disk.on_step = nothing_fails
    with suppress(DuramenError):
        await log.close()
    disk = disk.after_process_end()
    log = await open_log(disk)
    await log.append(topic.partition(ZERO), plain_batch("kept"))
    for found in await keys_after_power_loss(disk, topic):
        assert b"kept" in found.values(), found
    await log.close()


async def test_a_segment_is_sealed_behind_what_the_journal_settles() -> None:
    """Settling it fails; the sync of the sealing succeeds and proves nothing, so the log must have stopped before."""
    disk = KernelDisk(random.Random(3))
    log = await open_log(disk, SMALL)
    topic = await log.create_topic("flights", partitions=2)
    parts = [topic.partition(number) for number in range(2)]
    known: dict[int, bytes] = {}
    failed = [FAILURE]

    def on_step(what: str, path: Path) -> None:
        settles = what == "sync" and path.suffix == ".log" and len(opened_by(disk, path)) > 1
        if settles and failed and path.parent.name == "0":
            raise failed.pop()

    disk.on_step = on_step
    for number in range(200):
        batch = plain_batch(f"k{number}", value=b"x" * 60)
        results = await log.append_many([(part, batch) for part in parts])
        if any(isinstance(result, DuramenError) for result in results):
            break
        known[results[0].base_offset] = f"k{number}".encode()  # type: ignore[union-attr]
    assert not failed, "nothing was settled"
    disk.on_step = nothing_fails
    with suppress(DuramenError):
        await log.close()
    # A process that starts and is killed at once takes what the kernel shows for what the disk has.
    disk = disk.after_process_end()
    await open_log(disk)
    disk = disk.after_process_end()
    for found in await keys_after_power_loss(disk, topic):
        assert found.items() >= known.items()


def opened_by(disk: KernelDisk, path: Path) -> list[object]:
    """The open files of a path: one that settles a segment opens it a second time."""
    return [file for file in disk.open_files if file.path == path]
