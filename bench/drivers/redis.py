"""Redis with an append-only file synced before every acknowledgement, through `redis.asyncio` with hiredis."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, Final

from redis.asyncio import Redis as Client

from bench.server_process import ServerProcess, free_port
from bench.workload import find_binary

__all__ = ["Redis", "RedisPipelined"]

CONNECTIONS: Final = 64
"""Connections, each a client of its own, that callers take in turn; of 1, 16, 64 and 256 the fastest, put and get."""

PIPELINE_LENGTH_MAX: Final = 256
"""Commands that leave in one pipeline: all callers of the widest workload."""


class Redis:
    """Redis through its Python client as the client comes: a connection carries one command at a time.

    The client's own pool (`BlockingConnectionPool`) gives a connection back to whoever just returned it: with fewer
    connections than callers most callers starve, and with as many it is slower than single-connection clients taken in
    turn, whose locks are fair.
    """

    def __init__(self, *, connections: int = CONNECTIONS) -> None:
        self.version = ""
        self.note = f"appendfsync always; redis.asyncio with hiredis, {connections} connections; many = MSET / MGET"
        self._connections = connections
        self._server: ServerProcess | None = None
        self._clients: list[Any] = []  # redis-py's commands are typed as sync-or-async

    @property
    def server_pid(self) -> int:
        assert self._server is not None, "asked before start"
        return self._server.pid

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
            ],
            port=port,
            folder=folder,
        )
        for _ in range(self._connections):
            client = Client(host="127.0.0.1", port=port, single_connection_client=True, socket_timeout=None)
            self._clients.append(await client.initialize())
        self._client = cycle(self._clients).__next__
        self.version = f"Redis {(await self._client().info('server'))['redis_version']}"

    async def settle(self) -> None:
        return None

    async def stop(self) -> None:
        for client in self._clients:
            await client.aclose()
        if self._server is not None:
            await self._server.stop()

    async def put(self, key: bytes, value: bytes) -> None:
        await self._client().set(key, value)

    async def get(self, key: bytes) -> bytes | None:
        value: bytes | None = await self._client().get(key)
        return value

    async def put_many(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        await self._client().mset(dict(pairs))

    async def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        values: list[bytes | None] = await self._client().mget(keys)
        return values


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
                pipeline = self._client().pipeline(transaction=False)
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
