"""A whole server on an event loop in a thread of its own, for blocking gRPC clients and for measuring its turns."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import grpc

from duramen.server.roles.all_in_one import SingleServer
from kit.deadlines import patience_s

__all__ = ["GrpcThread"]


class GrpcThread:
    """`start` returns when the server listens; `close` ends everything."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._failure: BaseException | None = None
        self.server: SingleServer
        self._thread = threading.Thread(target=self._main, name="server", daemon=True)

    def start(self) -> GrpcThread:
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
        self.server = await SingleServer.open(self._folder, port=0)
        try:
            self._ready.set()
            await self._stop.wait()
        finally:
            await self.server.close()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def connect(self) -> grpc.Channel:
        """A blocking channel that takes messages of any size."""
        sizes = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
        return grpc.insecure_channel(f"127.0.0.1:{self.server.port}", options=sizes)

    def close(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(patience_s(60.0))
            assert not self._thread.is_alive(), "the server does not end"
        if self._failure is not None:
            raise self._failure
