"""What this process holds: to compare before and after something that should leave nothing."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import types
from pathlib import Path
from typing import NamedTuple

__all__ = ["HeldResources", "held_resources"]

_SELF = Path("/proc/self")


class HeldResources(NamedTuple):
    """Two of them are equal where nothing was left."""

    descriptors: int
    """Open files and sockets."""
    maps: tuple[str, ...]
    """Files of LMDB that are mapped: open environments."""
    threads: int
    tasks: tuple[str, ...]
    """Of any loop, that have not ended."""
    coroutines: int
    """That have begun and not ended."""


def held_resources(*, collect: bool = True) -> HeldResources:
    """What is held now. `collect`: without what nobody reaches any more; False: that counts as well."""
    if collect:
        gc.collect()
    maps = {line.split(maxsplit=5)[-1] for line in (_SELF / "maps").read_text().splitlines() if ".mdb" in line}
    tasks = [each for each in gc.get_objects() if isinstance(each, asyncio.Task | types.CoroutineType)]
    return HeldResources(
        descriptors=len(os.listdir(_SELF / "fd")),
        maps=tuple(sorted(maps)),
        threads=threading.active_count(),
        tasks=tuple(sorted(repr(each) for each in tasks if isinstance(each, asyncio.Task) and not each.done())),
        coroutines=sum(1 for each in tasks if isinstance(each, types.CoroutineType) and each.cr_await is not None),
    )
