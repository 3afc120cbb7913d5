"""HTTP/2 as a hostile client of gRPC speaks it: calls that begin, and messages that come as slowly as a test likes.

Only what gRPC's server needs to hear: literal headers, data within its windows, answers to pings and settings.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from typing import Final

from kit.deadlines import patience_s

__all__ = ["RawHttp2"]

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _WINDOW = 0, 1, 3, 4, 6, 8
_ACK, _END_STREAM, _END_HEADERS = 1, 1, 4
_FRAME_BYTES_MAX: Final = 16_384


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def _literal(name: str, value: str) -> bytes:
    """A header that is not indexed; no name or value has more than 126 bytes."""
    return b"\0" + b"".join(bytes((len(text),)) + text.encode() for text in (name, value))


class RawHttp2:
    """A connection. Its methods block."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=patience_s(20))
        self.ended: set[int] = set()
        """Streams that the server has ended."""
        self._received = b""
        self._next = 1
        self._initial = self._window = 65_535
        self._windows: dict[int, int] = {}
        self.socket.sendall(_PREFACE + _frame(_SETTINGS, 0, 0, b""))

    def close(self) -> None:
        self.socket.close()

    def begin(self, path: str, size: int) -> int:
        """Begin a call whose message will have `size` bytes, and send the head of that; its stream."""
        stream, self._next = self._next, self._next + 2
        self._windows[stream] = self._initial
        fixed = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "localhost", "te": "trailers"}
        headers = {**fixed, "content-type": "application/grpc"}
        block = b"".join(_literal(name, value) for name, value in headers.items())
        self.socket.sendall(_frame(_HEADERS, _END_HEADERS, stream, block))
        self.send(stream, b"\0" + struct.pack(">I", size))
        return stream

    def send(self, stream: int, data: bytes) -> bool:
        """Send as the server's windows allow; False where it has ended the stream meanwhile."""
        sent, ends_s = 0, time.monotonic() + patience_s(20)
        while sent < len(data):
            self.take()
            size = min(_FRAME_BYTES_MAX, self._window, self._windows[stream], len(data) - sent)
            if stream in self.ended:
                return False
            if size <= 0:
                assert time.monotonic() < ends_s, f"the server takes no more of stream {stream}"
                self.take(0.05)
                continue
            self.socket.sendall(_frame(_DATA, 0, stream, data[sent : sent + size]))
            self._window -= size
            self._windows[stream] -= size
            sent += size
        return True

    def take(self, wait_s: float = 0.0) -> None:
        """Look at what the server has sent."""
        while select.select([self.socket], [], [], wait_s)[0]:
            piece = self.socket.recv(1 << 16)
            assert piece, "the server has ended the connection"
            self._received += piece
            wait_s = 0.0
            while len(self._received) >= 9 and len(self._received) >= 9 + (size := self._size()):
                kind, flags = self._received[3], self._received[4]
                stream = struct.unpack(">I", self._received[5:9])[0] & 0x7FFFFFFF
                payload, self._received = self._received[9 : 9 + size], self._received[9 + size :]
                self._learn(kind, flags, stream, payload)

    def _size(self) -> int:
        return int.from_bytes(self._received[:3], "big")

    def _learn(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == _WINDOW:
            grown = int.from_bytes(payload, "big")
            if stream:
                self._windows[stream] = self._windows.get(stream, 0) + grown
            else:
                self._window += grown
        elif kind == _SETTINGS and not flags & _ACK:
            for at in range(0, len(payload), 6):
                name, value = struct.unpack(">HI", payload[at : at + 6])
                if name == 4:
                    for each in self._windows:
                        self._windows[each] += value - self._initial
                    self._initial = value
            self.socket.sendall(_frame(_SETTINGS, _ACK, 0, b""))
        elif kind == _PING and not flags & _ACK:
            self.socket.sendall(_frame(_PING, _ACK, 0, payload))
        elif kind == _RESET or (kind == _HEADERS and flags & _END_STREAM):
            self.ended.add(stream)
