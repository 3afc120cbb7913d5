"""Lateness in a process that a test starts: modules are changed when they are imported."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Final, NamedTuple

__all__ = ["LATE", "Late"]

Change = Callable[[Any, float], dict[str, Any]]
"""From a module, and how many seconds it is to be late, to what takes the places of the names in it."""


class Late(NamedTuple):
    """What an option makes late."""

    option: str
    variable: str
    """Has the seconds in the processes that tests start."""
    changes: dict[str, Change]
    """By module. A name `A.b` is the attribute `b` of the module's `A`."""

    def change(self, module: Any, seconds: float, replace: Callable[[Any, str, Any], None] = setattr) -> None:
        """Make a module late."""
        for name, late in self.changes[module.__name__](module, seconds).items():
            owner, _, attribute = name.rpartition(".")
            replace(getattr(module, owner) if owner else module, attribute, late)


def _replicas(module: Any, seconds: float) -> dict[str, Any]:
    """Replicas wait before each chunk of their log; their event loop goes on."""
    import asyncio
    from contextlib import aclosing

    chunk = module.Applying.chunk

    async def late(self: Any, *arguments: Any) -> Any:
        await asyncio.sleep(seconds)
        async with aclosing(chunk(self, *arguments)) as steps:
            async for step in steps:
                yield step

    return {"Applying.chunk": late}


def _called(name: str) -> Change:
    """A coroutine function of the module waits first."""

    def change(module: Any, seconds: float) -> dict[str, Any]:
        import asyncio

        inner = getattr(module, name)

        async def late(*arguments: Any) -> Any:
            await asyncio.sleep(seconds)
            return await inner(*arguments)

        return {name: late}

    return change


def _statuses(module: Any, seconds: float) -> dict[str, Any]:
    """Each message of a node's status is sent late, in order."""
    inner = module.NodeService.__init__

    def init(self: Any, node: Any, feed: Any, *arguments: Any, **named: Any) -> None:
        inner(self, node, _LateFeed(feed, seconds), *arguments, **named)

    return {"NodeService.__init__": init}


class _LateFeed:
    """A node's status feed whose subscribers hear everything later."""

    def __init__(self, feed: Any, seconds: float) -> None:
        self._feed, self._seconds = feed, seconds

    def __getattr__(self, name: str) -> Any:
        return getattr(self._feed, name)

    async def subscribe(self) -> Any:
        import asyncio
        from contextlib import aclosing

        loop = asyncio.get_running_loop()
        sent: asyncio.Queue[tuple[float, Any]] = asyncio.Queue()

        async def read() -> None:
            try:
                async with aclosing(self._feed.subscribe()) as messages:
                    async for message in messages:
                        sent.put_nowait((loop.time() + self._seconds, message))
            except Exception as error:  # noqa: BLE001 - raised where it is read
                sent.put_nowait((loop.time(), error))

        reading = asyncio.create_task(read())
        try:
            while True:
                due_s, message = await sent.get()
                await asyncio.sleep(due_s - loop.time())
                if isinstance(message, Exception):
                    raise message
                yield message
        finally:
            reading.cancel()
            await asyncio.wait([reading])


LATE: Final = (
    Late("--slow-replicas", "DURAMEN_TESTS_APPLY_LATE_S", {"serving_tier.replica.apply": _replicas}),
    Late(
        "--slow-reports",
        "DURAMEN_TESTS_REPORTS_LATE_S",
        {
            "serving_tier.service.server": _statuses,
            "log_tier.catalog.map_follower": _called("newer_map"),
            "log_tier.catalog.remote.cluster_view": _called("run_sized"),
        },
    ),
)


class _LateFinder(importlib.abc.MetaPathFinder):
    """Finds modules as others do, and has them changed behind their import."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        late = next((each for each in LATE if fullname in each.changes and each.variable in os.environ), None)
        if late is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        assert spec is not None
        loader: Any = spec.loader
        execute = loader.exec_module

        def execute_and_change(module: Any) -> None:
            execute(module)
            late.change(module, float(os.environ[late.variable]))

        loader.exec_module = execute_and_change
        return spec


if any(each.variable in os.environ for each in LATE):
    sys.meta_path.insert(0, _LateFinder())
