"""One set of tests, four ways: the blocking face behind the calls of the asynchronous one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

from duramen import blocking

_PLAIN = {"name"}
"""Attributes that are no calls."""


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
