"""A reader process: its listening socket, its connections, the tables that it sees."""

from __future__ import annotations

import asyncio
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

from log_tier.concurrency.clocks import SYSTEM_CLOCK
from router.endpoints.resp.data.freshness_page import Tally
from router.endpoints.resp.data.local_reads import LocalReads
from router.endpoints.resp.readers.proxy import Relay
from router.endpoints.resp.readers.reader_table import ReaderTables
from router.endpoints.resp.server.farewell import Farewell
from router.endpoints.resp.server.sockets import BACKLOG
from router.endpoints.resp.wire.limits import OUTPUT_STALL_S

__all__ = ["TWIN_SOCKET", "ReaderProcess", "ReaderTask"]

TWIN_SOCKET = "twin.sock"
"""Where the server listens for upstream connection, in the folder of the pages."""


@dataclass(frozen=True, slots=True)
class ReaderTask:
    """What one reader process is for."""

    folder: Path
    """Of the pages and the server's socket."""
    number: int
    """Which of the readers it is, from 0."""
    readers: int
    """How many there are."""
    stall_s: float = OUTPUT_STALL_S
    """As in `RespSettings`."""


class ReaderProcess:
    """What its connections share. `open()` lets clients in, `close()` ends them all."""

    def __init__(self, task: ReaderTask) -> None:
        self.loop = asyncio.get_running_loop()
        self.twin_path = task.folder / TWIN_SOCKET
        self.tables = ReaderTables(task.folder)
        self.reads = LocalReads(self.clock_ms)
        self.relays: set[Relay] = set()
        self.farewells: set[Farewell] = set()
        self.closing = False
        self._tally = Tally(task.folder, task.readers)
        self._number = task.number
        self.stall_s = task.stall_s
        self._server: asyncio.Server | None = None

    @classmethod
    async def open(cls, task: ReaderTask, listening: socket.socket, *, tls: ssl.SSLContext | None) -> ReaderProcess:
        """Accept connections. `listening`: one of the sockets that share the port."""
        process = cls(task)
        listening.setblocking(False)
        process._server = await process.loop.create_server(
            lambda: Relay(process), sock=listening, ssl=tls, backlog=BACKLOG
        )
        return process

    @staticmethod
    def clock_ms() -> int:
        """In ms since 1970."""
        return SYSTEM_CLOCK.wall_ms()

    def answered(self, commands: int) -> None:
        """So many were answered here."""
        self._tally.cells[self._number] += commands

    async def close(self) -> None:
        """Take no new connections, end those that there are."""
        if self._server is not None:
            self._server.close()
        self.closing = True
        for farewell in list(self.farewells):
            farewell.close()
        for relay in list(self.relays):
            relay.close()
        await asyncio.sleep(0)
        self.tables.close()
        self._tally.close()
