"""The Redis protocol as a test needs it: bytes out, typed replies in, nothing hidden."""

from __future__ import annotations

import select
import socket
from typing import Any, NamedTuple

from kit.deadlines import patience_s

__all__ = ["Raw", "RawError", "Status", "packed", "read_reply"]


class RawError(NamedTuple):
    """An error reply."""

    text: str


class Status(NamedTuple):
    """A simple string."""

    text: str


def packed(*words: bytes | str | int) -> bytes:
    """A command in its canonical bytes."""
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)


def read_reply(data: bytes, at: int = 0) -> tuple[Any, int]:
    """The reply at `at`, and where it ends. Raises `IndexError` where it is not complete."""
    end = data.find(b"\r\n", at)
    if end < 0:
        raise IndexError
    kind, head, after = data[at : at + 1], data[at + 1 : end], end + 2
    if kind == b"+":
        return Status(head.decode()), after
    if kind == b"-":
        return RawError(head.decode("latin-1")), after
    if kind == b":":
        return int(head), after
    if kind == b"_":
        return None, after
    if kind == b",":
        return float(head), after
    if kind == b"#":
        return head == b"t", after
    if kind == b"$":
        size = int(head)
        if size < 0:
            return None, after
        if len(data) < after + size + 2:
            raise IndexError
        return data[after : after + size], after + size + 2
    count = int(head)
    if count < 0:
        return None, after
    items = []
    for _ in range(count * (2 if kind == b"%" else 1)):
        item, after = read_reply(data, after)
        items.append(item)
    if kind == b"%":
        return dict(zip(items[::2], items[1::2], strict=True)), after
    assert kind in (b"*", b">", b"~"), data[at:]
    return items, after


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
