"""Waiting in a thread for what another thread or an event loop does, so that Ctrl-C ends it."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Final, TypeVar

__all__ = ["result_of"]

T = TypeVar("T")

_LOOK_FOR_SIGNALS_S: Final = 0.25


def result_of(future: Future[T]) -> T:
    """What `future.result()` returns or raises; and `KeyboardInterrupt` at the latest a quarter of a second after it.

    CPython may fail to wake a waiting thread for a signal: one that arrives between the interpreter's last look for
    signals and the wait of the operating system is noted, and the wait begins all the same. So `result_of` looks for
    signals every 0.25 s.
    """
    while True:
        try:
            return future.result(_LOOK_FOR_SIGNALS_S)
        except TimeoutError:
            if future.done():
                return future.result()  # raises the call's own TimeoutError
