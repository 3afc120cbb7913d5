"""A resource that a process opens at the first call that needs it, and that all callers share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from log_tier.model.errors import ShuttingDown

__all__ = ["OnDemand"]


class _Closeable(Protocol):
    async def close(self) -> None: ...


T = TypeVar("T", bound=_Closeable)


class OnDemand(Generic[T]):
    """Calling it returns the open resource. If opening fails, the next call tries again. `close()` ends it."""

    def __init__(self, opened: Callable[[], Awaitable[T]]) -> None:
        self._open = opened
        self._lock = asyncio.Lock()
        """Held while the resource is opened and closed: concurrent callers share one opening."""
        self._opened: T | None = None
        self._closed = False

    async def __call__(self) -> T:
        """The open resource. Raises `ShuttingDown` after `close`, and what opening raises."""
        async with self._lock:
            if self._closed:
                raise ShuttingDown("the server is stopping; ask another one")
            if self._opened is None:
                self._opened = await self._open()
            return self._opened

    async def close(self) -> None:
        """Close what was opened; an opening that is under way is awaited first. Idempotent."""
        async with self._lock:
            self._closed = True
            opened, self._opened = self._opened, None
            if opened is not None:
                await opened.close()
