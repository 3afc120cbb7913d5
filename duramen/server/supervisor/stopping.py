"""Stopping a process that this one has started."""

from __future__ import annotations

import asyncio
import signal
from asyncio.subprocess import Process
from contextlib import suppress

__all__ = ["stop_process"]


async def stop_process(process: Process, *, timeout_s: float) -> None:
    """SIGTERM, then SIGKILL where that is not enough within `timeout_s`. Returns when the process has ended."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
        # A process that was paused (SIGSTOP) could not hear it.
        process.send_signal(signal.SIGCONT)
    try:
        async with asyncio.timeout(timeout_s):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
