"""The server's side of a reader process's connection, and what is sent to it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final, Protocol, cast

from log_tier.concurrency.backoff import Backoff
from router.endpoints.resp.command_spec import CommandSpec
from router.endpoints.resp.wire.fallback_parser import RespCommand
from router.endpoints.resp.wire.limits import OUTPUT_PAUSE_BYTES

__all__ = ["UpstreamConnection", "UpstreamOwner", "connect_upstream", "has_one_line", "packed"]

# The server may be busy accepting many at once.
_CONNECT_TIMEOUT_S: Final = 10.0
_PAUSE_FIRST_S: Final = 0.02
_PAUSE_MAX_S: Final = 0.5

# Their replies have one line, whatever becomes of them.
_LINES: Final = frozenset(
    {
        *("set", "setex", "psetex", "mset", "msetnx", "setnx", "incr", "incrby", "decr", "decrby", "append"),
        *("setrange", "del", "unlink", "persist", "expire", "pexpire", "expireat", "pexpireat"),
    }
)
_SET_WORDS: Final = 3
"""A SET with options may answer with a value."""


class UpstreamOwner(Protocol):
    """The client's side. See `ProxyConnection`."""

    def upstream_connected(self, upstream: UpstreamConnection) -> None:
        """The server is connected."""
        ...

    def upstream_received(self, data: bytes) -> None:
        """The server sent this."""
        ...

    def read(self) -> None:
        """The server takes more commands than before, or fewer: read on from the client, or not."""
        ...

    def close(self) -> None:
        """The server has ended the connection."""
        ...


class UpstreamConnection(asyncio.Protocol):
    """The server's side of a connection."""

    def __init__(self, owner: UpstreamOwner) -> None:
        self._owner = owner
        self.full = False
        """The upstream connection takes no more commands now."""
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=OUTPUT_PAUSE_BYTES)
        self._owner.upstream_connected(self)

    def data_received(self, data: bytes) -> None:
        self._owner.upstream_received(data)

    def pause_writing(self) -> None:
        self.full = True
        self._owner.read()

    def resume_writing(self) -> None:
        self.full = False
        self._owner.read()

    def connection_lost(self, error: Exception | None) -> None:
        self._owner.close()


async def connect_upstream(owner: UpstreamOwner, path: Path) -> OSError | None:
    """Connect to the server, which calls `owner.upstream_connected`; the last error, if it does not within 10 s."""
    loop = asyncio.get_running_loop()
    backoff = Backoff(_PAUSE_FIRST_S, _PAUSE_MAX_S, deadline_s=loop.time() + _CONNECT_TIMEOUT_S)
    while True:
        try:
            await loop.create_unix_connection(lambda: UpstreamConnection(owner), str(path))
        except OSError as error:
            if not await backoff.pause():
                return error
        else:
            return None


def has_one_line(spec: CommandSpec, command: RespCommand) -> bool:
    """Has the reply to a command one line, whatever becomes of it?"""
    return spec.name in _LINES and (spec.name != "set" or len(command) <= _SET_WORDS)


def packed(command: RespCommand) -> bytes:
    """A command in its canonical bytes."""
    return b"*%d\r\n%b" % (len(command), b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in command]))
