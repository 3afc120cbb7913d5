"""What a reader process is for, and what its connections share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import Final, Protocol

from log_tier.concurrency.clocks import SYSTEM_CLOCK
from log_tier.concurrency.tasks import every_step
from router.endpoints.resp.bounds.connections_memory import BoundedConnection, ConnectionsMemory
from router.endpoints.resp.bounds.tls_handshakes import HANDSHAKE_S
from router.endpoints.resp.connection.lingering_close import LingeringClose
from router.endpoints.resp.data.freshness_page import Tally
from router.endpoints.resp.data.local_reads import LocalReads
from router.endpoints.resp.data.openings import Openings
from router.endpoints.resp.data.trust_cell import TrustCell
from router.endpoints.resp.readers.reader_table import ReaderTables
from router.endpoints.resp.readers.slow_reads import SlowReads
from router.endpoints.resp.wire.limits import CLIENTS_MEBIBYTES, OUTPUT_STALL_S
from router.endpoints.turns.shared_turns import SharedTurns

__all__ = ["UPSTREAM_SOCKET", "ReaderState", "ReaderTask"]

UPSTREAM_SOCKET: Final = "upstream.sock"
"""The name of the socket on which the server listens for upstream connections, in the folder of the freshness pages."""


@dataclass(frozen=True, slots=True)
class ReaderTask:
    """The settings that a server gives to a reader process."""

    folder: Path
    """The folder of the freshness pages and the server's socket."""
    number: int
    """Which of the readers it is, from 0."""
    readers: int
    """How many there are."""
    stall_s: float = OUTPUT_STALL_S
    """As in `RespSettings`."""
    clients_bytes: int = CLIENTS_MEBIBYTES << 20
    """What its connections may hold together."""
    handshake_s: float = HANDSHAKE_S
    """As in `RespSettings`."""
    slow_s: float = inf
    """Reads that take so long are reported to the server."""


class ReaderConnection(BoundedConnection, Protocol):
    """A connection, as its process sees it."""

    def close(self) -> None: ...


class ReaderState:
    """Shared by the connections of one reader process. Belongs to one event loop."""

    def __init__(self, task: ReaderTask, write: Callable[[bytes], None]) -> None:
        """`write`: of a line for the server. Never waits, and raises nothing."""
        self.loop = asyncio.get_running_loop()
        self.upstream_path = task.folder / UPSTREAM_SOCKET
        self.now_s = SYSTEM_CLOCK.monotonic_s
        self.slow = SlowReads(task.slow_s, self.now_s, write)
        self.turns = SharedTurns(self.loop, self.now_s)
        """Of all connections: see there."""
        openings = Openings(self.loop.call_soon)
        self.tables = ReaderTables(task.folder, openings)
        self.reads = LocalReads(self.clock_ms, openings)
        self.connections: set[ReaderConnection] = set()
        self.memory = ConnectionsMemory(task.clients_bytes, lambda: self.connections, self.now_s)
        """What they may hold together."""
        self.lingering: set[LingeringClose] = set()
        self.closing = False
        self.stall_s = task.stall_s
        self._tally = Tally(task.folder, task.readers)
        self.trust = TrustCell(task.folder)
        """Whether connections may still be answered: see there."""
        self._number = task.number

    @staticmethod
    def clock_ms() -> int:
        """In ms since 1970."""
        return SYSTEM_CLOCK.wall_ms()

    def answered(self, commands: int) -> None:
        """Count commands that this process has answered."""
        self._tally.cells[self._number] += commands

    async def close(self) -> None:
        """End all connections."""
        self.closing = True
        for closing in list(self.lingering):
            closing.close()
        for connection in list(self.connections):
            connection.close()
        await every_step(
            self.memory.close, partial(asyncio.sleep, 0), self.tables.close, self._tally.close, self.trust.close
        )
