"""A floor: `grpc.aio` that moves bytes and does nothing with them. The ceiling of any server built on it.

Run as a program (`python -m bench.drivers.grpc_echo PORT`) it is the server.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import grpc.aio

from bench.server_process import ServerProcess, free_port

__all__ = ["GrpcEcho"]


class GrpcEcho:
    """Sends what a put would send and what a get would return, and gets it back. Nothing is stored, nothing decoded.

    So that a get returns what was put, like everybody's, the values are remembered on this side of the wire.
    """

    def __init__(self) -> None:
        self.version = f"grpcio {grpc.__version__}"
        self.note = "no storage: raw bytes to another process and back"
        self._values: dict[bytes, bytes] = {}
        self._server: ServerProcess | None = None
        self._channel: grpc.aio.Channel | None = None

    @property
    def server_pid(self) -> int:
        assert self._server is not None, "asked before start"
        return self._server.pid

    async def start(self, folder: Path) -> None:
        port = free_port()
        command = [sys.executable, "-m", "bench.drivers.grpc_echo", str(port)]
        self._server = await ServerProcess.start(command, port=port, folder=folder)
        self._channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
        self._echo = self._channel.unary_unary("/bench.Echo/Echo", None, None)

    async def settle(self) -> None:
        return None

    async def stop(self) -> None:
        if self._channel is not None:
            await self._channel.close(None)
        if self._server is not None:
            await self._server.stop()

    async def put(self, key: bytes, value: bytes) -> None:
        await self._echo(key + value)

    async def get(self, key: bytes) -> bytes | None:
        value: bytes = await self._echo(self._values[key])
        return value

    async def put_many(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        self._values.update(pairs)
        await self._echo(b"".join([key + value for key, value in pairs]))

    async def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        values: list[bytes | None] = [self._values[key] for key in keys]
        await self._echo(b"".join([value for value in values if value is not None]))
        return values


async def _serve(port: int) -> None:
    async def echo(request: bytes, _context: object) -> bytes:
        return request

    server = grpc.aio.server()
    handlers = {"Echo": grpc.unary_unary_rpc_method_handler(echo)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench.Echo", handlers),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(int(sys.argv[1])))
