"""The floor of a server on Python's event loop: uvloop, and the same reply to whatever comes, unread.

A chunk that arrives is one request with one connection's command in it, and is answered with one value of 100 bytes. No
parser, no lookup, no table: what is left between this and the RESP endpoint is the endpoint's.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any, Final

from bench.server_process import ServerProcess, free_port

__all__ = ["FixedReply"]

_REPLY: Final = b"$100\r\n" + b"v" * 100 + b"\r\n"


class FixedReply:
    """That server in a process of its own. It holds nothing, so it is driven by `redis-benchmark` alone."""

    version = "uvloop"
    note = "answers every chunk with the same value, whatever it says"

    def __init__(self) -> None:
        self.port = free_port()
        self._server: ServerProcess | None = None

    async def start(self, folder: Path) -> None:
        """Start it on its port."""
        command = [sys.executable, "-m", "bench.drivers.fixed_reply", str(self.port)]
        self._server = await ServerProcess.start(command, port=self.port, folder=folder)

    async def stop(self) -> None:
        """End it."""
        if self._server is not None:
            await self._server.stop()


class _Answering(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._write: Any = transport.write  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self._write(_REPLY)


async def _serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(_Answering, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    import uvloop

    uvloop.run(_serve(int(sys.argv[1])))
