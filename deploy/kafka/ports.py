"""TCP ports on loopback that stay ours while their process is down."""

from __future__ import annotations

import random
import socket
from types import TracebackType
from typing import Final

__all__ = ["HOST", "ReservedPorts", "is_free"]

HOST: Final = "127.0.0.1"

# Below the ports that Linux gives to outgoing connections (32768 and up). A port from there can be taken by any client
# while its broker is down; worse, a client that keeps trying it can end up connected to itself.
_FIRST: Final = 20_000
_END: Final = 32_000


def is_free(port: int) -> bool:
    """Whether a server could listen on `HOST`:`port` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


class ReservedPorts:
    """`count` free ports that no other `ReservedPorts` on this machine has, until `close` or the process ends.

    The port itself cannot be held: its broker must bind it. An abstract Unix socket named after it is held instead.
    """

    def __init__(self, count: int) -> None:
        self.numbers: list[int] = []
        self._locks: list[socket.socket] = []
        for port in random.sample(range(_FIRST, _END), _END - _FIRST):
            if len(self.numbers) == count:
                return
            lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            try:
                lock.bind(f"\0duramen-kafka-port-{port}")
            except OSError:
                lock.close()
                continue
            if is_free(port):
                self.numbers.append(port)
                self._locks.append(lock)
            else:
                lock.close()
        self.close()
        raise OSError(f"{count} ports are wanted and {len(self.numbers)} of {_FIRST}..{_END - 1} are free")

    def close(self) -> None:
        for lock in self._locks:
            lock.close()
        self._locks.clear()

    def __enter__(self) -> ReservedPorts:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
