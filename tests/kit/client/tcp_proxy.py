"""A TCP proxy between a client and a server, whose cable can be pulled."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from kit.held_port import HeldPort


class TcpProxy:
    """Passes bytes from a port of its own to `target_port`. `start` and `stop` keep the port, `close` ends it."""

    def __init__(self, target_port: int) -> None:
        self.target_port = target_port
        self._held = HeldPort()
        self.port = self._held.number
        self.swallow_replies = False
        """Replies of the server are read and thrown away: the work is done, and nobody hears of it."""
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self.target_port)
        except OSError:
            writer.close()
            return
        self._writers.add(server_writer)
        for source, sink, replies in ((reader, server_writer, False), (server_reader, writer, True)):
            task = asyncio.create_task(self._pass(source, sink, replies))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, replies: bool) -> None:
        with suppress(OSError, asyncio.CancelledError):
            while data := await source.read(1 << 16):
                if not (replies and self.swallow_replies):
                    sink.write(data)
                    await sink.drain()
        sink.close()

    async def cut(self) -> None:
        """Break every connection."""
        for writer in self._writers:
            writer.close()
        for writer in self._writers:
            with suppress(OSError):
                await writer.wait_closed()
        self._writers.clear()

    async def stop(self) -> None:
        """Break every connection, and take no new ones."""
        assert self._server is not None
        self._server.close()
        await self.cut()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._server.wait_closed()

    async def close(self) -> None:
        """Stop, and let go of the port."""
        if self._server is not None:
            await self.stop()
        self._held.close()
