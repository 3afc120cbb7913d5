"""A real log server in this process, for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc

from kit.held_port import HeldPort
from log_tier.embedded import EmbeddedLog
from log_tier.model.log import Log
from log_tier.proto import log_pb2_grpc
from log_tier.remote.service import LogService
from log_tier.rpc.channel import SERVER_OPTIONS
from log_tier.rpc.open_streams import OpenStreams


class LogServer:
    """A server over a log; `stop` and `start` keep the port, so that clients find it again. `close` ends it."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self._held = HeldPort()
        self.port = self._held.number
        self.streams = OpenStreams()
        self._server: grpc.aio.Server | None = None

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def start(self) -> None:
        self.streams = OpenStreams()
        self._server = grpc.aio.server(options=SERVER_OPTIONS)
        log_pb2_grpc.add_LogServicer_to_server(  # type: ignore[no-untyped-call]
            LogService(self.log, self.streams), self._server
        )
        self._server.add_insecure_port(self.target)
        await self._server.start()

    async def stop(self) -> None:
        """End it as a crash would: no grace, no reasons."""
        if self._server is not None:
            await self._server.stop(None)
            self._server = None

    async def close(self) -> None:
        """Stop, and let go of the port."""
        await self.stop()
        self._held.close()

    async def stop_politely(self) -> None:
        """End it as a shutdown does."""
        self.streams.end()
        assert self._server is not None
        await self._server.stop(5)
        self._server = None


@asynccontextmanager
async def served_log(folder: Path) -> AsyncIterator[LogServer]:
    """An embedded log in `folder` behind a server."""
    async with await EmbeddedLog.open(folder) as log:
        server = LogServer(log)
        await server.start()
        try:
            yield server
        finally:
            await server.close()
