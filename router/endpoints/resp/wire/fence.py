"""Fences: markers in an upstream connection's replies. A fence says that all earlier commands are answered, and reports
the state of the connection.

An upstream connection carries the replies that any client would get, and a reader process forwards them as they are.
To find the end of a reply a reader would have to parse it, and replies may have megabytes. So a reader that must know
when everything is answered sends one more command. The reply to it begins with 128 random bits that only the two
processes know; the reader finds the fence by them. The command's name is these bits, too, so no client can request a
fence.

    first       DURAMEN.STATE <secret: 32 hex digits> <address of the client>
    later       <secret>
    each answer +<secret> <plain 0 or 1> <protocol 2 or 3> <page, 10 digits> <trust, 10 digits> CR LF

Pure: bytes in, bytes and states out.
"""

from __future__ import annotations

import secrets
from typing import Final, NamedTuple

__all__ = [
    "STATE_COMMAND",
    "ConnectionState",
    "Fences",
    "encode_state",
    "first_question",
    "new_secret",
    "next_question",
]

STATE_COMMAND: Final = b"DURAMEN.STATE"

_SECRET_BYTES: Final = 32
_REST: Final = len(b" 1 2 0000000000 0000000000\r\n")


class ConnectionState(NamedTuple):
    """What a reader has to know of a connection."""

    plain: bool
    """Nothing about the connection is unusual: it has no transaction and no token, is authenticated, and may read the
    whole table."""
    protocol: int
    """2 or 3."""
    page: int
    """The number of the selected table's freshness page; 0: none, so every read needs the server."""
    trust: int = 0
    """The changes of users and grants that `plain` takes into account: see `data/trust_cell.py`."""


def new_secret() -> bytes:
    """The secret of one upstream connection: 128 random bits as 32 hex digits."""
    return secrets.token_hex(_SECRET_BYTES // 2).encode()


def first_question(secret: bytes, address: str) -> bytes:
    """The first command of an upstream connection: the secret of its fences, and the client's address."""
    words = (STATE_COMMAND, secret, address.encode())
    return b"*3\r\n" + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


def next_question(secret: bytes) -> bytes:
    """The command that asks for a fence behind everything that was sent before."""
    return b"*1\r\n$%d\r\n%b\r\n" % (len(secret), secret)


def encode_state(secret: bytes, state: ConnectionState) -> bytes:
    """The reply to both commands: a fence."""
    return b"+%b %d %d %010d %010d\r\n" % (secret, *state)


class Fences:
    """Takes the fences out of what an upstream connection sends, however it is cut."""

    __slots__ = ("_held", "_mark")

    def __init__(self, secret: bytes) -> None:
        self._mark = b"+" + secret
        self._held = b""

    def take(self, data: bytes) -> tuple[bytes, list[ConnectionState]]:
        """The bytes for the client, and the session states that the fences between them reported."""
        if self._held:
            data, self._held = self._held + data, b""
        mark = self._mark
        size = len(mark) + _REST
        states: list[ConnectionState] = []
        rest: list[bytes] = []
        at = 0
        while (place := data.find(mark, at)) >= 0:
            rest.append(data[at:place])
            if place + size > len(data):
                self._held = data[place:]
                return b"".join(rest), states
            plain, protocol, page, trust = data[place + len(mark) : place + size].split()
            states.append(ConnectionState(plain == b"1", int(protocol), int(page), int(trust)))
            at = place + size
        place = data.find(b"+", max(at, len(data) - len(mark) + 1))
        while place >= 0 and not mark.startswith(data[place:]):
            place = data.find(b"+", place + 1)
        if place >= 0:
            self._held = data[place:]  # perhaps the beginning of one
            data = data[:place]
        rest.append(data[at:] if at else data)
        return b"".join(rest) if len(rest) > 1 else rest[0], states
