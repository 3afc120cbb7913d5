"""A server's socket for clients on its own machine: an abstract Unix socket of Linux, which is no file.

Nothing has to be removed after a kill, no path is too long, and a process in another network namespace (another
machine, most containers) does not find it. Its name is made of the data folder and of the server's gRPC port: the same
after a restart, another one for every other server, that of a copy of the folder included. Anybody can make a socket of
a name that is free, so a client looks whose process listens before it sends a byte. The server has said by gRPC whose.
"""

from __future__ import annotations

import hashlib
import os
import socket
import struct
import sys
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["MachineSocket", "bind_machine_socket", "connect_machine_socket", "machine_socket_of"]

_CREDENTIALS: Final = struct.Struct("3i")
"""Process, user and group, as `SO_PEERCRED` gives them."""


class MachineSocket(NamedTuple):
    """Where a server listens for clients on its own machine."""

    name: str
    """Behind the zero byte that makes it abstract."""
    owner: int
    """The user id of the server's process."""


def machine_socket_of(folder: Path, port: int) -> MachineSocket | None:
    """The socket of the server of a data folder, which is there, at a gRPC port. None: this is no Linux."""
    if sys.platform != "linux":
        return None
    found = folder.stat()
    place = f"{folder.resolve()}\0{found.st_dev}\0{found.st_ino}\0{port}"
    return MachineSocket(f"duramen-{hashlib.sha256(place.encode()).hexdigest()[:32]}", os.getuid())


def bind_machine_socket(place: MachineSocket, backlog: int) -> socket.socket:
    """A socket that listens there, without blocking. Raises `OSError` where there is another one of that name."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.bind(f"\0{place.name}")
        made.listen(backlog)
        made.setblocking(False)
    except BaseException:
        made.close()
        raise
    return made


def connect_machine_socket(place: MachineSocket, timeout: float) -> socket.socket:
    """A connection. Raises `OSError` where there is no such socket here, or another user listens at it."""
    if sys.platform != "linux":
        raise OSError("abstract sockets are Linux's")
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.settimeout(timeout)
        made.connect(f"\0{place.name}")
        credentials = made.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        _, owner, _ = _CREDENTIALS.unpack(credentials)
        if owner != place.owner:
            raise PermissionError(f"user {owner} listens there, and the server is user {place.owner}'s")
    except BaseException:
        made.close()
        raise
    return made
