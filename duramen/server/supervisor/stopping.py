"""Signals to a process that this one has started, and its end.

`Process.send_signal` of asyncio asks for the exit status first. Where the process has just ended it takes the status
from the thread that waits for it, which then reports 255. So signals go by the process' number here; a process that
nobody has waited for keeps its number.
"""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import Process
from contextlib import suppress

from duramen.server.supervisor.forked import ForkedProcess

__all__ = ["send_signal", "stop_process"]


def send_signal(process: Process | ForkedProcess, number: signal.Signals) -> None:
    """Signal a process, if it has not ended."""
    if isinstance(process, ForkedProcess):
        process.send_signal(number)
    elif process.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)


async def stop_process(process: Process | ForkedProcess, *, timeout_s: float) -> None:
    """SIGTERM, then SIGKILL where that is not enough within `timeout_s`. Returns when the process has ended."""
    send_signal(process, signal.SIGTERM)
    # A process that was paused (SIGSTOP) could not hear it.
    send_signal(process, signal.SIGCONT)
    try:
        async with asyncio.timeout(timeout_s):
            await process.wait()
    except TimeoutError:
        send_signal(process, signal.SIGKILL)
        await process.wait()
