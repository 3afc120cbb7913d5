"""A server on an event loop in a thread of its own, for clients that block."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from contextlib import AsyncExitStack
from typing import Self

from kit.deadlines import patience_s

__all__ = ["ServedThread"]


class ServedThread(ABC):
    """`start` returns when the server listens, or raises why it does not; `close` ends everything."""

    def __init__(self, name: str) -> None:
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)

    @abstractmethod
    async def open(self, opened: AsyncExitStack) -> None:
        """Open the server, in its thread; `opened` closes it."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def start(self) -> Self:
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure
        return self

    def _main(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
            self._failure = error
            self._ready.set()
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        async with AsyncExitStack() as opened:
            await self.open(opened)
            self._ready.set()
            await self._stop.wait()

    def close(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(patience_s(60.0))
            assert not self._thread.is_alive(), "the server does not end"
        if self._failure is not None:
            raise self._failure
