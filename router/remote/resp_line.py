"""A connection of an event loop to a server's RESP endpoint: commands leave as they come, replies come in their order.

Whatever goes wrong ends the line, and with it all that still waits: a late reply must not answer the next command.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import Any, Final, cast

from log_tier.concurrency.forking import IMPORTING
from router.remote.resp_place import RespPlace

__all__ = ["RespLine", "import_line_modules", "open_line"]

CONNECT_S: Final = 0.5
"""A socket of this machine is there, or it is not; a server that has just answered by gRPC is there by TCP as well."""


def import_line_modules() -> Any:
    """`hiredis`. Before a line needs it, which may be in a process that was forked from a thread's import."""
    with IMPORTING:
        import encodings.idna  # noqa: F401 - which `socket.getaddrinfo` imports

        import hiredis
    return hiredis


class RespLine(asyncio.Protocol):
    """Belongs to one event loop. `end` closes it."""

    def __init__(self) -> None:
        hiredis = import_line_modules()
        self._reader: Any = hiredis.Reader()
        self._pack: Any = hiredis.pack_command
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self.is_over = False
        """Nothing can be asked any more."""
        self.closed: asyncio.Future[None] = self._loop.create_future()
        """Done when its socket is closed."""

    @property
    def waiting(self) -> int:
        """Commands without a reply."""
        return len(self._waiting)

    def ask(self, *words: bytes, timeout: float) -> asyncio.Future[Any]:
        """Send a command; the future gets its reply, an error as a value, or raises `ConnectionError`. After `timeout`
        seconds without a reply the line ends, also where the caller has given the future up.
        """
        future: asyncio.Future[Any] = self._loop.create_future()
        if self._transport is None or self.is_over:
            future.set_exception(ConnectionError("the line is over"))
            return future
        self._waiting.append(future)
        self._transport.write(self._pack(words))
        late = self._loop.call_later(timeout, self._late, future)
        future.add_done_callback(lambda asked: None if asked.cancelled() else late.cancel())
        return future

    def _late(self, future: asyncio.Future[Any]) -> None:
        if future in self._waiting:
            self.end()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        from hiredis import ProtocolError

        try:
            self._reader.feed(data)
            while (reply := self._reader.gets()) is not False:
                future = self._waiting.popleft()
                if not future.done():  # or its caller was cancelled
                    future.set_result(reply)
        except (ProtocolError, IndexError):  # nobody asked for that
            self.end()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail()
        if not self.closed.done():
            self.closed.set_result(None)

    def end(self) -> None:
        """Close it; what waits raises `ConnectionError`. Idempotent."""
        self._fail()
        if self._transport is not None:
            self._transport.abort()

    def _fail(self) -> None:
        self.is_over = True
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_exception(ConnectionError("the server has ended the connection, or does not answer"))


async def open_line(place: RespPlace, *, secured: bool) -> RespLine | None:
    """A line to an endpoint: by the socket of the machine where the server is on it, else by plain TCP where the
    client's channels are plain as well (not `secured`). None: there is no way.
    """
    if place.machine_socket:
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(CONNECT_S):
                return await _by_machine_socket(place)
    if place.port and not secured and not place.secured:
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(CONNECT_S):
                _, line = await asyncio.get_running_loop().create_connection(RespLine, place.host, place.port)
                return line
    return None


async def _by_machine_socket(place: RespPlace) -> RespLine:
    """Raises `OSError` where it is not there, or another user listens at it."""
    from log_tier.privacy.machine_socket import MachineSocket, connect_machine_socket

    # Without a timeout nothing is waited for: a server whose queue of connections is full refuses.
    made = connect_machine_socket(MachineSocket(place.machine_socket, place.owner), 0)
    try:
        _, line = await asyncio.get_running_loop().create_unix_connection(RespLine, sock=made)
    except BaseException:
        made.close()
        raise
    return line
