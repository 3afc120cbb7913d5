"""What a process needs only where somebody asks for it: opened at the first call, shared by all callers."""

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
    """Call it for the one that is open. An opening that fails is tried again by the next call. `close()` ends it."""

    def __init__(self, opened: Callable[[], Awaitable[T]]) -> None:
        self._open = opened
        self._lock = asyncio.Lock()
        """Held while it is opened and closed: callers that come together share one opening."""
        self._opened: T | None = None
        self._closed = False

    async def __call__(self) -> T:
        """The one that is open. Raises `ShuttingDown` after `close`, and what opening raises."""
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
