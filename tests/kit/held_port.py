"""A port of 127.0.0.1 that stays with a test while its server is down."""

from __future__ import annotations

import socket

__all__ = ["HeldPort"]


class HeldPort:
    """Nobody else is given `number` until `close`, whether or not somebody listens on it.

    A port that was only probed, or whose server was killed, goes to the process that asks the kernel next. This one
    stays bound to a socket that never listens. The kernel neither gives such a port to a socket that asks for any, nor
    makes it the source of a connection. A server that names it may listen on it, if it sets `SO_REUSEADDR` as servers
    do; while none listens, connections are refused.
    """

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.number = int(self._socket.getsockname()[1])

    def close(self) -> None:
        """Let go of it. Idempotent."""
        self._socket.close()

    def __enter__(self) -> HeldPort:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
