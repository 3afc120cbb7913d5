"""A database with its fast door, on an event loop in a thread of its own: for clients that block."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar

from one_machine import one_machine
from raw_client import Raw

from duramen.roles.readers import Readers
from router.front import Front
from router.resp_door.door import RespDoor
from router.resp_door.sockets import DoorSettings, DoorSockets

__all__ = ["DoorThread", "open_door"]

T = TypeVar("T")


async def open_door(front: Front, settings: DoorSettings, **how: Any) -> RespDoor:
    """A door without reader processes."""
    return await RespDoor.open(front, front.catalog, settings, DoorSockets.take(settings), node=front.node, **how)


class DoorThread:
    """`start` returns when the door is open; `close` ends everything."""

    def __init__(self, folder: Path, settings: DoorSettings | None = None) -> None:
        self._folder = folder
        self._settings = settings or DoorSettings(port=0)
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._failure: BaseException | None = None
        self.door: RespDoor
        self.front: Front
        self.readers: Readers
        """None of them where the settings want none."""
        self._thread = threading.Thread(target=self._main, name="fast door", daemon=True)

    def start(self) -> DoorThread:
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure
        return self

    def _main(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as error:  # noqa: BLE001 - raised by whoever waits
            self._failure = error
            self._ready.set()
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        async with AsyncExitStack() as opened:
            self.front = await opened.enter_async_context(one_machine(self._folder))
            sockets = DoorSockets.take(self._settings)
            self.door = await RespDoor.open(
                self.front, self.front.catalog, self._settings, sockets, node=self.front.node
            )
            opened.push_async_callback(self.door.close)
            self.readers = await Readers.start(self.door, self._settings, sockets)
            opened.push_async_callback(self.readers.close)
            self._ready.set()
            await self._stop.wait()

    @property
    def address(self) -> tuple[str, int]:
        return ("127.0.0.1", self.door.port)

    def connect(self) -> Raw:
        return Raw(self.address)

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine in the door's loop."""
        return asyncio.run_coroutine_threadsafe(work(), self._loop).result(30.0)

    def close(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(30.0)
            assert not self._thread.is_alive(), "the door does not end"
        if self._failure is not None:
            raise self._failure
