"""A TCP proxy that loses packets without a word: a pulled cable, or a firewall that has forgotten a connection."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final, Literal

__all__ = ["DIRECTIONS", "BlackHole", "Direction"]

Direction = Literal["both", "requests", "replies"]

DIRECTIONS: Final[tuple[Direction, ...]] = ("both", "requests", "replies")


class _Connection:
    """One that was accepted."""

    def __init__(self, lost: Direction | None) -> None:
        self.lost = lost

    def passes(self, direction: Direction) -> bool:
        return self.lost not in (direction, "both")


class BlackHole:
    """Listens on a port of its own, and passes bytes to `target`. `start()` makes it go, `close()` ends it.

    `cut()` swallows what is sent in a direction; nobody gets a reset. `heal()` lets new connections pass. Those that
    were there before, or were made meanwhile, stay dead: only their own ends can find that out.
    """

    def __init__(self, target: str = "") -> None:
        self.target = target
        self.port = 0
        self._cut: Direction | None = None
        self._connections: list[_Connection] = []
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self, direction: Direction) -> None:
        self._cut = direction
        for connection in self._connections:
            connection.lost = direction

    def heal(self) -> None:
        self._cut = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(self._cut)
        self._connections.append(connection)
        self._writers.append(writer)
        host, _, port = self.target.rpartition(":")
        try:
            target_reader, target_writer = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.close()
            return
        self._writers.append(target_writer)
        for source, sink, direction in ((reader, target_writer, "requests"), (target_reader, writer, "replies")):
            task = asyncio.create_task(self._pass(connection, source, sink, direction))  # type: ignore[arg-type]
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass(
        self, connection: _Connection, source: asyncio.StreamReader, sink: asyncio.StreamWriter, direction: Direction
    ) -> None:
        with suppress(OSError):
            while data := await source.read(1 << 16):
                if connection.passes(direction):
                    sink.write(data)
                    await sink.drain()
            if not connection.passes(direction):
                return  # that it was closed is lost as well
        sink.close()

    async def close(self) -> None:
        assert self._server is not None, "it was not started"
        self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        for writer in self._writers:
            writer.close()
        for writer in self._writers:
            with suppress(OSError):
                await writer.wait_closed()
