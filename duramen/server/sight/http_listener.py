"""Where the endpoint of HTTP listens: a client is handed on when it has connected, by TLS when its handshake is done.

Handshakes under way are bounded like connections, and the oldest one ends for the next.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

from duramen.server.sight.http_limits import HttpLimits
from router.endpoints.resp.bounds.tls_handshakes import TlsHandshakes

__all__ = ["Connected", "HttpListener"]

_BACKLOG: Final = 128
"""Connections that the kernel keeps until they are accepted."""

Connected = Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]
"""Hears of a client that has connected."""


class HttpListener:
    """`open()` listens, `close()` ends it. Belongs to one event loop."""

    def __init__(self) -> None:
        self._server: asyncio.Server | None = None
        self._sockets: list[socket.socket] = []
        self._handshakes: list[TlsHandshakes] = []

    @classmethod
    async def open(
        cls, connected: Connected, host: str, port: int, *, tls: ssl.SSLContext | None, limits: HttpLimits
    ) -> HttpListener:
        """Listen at every address of `host`. Raises `OSError`."""
        made, loop = cls(), asyncio.get_running_loop()
        if tls is None:
            made._server = await asyncio.start_server(connected, host, port, limit=limits.head_bytes_max)
            return made

        def protocol() -> asyncio.StreamReaderProtocol:
            reader = asyncio.StreamReader(limit=limits.head_bytes_max, loop=loop)
            return asyncio.StreamReaderProtocol(reader, connected, loop=loop)

        made._sockets = await _listening(host, port)
        for each in made._sockets:
            begun = TlsHandshakes(
                each, tls, protocol, handshake_s=limits.timeout_s, most=limits.connections_max // len(made._sockets)
            )
            made._handshakes.append(begun)
            begun.start()
        return made

    @property
    def port(self) -> int:
        """The port it listens on."""
        first = next(iter(self._sockets), None) if self._server is None else self._server.sockets[0]
        assert first is not None, "the port of an endpoint that does not listen"
        return int(first.getsockname()[1])

    def close(self) -> list[asyncio.Task[None]]:
        """Listen no longer; connections that were handed on stay. Returns the handshakes that end now. Idempotent."""
        if self._server is not None:
            self._server.close()
        ending = [task for each in self._handshakes for task in each.under_way]
        for each in self._handshakes:
            each.close()
        self._handshakes.clear()
        for listening in self._sockets:
            listening.close()
        return ending


async def _listening(host: str, port: int) -> list[socket.socket]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    with ExitStack() as undo:
        sockets: list[socket.socket] = []
        for family, kind, protocol, _, address in dict.fromkeys(found):
            made = undo.enter_context(socket.socket(family, kind, protocol))
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            made.bind(address)
            made.listen(_BACKLOG)
            made.setblocking(False)
            sockets.append(made)
        undo.pop_all()
        return sockets
