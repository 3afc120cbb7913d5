"""One set of tests, four ways: asynchronous and blocking, in this process and over gRPC.

The blocking face is behind the calls of the asynchronous one: tests await both.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import duramen
from duramen import aio, blocking

FOUR_WAYS = ["asynchronous, here", "asynchronous, gRPC", "blocking, here", "blocking, gRPC"]

_PLAIN = {"name"}
"""Attributes that are no calls."""


@asynccontextmanager
async def four_ways(way: str, folder: Path, server: Callable[[], Any]) -> AsyncIterator[Any]:
    """A database in one of the four ways: in `folder`, or connected to the server that is called for."""
    face, _, place = way.partition(", ")
    remote = place == "gRPC"
    target = f"127.0.0.1:{server().port}" if remote else str(folder)
    if face == "asynchronous":
        opened: Any = await (aio.connect if remote else aio.open)(target)
    else:
        opened = Awaited(await asyncio.to_thread(duramen.connect if remote else duramen.open, target))
    try:
        yield opened
    finally:
        await opened.close()


class Awaited:
    """A blocking object whose calls are awaited: each runs in a thread of its own."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __len__(self) -> int:
        return len(self._inner)

    async def __aenter__(self) -> Awaited:
        await asyncio.to_thread(self._inner.__enter__)
        return self

    async def __aexit__(self, *error: object) -> None:
        await asyncio.to_thread(self._inner.__exit__, *error)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name in _PLAIN or not callable(found):
            return found
        if name in ("table", "batch", "writer", "token", "merge_token"):  # not awaited in either face
            return lambda *args, **kwargs: _wrapped(found(*args, **kwargs))
        if name in ("scan", "watch"):
            return lambda *args, **kwargs: _Iterated(lambda: found(*args, **kwargs))
        if isinstance(self._inner, blocking.AtomicBatch) and name != "commit":
            return found
        return _called(found)


def _called(call: Callable[..., Any]) -> Callable[..., Any]:
    async def awaited(*args: Any, **kwargs: Any) -> Any:
        return _wrapped(await asyncio.to_thread(call, *args, **kwargs))

    return awaited


def _wrapped(found: Any) -> Any:
    kinds = (blocking.Database, blocking.Table, blocking.AtomicBatch, blocking.TableWriter)
    return Awaited(found) if isinstance(found, kinds) else found


class _Iterated:
    """An iterator of the blocking face; made in a thread when it is awaited, or in its first step."""

    def __init__(self, make: Callable[[], Iterator[Any]]) -> None:
        self._make = make
        self._iterator: Any = None

    async def _begin(self) -> _Iterated:
        if self._iterator is None:
            self._iterator = await asyncio.to_thread(self._make)
        return self

    def __await__(self) -> Any:
        return self._begin().__await__()

    def __aiter__(self) -> _Iterated:
        return self

    async def __anext__(self) -> Any:
        await self._begin()
        item = await asyncio.to_thread(next, self._iterator, self)
        if item is self:
            raise StopAsyncIteration
        return item

    async def aclose(self) -> None:
        if self._iterator is not None:
            await asyncio.to_thread(self._iterator.close)
