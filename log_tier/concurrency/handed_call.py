"""A call that an event loop runs for a thread which waits for it, and which Ctrl-C may interrupt at any instruction.

`concurrent.futures.Future` cannot carry it. Its wait is a `Condition`, which is Python code that gives a lock away and
takes it back: an interrupt in between ends as `RuntimeError: cannot release un-acquired lock`, and one behind the
taking leaves the lock taken, for which the event loop then waits for ever. Here the waiting thread shares with the loop
one lock of the interpreter's own, which is taken in one instruction.

Invariants:

- H1 Whatever line of `begin`, `result` or `cancel` an interrupt hits, it is what the caller gets, and the loop goes on.
- H2 No coroutine exists before the loop has a task for it: an interrupt leaves none that nobody awaits, of which Python
  would print a warning about our code into the user's terminal.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

__all__ = ["HandedCall"]

T = TypeVar("T")

_LOOK_FOR_SIGNALS_S: Final = 0.25


class HandedCall(Generic[T]):
    """One call into an event loop of another thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, call: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._loop = loop
        self._call = call
        self._task: asyncio.Task[T] | None = None
        self._has_ended = False
        self._ended = threading.Lock()  # free when the task has ended
        self._ended.acquire()

    def begin(self) -> None:
        """Start it on the loop, from any thread, in the context (`contextvars`) of this one."""
        self._loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._call())
        self._task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[T]) -> None:
        if not task.cancelled():
            task.exception()  # or the loop reports it as unseen, where the caller was interrupted
        self._has_ended = True
        self._ended.release()

    def cancel(self) -> None:
        """Cancel it, from any thread; without effect when it, or its loop, has ended. It is not waited for."""
        if not self._has_ended:
            with suppress(RuntimeError):  # another thread has closed the loop, and what ran there was cancelled
                self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._task is not None:  # None where an interrupt came before it was begun
            self._task.cancel()

    def result(self) -> T:
        """Wait; return or raise what the call does. Raises `concurrent.futures.CancelledError` if it was cancelled.

        Ctrl-C raises `KeyboardInterrupt` here, at the latest a quarter of a second after it: CPython may fail to wake a
        waiting thread for a signal (one that arrives between the interpreter's last look for signals and the wait of
        the operating system is noted, and the wait begins all the same), so the wait is taken in pieces.
        """
        while not self._has_ended:
            self._ended.acquire(timeout=_LOOK_FOR_SIGNALS_S)
        assert self._task is not None, "it has ended, so it had begun"
        try:
            return self._task.result()
        except asyncio.CancelledError:
            raise CancelledError from None
        finally:
            del self  # an error holds this frame: no cycle of error, frame, call and task
