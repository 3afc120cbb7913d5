"""Blocking work that can be cancelled: it runs in a thread, and stops between two of its steps.

A thread cannot be interrupted, and what it works on (an open LMDB environment, a folder that is about to be removed)
must stay until it ends. So a caller that is cancelled here asks the work to stop, waits for it, and only then goes on.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["Progress", "Stop", "Stopped", "in_own_thread", "in_thread"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

Progress = Callable[[str, int, int], None]
"""Called with the progress of some work: phase, done, total (in bytes where the work counts bytes). The call may come
in the event loop's thread or in another."""


class Stopped(Exception):
    """The work was cancelled."""


class Stop:
    """A request to stop, which the work checks between two steps."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """Ask the work to stop."""
        self._event.set()

    def check(self) -> None:
        """Raise `Stopped` after `set`."""
        if self._event.is_set():
            raise Stopped


def in_own_thread(work: Callable[[], T], *, name: str) -> asyncio.Future[T]:
    """Start `work` in a thread that is made for it and ends with it; the future of its result. Waits for nothing.

    For work that must not queue behind others: the loop's own threads may all be taken by calls that wait for this one.
    """
    thread = ThreadPoolExecutor(1, thread_name_prefix=name)
    running = asyncio.get_running_loop().run_in_executor(thread, work)
    # Not `with`: leaving it would wait for the thread, on the loop.
    running.add_done_callback(lambda _: thread.shutdown(wait=False))
    return running


async def in_thread(work: Callable[[Stop], T]) -> T:
    """Run `work` in a thread; return what it returns or raises. Cancelled, it returns when the thread has ended; an
    error other than `Stopped` that the thread then ends with is logged.
    """
    stop = Stop()
    running = asyncio.ensure_future(asyncio.to_thread(work, stop))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stop.set()
        while not running.done():
            try:
                await asyncio.wait([running])
            except asyncio.CancelledError:
                continue  # asked again: the thread is still at work
        error = None if running.cancelled() else running.exception()
        if error is not None and not isinstance(error, Stopped):
            logger.warning("what a cancelled caller had begun failed: %r", error)
        raise
