"""The Redis protocol as a test needs it: bytes out, typed replies in, nothing hidden."""

from __future__ import annotations

import select
import socket
from typing import Any

from duramen.testing.machine.resp_words import RawError, Status, packed, read_reply
from kit.deadlines import patience_s

__all__ = ["Raw", "RawError", "Status", "packed", "read_reply"]


class Raw:
    """A blocking connection."""

    def __init__(self, address: tuple[str, int] | str, *, timeout: float = 20.0) -> None:
        timeout = patience_s(timeout)
        if isinstance(address, str):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(timeout)
            self.socket.connect(address)
        else:
            self.socket = socket.create_connection(address, timeout=timeout)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.data = b""

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def reply(self) -> Any:
        """The next reply. Raises `ConnectionError` where the server has ended the connection."""
        while True:
            try:
                found, after = read_reply(self.data)
            except IndexError:
                self._receive(len(self.data) // 2)
            else:
                self.data = self.data[after:]
                return found

    def _receive(self, wanted: int) -> None:
        """Wait for more, and take up to `wanted` bytes of what is there: a long reply is not parsed for each piece."""
        pieces = [self.socket.recv(1 << 16)]
        size = len(pieces[0])
        while pieces[-1] and size < wanted and select.select([self.socket], [], [], 0)[0]:
            pieces.append(self.socket.recv(1 << 20))
            size += len(pieces[-1])
        if not size:
            raise ConnectionError("the server has ended the connection")
        self.data += b"".join(pieces)

    def call(self, *words: bytes | str | int) -> Any:
        self.send(packed(*words))
        return self.reply()

    def ended(self) -> bool:
        """Wait until the server has ended the connection, and sent nothing more before."""
        try:
            return not self.data and self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
