"""How tests wait: for a condition, with a deadline that grows with the load of the machine."""

from __future__ import annotations

import asyncio
import linecache
import os
import reprlib
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

__all__ = ["patience_s", "until", "until_true", "wait_until", "within"]

# A load of fifteen for each processor is what a shared build machine has at worst; beyond it a test may fail.
_LONGER_MAX: Final = 15.0

# The average of a minute, and after a slash how many processes want a processor now: a load that has just come counts.
_LOAD: Final = Path("/proc/loadavg")

# A cluster of processes fails over and restores well within this on a quiet machine; one process takes far less.
_UNTIL_S: Final = 60.0

# The first look comes soon, so that a quick condition costs little; later ones leave the processor to others.
_PAUSE_FIRST_S: Final = 0.002
_PAUSE_MAX_S: Final = 0.1


def patience_s(seconds: float) -> float:
    """`seconds` as they are on a quiet machine, longer by as much as processes wait for each processor now."""
    busy = max(os.getloadavg()[0], _wanting_now()) / (os.cpu_count() or 1)
    return seconds * min(max(1.0, busy), _LONGER_MAX)


def _wanting_now() -> int:
    try:
        return int(_LOAD.read_text().split()[3].partition("/")[0])
    except OSError:  # a system without it
        return 0


def within(seconds: float) -> asyncio.Timeout:
    """`async with within(20):` what is inside ends within `patience_s(seconds)`, or raises `TimeoutError`."""
    return asyncio.timeout(patience_s(seconds))


def _named(condition: Callable[..., object]) -> str:
    """The line in which a condition begins, its place, its arguments, and the values that it looks at."""
    called = condition.func if isinstance(condition, partial) else condition
    code = getattr(called, "__code__", None)
    if code is None:
        return repr(condition)
    line = linecache.getline(code.co_filename, code.co_firstlineno).strip()
    said = f"{line} ({Path(code.co_filename).name}:{code.co_firstlineno})"
    if isinstance(condition, partial):
        return f"{said}, with {reprlib.repr(condition.args)}"
    values = []
    for name, cell in zip(code.co_freevars, getattr(called, "__closure__", None) or (), strict=True):
        with suppress(ValueError):  # a name that has no value yet
            values.append(f"{name}={reprlib.repr(cell.cell_contents)}")
    return f"{said}, where {', '.join(values)}" if values else said


async def until(condition: Callable[[], object], *, seconds: float = _UNTIL_S) -> None:
    """Look again every millisecond until `condition()` is true. Fails the test after `patience_s(seconds)`."""
    begun = time.monotonic()
    while not condition():
        waited = time.monotonic() - begun
        assert waited < seconds or waited < patience_s(seconds), f"after {waited:.0f} s still not: {_named(condition)}"
        await asyncio.sleep(0.001)


async def until_true(condition: Callable[[], Awaitable[object]], *, seconds: float = _UNTIL_S) -> None:
    """The same for a condition that is awaited, such as a read."""
    begun = time.monotonic()
    pause = _PAUSE_FIRST_S
    while not await condition():
        waited = time.monotonic() - begun
        assert waited < seconds or waited < patience_s(seconds), f"after {waited:.0f} s still not: {_named(condition)}"
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, _PAUSE_MAX_S)


def wait_until(condition: Callable[[], object], what: str = "", *, seconds: float = _UNTIL_S) -> float:
    """The same for a thread: block until `condition()` is true, and return the seconds that it took.

    Fails the test after `patience_s(seconds)`, and says `what` was waited for.
    """
    begun = time.monotonic()
    pause = _PAUSE_FIRST_S
    while not condition():
        waited = time.monotonic() - begun
        if waited >= seconds and waited >= patience_s(seconds):
            raise AssertionError(f"after {waited:.0f} s still not: {what and what + ': '}{_named(condition)}")
        time.sleep(pause)
        pause = min(pause * 1.5, _PAUSE_MAX_S)
    return time.monotonic() - begun
