"""Async code for callers that block: a Spark program, or a notebook, whose thread may run an event loop already.

There is one loop for all calls of a process, in a thread of its own that the first call starts. A loop for each call
would be gone when gRPC, whose events all pass through one queue, comes with the last ones of a connection.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Coroutine
from contextlib import suppress
from functools import cache
from typing import Any, Final, TypeVar

from log_tier.concurrency.blocking_wait import result_of

__all__ = ["wait_for"]

T = TypeVar("T")

# A task that does not end when it is cancelled must not keep the process.
_END_S: Final = 5.0

_starting: Final = threading.Lock()


@cache
def _started() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="duramen-wait", daemon=True)
    thread.start()

    async def end_tasks() -> None:
        """What still runs when the process ends, connections that are being closed mostly."""
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def stop() -> None:
        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(end_tasks(), loop).result(_END_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    atexit.register(stop)
    return loop


# A process that was forked has the loop and not its thread.
os.register_at_fork(after_in_child=_started.cache_clear)


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, and return or raise what it does. Interrupted, it is cancelled first."""
    with _starting:
        loop = _started()
    running = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return result_of(running)
    except BaseException:
        running.cancel()
        raise
