"""Lingering close (nginx's term): a connection ends so that its last reply arrives.

A kernel that closes a socket with bytes that nobody read, or that gets bytes for a closed one, answers with a reset; a
reset makes the client's kernel forget what the client has not read yet, the last reply among it (RFC 9293, 3.10.4;
RFC 1122, 4.2.2.13). So a connection ends in steps: the reply is written, the outgoing direction is shut down, what the
client still sends is read and thrown away, and the socket is closed when the client has ended its direction too, or
after `LINGER_S`.

With TLS the transport does the same by `close_notify`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from log_tier.concurrency.descriptors import descriptor_shares

__all__ = ["LINGERING_MAX", "LINGER_S", "LingeringClose"]

LINGER_S: Final = 5.0
"""Time for a client to take its last replies and to end its direction."""

LINGERING_MAX: Final = 256
"""Connections that end at once. Each still has a descriptor; one more is closed without waiting for its client."""


def _room() -> int:
    """How many connections may linger at once: each holds a descriptor that the log or an index may need."""
    return min(LINGERING_MAX, descriptor_shares().resp_connections // 4)


class LingeringClose(asyncio.Protocol):
    """Takes the place of a connection's protocol when nothing it sends counts any more. `begin` makes one."""

    def __init__(self, transport: asyncio.Transport, lost: Callable[[Exception | None], None]) -> None:
        self._transport = transport
        self._lost = lost
        self._patience: asyncio.TimerHandle
        self._others: set[LingeringClose]

    @classmethod
    def begin(
        cls,
        transport: asyncio.Transport,
        lost: Callable[[Exception | None], None],
        others: set[LingeringClose],
        *,
        ended: bool = False,
    ) -> None:
        """End a connection whose last reply was written.

        `lost`: called when it is closed; `others`: of the same endpoint; `ended`: the client has ended its direction.
        """
        if ended or transport.get_extra_info("sslcontext") is not None or len(others) >= _room():
            if transport.get_write_buffer_size():
                asyncio.get_running_loop().call_later(LINGER_S, transport.abort)
            transport.close()
            return
        closing = cls(transport, lost)
        closing._others = others
        others.add(closing)
        closing._patience = asyncio.get_running_loop().call_later(LINGER_S, transport.abort)
        transport.set_protocol(closing)
        transport.write_eof()
        transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        """Discard what the client sent before it saw that the connection ends."""

    def eof_received(self) -> bool:
        """The client has ended its direction, having read its replies or not: the transport closes."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is closed."""
        self._patience.cancel()
        self._others.discard(self)
        self._lost(error)

    def close(self) -> None:
        """The server stops: wait no longer."""
        self._transport.close()
