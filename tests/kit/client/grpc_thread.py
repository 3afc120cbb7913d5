"""A whole server on an event loop in a thread of its own, for blocking gRPC clients and for measuring its turns."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import grpc

from duramen.server.roles.all_in_one import SingleServer
from kit.served_thread import ServedThread

__all__ = ["GrpcThread"]


class GrpcThread(ServedThread):
    """The gRPC port of a single server."""

    def __init__(self, folder: Path) -> None:
        super().__init__("server")
        self._folder = folder
        self.server: SingleServer

    async def open(self, opened: AsyncExitStack) -> None:
        self.server = await SingleServer.open(self._folder, port=0)
        opened.push_async_callback(self.server.close)

    def connect(self) -> grpc.Channel:
        """A blocking channel that takes messages of any size."""
        sizes = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
        return grpc.insecure_channel(f"127.0.0.1:{self.server.port}", options=sizes)
