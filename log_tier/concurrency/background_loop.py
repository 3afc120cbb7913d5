"""The event loop of a process for all callers that block, in a thread of its own.

There is one such loop (`background_loop()`), and it outlives every connection. gRPC passes the events of all channels
of a process through one queue, and hands each to the loop of its channel. If that loop was closed, gRPC reports an
error for every late event and keeps the loop for ever. So a connection has no loop of its own, and `close` waits for
the end of the connection's calls. A program may run loops of its own next to this one (`asyncio.run` with
`duramen.aio`); gRPC's error about an event that came after such a loop's end is not reported, because its caller has
ended too.

The loop starts with the first caller and halts when the interpreter ends, before Python unloads modules. Tasks under
way then stay as they are, like a daemon thread, and log nothing. A forked process has no copy of the loop: its first
caller starts another one.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from log_tier.concurrency.forking import keep_for_ever, on_fork
from log_tier.concurrency.handed_call import HandedCall

__all__ = ["BackgroundLoop", "background_loop", "report_unless_late"]

T = TypeVar("T")

# The function of gRPC that passes events to the loops of their channels, as an error's message names it.
_EVENTS: Final = "PollerCompletionQueue._handle_events"

# A turn of the loop that hangs must not keep the process from its exit.
_HALT_S: Final = 2.0


class BackgroundLoop:
    """An event loop in a daemon thread; it starts at once and ends with `end`."""

    def __init__(self, name: str) -> None:
        self.loop = _new_loop()
        self.loop.set_exception_handler(
            lambda loop, context: report_unless_late(loop.default_exception_handler, context)
        )
        # Held while work is handed over and while the loop is being stopped: no work falls in between and hangs.
        # Reentrant, because the collector may run inside and hand over the closing of what it found.
        self._gate = threading.RLock()
        self._ended = False
        self._halted = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        on_fork(self)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        if self._halted:
            return
        self.loop.run_until_complete(_cancel_others())
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()

    def is_here(self) -> bool:
        """Is this the loop's own thread, which must not wait for itself?"""
        return threading.current_thread() is self._thread

    def submit(self, call: Callable[[], Coroutine[Any, Any, T]]) -> HandedCall[T] | None:
        """Start what `call` makes on the loop, from any thread; None after `end`. `call` is called on the loop."""
        handed = HandedCall(self.loop, call)
        with self._gate:
            if self._ended:
                return None
            handed.begin()
        return handed

    def end(self) -> None:
        """Cancel what still runs, close the loop and end its thread. Idempotent."""
        with self._gate:
            if not self._ended:
                self._ended = True
                self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()

    def halt(self) -> None:
        """Stop at the end of the interpreter. Everything stays as it is; waiting callers are not woken."""
        with self._gate:
            if self._ended:
                return
            self._ended = self._halted = True
            self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(_HALT_S)
        self._keep()

    def after_fork(self) -> None:
        """The thread is not here, and the loop's descriptors are the parent's: nothing of it is ever touched."""
        self._gate = threading.RLock()
        self._ended = True
        self._keep()

    def _keep(self) -> None:
        keep_for_ever(self)
        for task in asyncio.all_tasks(self.loop):
            keep_for_ever(task)


def report_unless_late(report: Callable[[dict[str, Any]], None], context: dict[str, Any]) -> None:
    """`report` an error of a loop, unless it is gRPC's about an event for a loop that is closed."""
    error = context.get("exception")
    if not (isinstance(error, RuntimeError) and str(error) == "Event loop is closed" and _EVENTS in context["message"]):
        report(context)


async def _cancel_others() -> None:
    """Cancel whatever still runs in this loop, and wait for its end."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


class _Process:
    """This process's loop, after the first caller has asked for it."""

    def __init__(self) -> None:
        self.starting = threading.Lock()
        self.loop: BackgroundLoop | None = None

    def forget(self) -> None:
        """In a forked process."""
        self.starting = threading.Lock()
        self.loop = None

    def end(self) -> None:
        """When the interpreter ends."""
        if self.loop is not None:
            self.loop.halt()


_process: Final = _Process()
atexit.register(_process.end)
os.register_at_fork(after_in_child=_process.forget)


def background_loop() -> BackgroundLoop:
    """The loop of this process. Started by the first call; nobody but the interpreter's end may end it."""
    if _process.loop is None:
        with _process.starting:
            if _process.loop is None:
                _process.loop = BackgroundLoop("duramen-loop")
    return _process.loop
