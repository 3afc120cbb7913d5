"""Redis with an append-only file synced before every acknowledgement, through `redis.asyncio` with hiredis."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench.drivers.resp_clients import CONNECTIONS, RespClients, RespDriver
from bench.server_process import ServerProcess, free_port
from bench.workload import find_binary

__all__ = ["Redis", "RedisPipelined"]

PIPELINE_LENGTH_MAX: Final = 256
"""Commands that leave in one pipeline: all callers of the widest workload."""


class Redis(RespDriver):
    """Redis, one command at a time on each connection of its Python client (`RespClients`)."""

    def __init__(self, *, connections: int = CONNECTIONS) -> None:
        super().__init__()
        self.version = ""
        self.note = f"appendfsync always; redis.asyncio with hiredis, {connections} connections; many = MSET / MGET"
        self._connections = connections

    async def start(self, folder: Path) -> None:
        binary = find_binary("redis-server")
        assert binary is not None, "a side runs only where nothing is missing"
        port = free_port()
        self._server = await ServerProcess.start(
            [
                binary,
                *("--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder)),
                *("--appendonly", "yes", "--appendfsync", "always"),
                # No snapshots, and no rewriting of the file while the clock runs.
                *("--save", "", "--auto-aof-rewrite-percentage", "0"),
                *self._options(folder, port),
            ],
            port=port,
            folder=folder,
        )
        self._clients = await self._connect(port)
        self.version = f"Redis {(await self._clients.next().info('server'))['redis_version']}"

    def _options(self, folder: Path, port: int) -> Sequence[str]:
        """More options of the server; later ones count."""
        return ()

    async def _connect(self, port: int) -> RespClients:
        return await RespClients.connect(port, connections=self._connections)


class RedisPipelined(Redis):
    """The same Redis with concurrent calls gathered into pipelines over one connection.

    redis-py does not do this by itself; here a few lines do for Redis what Duramen's client does for its own calls:
    while one pipeline is in flight, new calls wait and leave together. It shows which part of the cost is the client's.
    """

    def __init__(self) -> None:
        super().__init__(connections=1)
        self.note = (
            "appendfsync always; redis.asyncio with hiredis, one connection, concurrent calls gathered into pipelines "
            "by the benchmark"
        )
        self._waiting: list[tuple[tuple[bytes, ...], asyncio.Future[Any]]] = []
        self._sender: asyncio.Task[None] | None = None

    async def put(self, key: bytes, value: bytes) -> None:
        await self._enqueue((b"SET", key, value))

    async def get(self, key: bytes) -> bytes | None:
        value: bytes | None = await self._enqueue((b"GET", key))
        return value

    def _enqueue(self, command: tuple[bytes, ...]) -> asyncio.Future[Any]:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((command, answer))
        if self._sender is None:
            self._sender = asyncio.create_task(self._send())
        return answer

    async def _send(self) -> None:
        try:
            while self._waiting:
                leaving = self._waiting[:PIPELINE_LENGTH_MAX]
                del self._waiting[:PIPELINE_LENGTH_MAX]
                pipeline = self._connected().next().pipeline(transaction=False)
                for command, _ in leaving:
                    pipeline.execute_command(*command)
                try:
                    values = await pipeline.execute()
                except BaseException as error:
                    for _, answer in leaving:
                        answer.set_exception(error)
                    raise
                for (_, answer), value in zip(leaving, values, strict=True):
                    answer.set_result(value)
        finally:
            self._sender = None
