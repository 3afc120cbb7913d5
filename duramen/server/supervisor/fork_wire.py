"""What a supervisor and its fork server say to each other: a message is one JSON document, and descriptors with it.

    supervisor ──▶ {"request": 7, "arguments": ["serve", "log"], "environment": {…}}     its standard output and error
               ◀── {"request": 7, "pid": 4711}                                        the pidfd of the process
               ◀── {"pid": 4711, "code": -9}                                          when it has ended

The socket keeps messages apart (`SOCK_SEQPACKET`). Both ends are of one version: one starts the other.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from typing import Any, Final

__all__ = ["MESSAGE_BYTES", "receive_message", "send_message", "socket_pair"]

MESSAGE_BYTES: Final = 1 << 17
"""The longest message: the kernel takes one in a piece, and its buffer is twice as large."""

_DESCRIPTORS_MAX: Final = 2


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """The two ends of one connection."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send_message(at: socket.socket, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
    """Send one message. Raises `OSError` where it is longer than `MESSAGE_BYTES`, or nobody is there."""
    socket.send_fds(at, [json.dumps(message).encode()], descriptors)


def receive_message(at: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """The next message and its descriptors, which are the caller's to close; None: the other end is closed."""
    said, descriptors, _, _ = socket.recv_fds(at, MESSAGE_BYTES, _DESCRIPTORS_MAX, socket.MSG_CMSG_CLOEXEC)
    return (json.loads(said) if said else None), list(descriptors)
