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
from kit.log.memory_disk import MemoryDisk

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
