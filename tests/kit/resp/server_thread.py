"""A database with its RESP endpoint, on an event loop in a thread of its own: for clients that block."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar

from duramen.server.roles.readers import Readers
from kit.cluster.one_machine import one_machine
from kit.deadlines import patience_s, within
from kit.resp.raw_client import Raw
from log_tier.catalog.map_follower import MapFollower
from router.data.local_data import LocalData
from router.endpoints.resp.server.resp_server import RespServer
from router.endpoints.resp.server.sockets import RespSettings, RespSockets

__all__ = ["ServerThread", "open_resp"]

T = TypeVar("T")


async def open_resp(data_plane: LocalData, settings: RespSettings, **how: Any) -> RespServer:
    """An endpoint without reader processes."""
    return await RespServer.open(
        data_plane, MapFollower(data_plane.catalog), settings, RespSockets.take(settings), node=data_plane.node, **how
    )


class ServerThread:
    """`start` returns when the endpoint is open; `close` ends everything."""

    def __init__(self, folder: Path, settings: RespSettings | None = None) -> None:
        self._folder = folder
        self._settings = settings or RespSettings(port=0)
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._failure: BaseException | None = None
        self.server: RespServer
        self.data_plane: LocalData
        self.readers: Readers
        """None of them where the settings want none."""
        self._thread = threading.Thread(target=self._main, name="RESP endpoint", daemon=True)

    def start(self) -> ServerThread:
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
            self.data_plane = await opened.enter_async_context(one_machine(self._folder))
            sockets = RespSockets.take(self._settings)
            self.server = await RespServer.open(
                self.data_plane,
                MapFollower(self.data_plane.catalog),
                self._settings,
                sockets,
                node=self.data_plane.node,
            )
            opened.push_async_callback(self.server.close)
            self.readers = await Readers.start(self.server, self._settings, sockets)
            opened.push_async_callback(self.readers.close)
            self._ready.set()
            await self._stop.wait()

    @property
    def address(self) -> tuple[str, int]:
        return ("127.0.0.1", self.server.port)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    async def watched(self) -> None:
        """Return when the watch of the default table is at the log's end, so that nothing is missed."""
        async with within(20):
            while not self.server.notifications.watching(0):  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    def connect(self) -> Raw:
        return Raw(self.address)

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine in the endpoint's loop."""
        return asyncio.run_coroutine_threadsafe(work(), self._loop).result(patience_s(30.0))

    def close(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(patience_s(30.0))
            assert not self._thread.is_alive(), "the server does not end"
        if self._failure is not None:
            raise self._failure
