"""What this process holds: to compare before and after something that should leave nothing."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import types
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["HeldResources", "held_resources"]

_SELF = Path("/proc/self")
_KINDS = (asyncio.Task, types.CoroutineType)
"""A tuple: a process with all tests has a million objects, and a union of types is made, and asked, for each."""


class HeldResources(NamedTuple):
    """Two of them are equal where nothing was left."""

    descriptors: int
    """Open files and sockets."""
    maps: tuple[str, ...]
    """Files of LMDB that are mapped: open environments."""
    threads: int
    tasks: tuple[str, ...]
    """That have not ended, of any loop but those that run in other threads."""
    coroutines: int
    """That have begun and not ended, but for those of such loops."""


def held_resources(*, collect: bool = True) -> HeldResources:
    """What is held now. `collect`: without what nobody reaches any more; False: that counts as well."""
    if collect:
        gc.collect()
    maps = {line.split(maxsplit=5)[-1] for line in (_SELF / "maps").read_text().splitlines() if ".mdb" in line}
    found = [each for each in gc.get_objects() if isinstance(each, _KINDS)]
    tasks = [each for each in found if isinstance(each, asyncio.Task) and not each.done()]
    elsewhere = set(_of_other_threads(tasks))
    return HeldResources(
        descriptors=len(os.listdir(_SELF / "fd")),
        maps=tuple(sorted(maps)),
        threads=threading.active_count(),
        tasks=tuple(sorted(repr(each) for each in tasks if id(each) not in elsewhere)),
        coroutines=sum(
            1
            for each in found
            if isinstance(each, types.CoroutineType) and each.cr_await is not None and id(each) not in elsewhere
        ),
    )


def _of_other_threads(tasks: list[asyncio.Task[object]]) -> Iterator[int]:
    """The ids of tasks that a loop in another thread runs, and of the coroutines that they wait in: a server that
    other tests share goes on meanwhile.
    """
    for task in tasks:
        loop = task.get_loop()
        if loop.is_running() and loop is not asyncio._get_running_loop():
            yield id(task)
            waits: object = task.get_coro()
            while waits is not None:
                yield id(waits)
                waits = _awaited_by(waits)


def _awaited_by(waiting: object) -> object | None:
    if isinstance(waiting, types.CoroutineType):
        return waiting.cr_await
    if isinstance(waiting, types.AsyncGeneratorType):
        return waiting.ag_await
    # A step of an asynchronous generator, or of `yield from`, which names what it steps nowhere else.
    steps = gc.get_referents(waiting)
    return next((each for each in steps if isinstance(each, types.CoroutineType | types.AsyncGeneratorType)), None)
