"""What would stop a loop in virtual time, or let two runs of a seed differ, is refused in the thread of the run."""

from __future__ import annotations

import os
import random
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, Final

from duramen.testing.running.errors import NotSimulated

__all__ = ["refusals"]

_OURS: Final = frozenset({"duramen", "log_tier", "serving_tier", "router"})
"""Duramen itself may pause for a reader of LMDB, which is real."""


@contextmanager
def refusals(seed: int) -> Iterator[None]:
    """In this thread: no sleep that blocks, no thread, no socket; and `os.urandom` draws from the seed."""
    here = threading.get_ident()

    def only_here(real: Callable[..., Any], what: str, instead: str, but: Collection[str] = ()) -> Callable[..., Any]:
        def asked(*args: Any, **named: Any) -> Any:
            caller = sys._getframe(1).f_globals.get("__name__", "")
            if threading.get_ident() == here and caller.partition(".")[0] not in but:
                raise NotSimulated(f"{what} on a loop in virtual time{instead}")
            return real(*args, **named)

        return asked

    replaced: list[tuple[Any, str, Any]] = [
        (time, "sleep", only_here(time.sleep, "time.sleep blocks everybody", ": use await asyncio.sleep", _OURS)),
        (
            threading.Thread,
            "start",
            only_here(
                threading.Thread.start,
                "a thread lives in real time, and this test runs",
                ": use asyncio.to_thread, duramen.aio in place of the blocking API, or a test in real time",
            ),
        ),
        (
            socket.socket,
            "connect",
            only_here(socket.socket.connect, "a socket blocks everybody", ": it is not simulated"),
        ),
        (os, "urandom", _drawn(random.Random(f"urandom {seed}"), os.urandom, here)),
    ]
    before = [(owner, name, vars(owner).get(name)) for owner, name, _ in replaced]
    for owner, name, new in replaced:
        setattr(owner, name, new)
    try:
        yield
    finally:
        for owner, name, real in before:
            if real is None:
                delattr(owner, name)  # inherited: what is behind it is there again
            else:
                setattr(owner, name, real)


def _drawn(chance: random.Random, real: Callable[[int], bytes], here: int) -> Callable[[int], bytes]:
    def urandom(size: int) -> bytes:
        return chance.randbytes(size) if threading.get_ident() == here else real(size)

    return urandom
