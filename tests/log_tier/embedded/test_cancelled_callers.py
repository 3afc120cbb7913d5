"""A caller of the log that goes away while its change of a topic is under way, and what becomes of the change."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from kit.deadlines import patience_s
from kit.log.held_step import HeldStep

from duramen.testing.machine.memory_disk import MemoryDisk
from log_tier.embedded import EmbeddedLog


async def test_a_change_that_fails_without_its_caller_stops_the_log_and_is_not_reported_as_lost() -> None:
    lost: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: lost.append(context))
    disk = MemoryDisk()
    log = await EmbeddedLog.open(Path("/data/log"), disk=disk)
    begun, may_fail = threading.Event(), threading.Event()

    def fail(what: str, path: Path) -> None:
        if what == "sync_folder" and path.name == "topics":
            begun.set()
            assert may_fail.wait(patience_s(30))
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    disk.on_step = fail
    creating = asyncio.create_task(log.create_topic("flights", partitions=1))
    assert await asyncio.to_thread(begun.wait, patience_s(30))
    creating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await creating
    del creating
    may_fail.set()
    await log.close()  # behind what is under way
    await asyncio.sleep(0)
    gc.collect()
    assert lost == []
    assert not disk.locks


async def cancel_and_turn(call: asyncio.Task[Any]) -> None:
    """Cancel a call and let the loop turn: it gets to the next line only where the call does not block the loop."""
    call.cancel()
    for _ in range(10):
        await asyncio.sleep(0)
    assert not call.done(), "the disk is still held, and the folder with it"


async def test_a_cancelled_open_leaves_the_loop_to_others_and_then_the_folder_unlocked() -> None:
    disk = MemoryDisk()
    held = HeldStep(disk, "sync")
    opening = asyncio.create_task(EmbeddedLog.open(Path("/data/log"), disk=disk))
    await held.reached()
    await cancel_and_turn(opening)
    held.let_go()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert not disk.locks
    assert not disk.open_files
    async with await EmbeddedLog.open(Path("/data/log"), disk=disk) as log:
        assert await log.topics() == []


async def test_a_cancelled_close_leaves_the_loop_to_others_and_closes_all_the_same() -> None:
    disk = MemoryDisk()
    log = await EmbeddedLog.open(Path("/data/log"), disk=disk)
    await log.create_topic("flights", partitions=1)
    held = HeldStep(disk, "sync")
    closing = asyncio.create_task(log.close())
    await held.reached()
    await cancel_and_turn(closing)
    held.let_go()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert not disk.locks
    assert not disk.open_files
