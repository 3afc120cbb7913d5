"""One loop for all parts of a process that act on a change of the map.

    maps ──▶ loop ──▶ hosting          opens, fetches, lets go
                  ├─▶ jobs             begins tasks, cancels those that the map no longer has
                  ├─▶ membership       connects to the nodes of the map
                  └─▶ identity         stops a node whose id another one has taken over

Each part registers a **comparer**: a function that compares the map with what the part has, and acts. It is called with
the present map when it is registered, and with the newest one after each change.

- F1 A comparer sees the maps in their order. Maps that come while it is busy are seen as one: the newest.
- F2 No comparer waits for another one. A coroutine runs in a task of its own, one at a time for each comparer.
- F3 A comparer that raises is not called again, and its `failed` is called with the error; the others go on. When the
     map cannot be followed any more, this happens to all of them.

The loop runs while there are comparers. `leave` cancels a comparer's coroutine and waits for its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from log_tier.catalog.catalog import Maps, newer_map
from log_tier.catalog.cluster_map import ClusterMap
from log_tier.concurrency.background import Failed, only_logged, report_error
from log_tier.concurrency.tasks import end_tasks

__all__ = ["Compare", "Leave", "MapFollower"]

Compare = Callable[[ClusterMap], Coroutine[Any, Any, None] | None]
"""Compares a part of the process with a map, and acts; a coroutine where it has to wait for something."""

Leave = Callable[[], Awaitable[None]]
"""Ends a registration, and what it has under way. Idempotent."""


class MapFollower:
    """Follows `maps` for all comparers of a process. Belongs to one event loop; the maps are their owner's."""

    def __init__(self, maps: Maps) -> None:
        self.maps = maps
        self._comparers: list[_Comparer] = []
        self._loop: asyncio.Task[None] | None = None
        self._seen = maps.map
        """The map that the comparers were offered last."""

    @property
    def map(self) -> ClusterMap:
        """The newest map that is known here."""
        return self.maps.map

    async def follow(self, compare: Compare, *, name: str, failed: Failed = only_logged) -> Leave:
        """Compare with the present map, return when that is done, and compare with every newer one from then on.

        If following ends by itself, `failed` is called with the error; `name` is for people. Raises what the first
        comparison raises.
        """
        comparer = _Comparer(compare, name, failed, self.map)
        work = compare(comparer.seen)
        if work is not None:
            await work
        self._comparers.append(comparer)
        self._offer(comparer, self.map)
        if self._loop is None or self._loop.done():
            self._loop = asyncio.create_task(self._follow(), name="following the map")

        async def leave() -> None:
            if comparer in self._comparers:
                self._comparers.remove(comparer)
            await end_tasks(comparer.task, None if self._comparers else self._loop)

        return leave

    async def _follow(self) -> None:
        try:
            while True:
                newest = self._seen = await newer_map(self.maps, self._seen)
                for comparer in list(self._comparers):
                    self._offer(comparer, newest)
        except Exception as error:  # noqa: BLE001 - each comparer's owner hears of it, and ends
            for comparer in list(self._comparers):
                self._lose(comparer, error)

    def _offer(self, comparer: _Comparer, newest: ClusterMap) -> None:
        """Have a comparer see the newest map, unless it has, or is busy with an older one."""
        if comparer.task is not None or comparer.seen.version >= newest.version or comparer not in self._comparers:
            return
        comparer.seen = newest
        try:
            work = comparer.compare(newest)
        except Exception as error:  # noqa: BLE001 - its owner hears of it, and ends
            self._lose(comparer, error)
            return
        if work is not None:
            comparer.task = asyncio.create_task(work, name=comparer.name)
            comparer.task.add_done_callback(lambda task: self._compared(comparer, task))

    def _compared(self, comparer: _Comparer, task: asyncio.Task[None]) -> None:
        comparer.task = None
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._offer(comparer, self._seen)
        else:
            self._lose(comparer, error)

    def _lose(self, comparer: _Comparer, error: BaseException) -> None:
        if comparer in self._comparers:
            self._comparers.remove(comparer)
            report_error(comparer.name, error, comparer.failed)


class _Comparer:
    """One registration."""

    def __init__(self, compare: Compare, name: str, failed: Failed, seen: ClusterMap) -> None:
        self.compare = compare
        self.name = name
        self.failed = failed
        self.seen = seen
        """The map that it was called with last."""
        self.task: asyncio.Task[None] | None = None
        """The comparison that is under way."""
