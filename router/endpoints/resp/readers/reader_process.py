"""A reader process: its listening socket and its connections."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable

from router.endpoints.resp.bounds.tls_handshakes import TlsHandshakes
from router.endpoints.resp.readers.proxy import ProxyConnection
from router.endpoints.resp.readers.reader_state import ReaderState, ReaderTask
from router.endpoints.resp.wire.limits import LISTEN_BACKLOG

__all__ = ["ReaderProcess", "ReaderTask"]


def _forget(_line: bytes) -> None:
    """There is no server that would take it."""


class ReaderProcess:
    """`open()` lets clients in, `close()` ends them all."""

    def __init__(self, task: ReaderTask, write: Callable[[bytes], None]) -> None:
        self._state = ReaderState(task, write)
        self._server: asyncio.Server | None = None
        self._handshakes: TlsHandshakes | None = None

    @classmethod
    async def open(
        cls,
        task: ReaderTask,
        listening: socket.socket,
        *,
        tls: ssl.SSLContext | None,
        write: Callable[[bytes], None] = _forget,
    ) -> ReaderProcess:
        """Accept connections. `listening`: one of the sockets that share the port. `write`: of lines for the server;
        never waits, and raises nothing.
        """
        process = cls(task, write)
        state = process._state
        listening.setblocking(False)

        def connection() -> ProxyConnection:
            return ProxyConnection(state)

        if tls is None:
            process._server = await state.loop.create_server(connection, sock=listening, backlog=LISTEN_BACKLOG)
        else:
            process._handshakes = TlsHandshakes(listening, tls, connection, handshake_s=task.handshake_s)
            process._handshakes.start()
        return process

    async def close(self) -> None:
        """Take no new connections, end those that there are."""
        if self._server is not None:
            self._server.close()
        if self._handshakes is not None:
            self._handshakes.close()
        await self._state.close()
