"""The Python client of Redis, as both servers that speak its protocol are driven by it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Any, Final, Self

from redis.asyncio import Redis as Client

from bench.server_process import ServerProcess

__all__ = ["CONNECTIONS", "RespClients", "RespDriver"]

CONNECTIONS: Final = 64
"""Connections, each a client of its own, that callers take in turn; of 1, 16, 64 and 256 the fastest, put and get."""


class RespClients:
    """redis-py's asyncio client as it comes: a connection carries one command at a time.

    The client's own pool (`BlockingConnectionPool`) gives a connection to the caller that just returned it: with fewer
    connections than callers most callers starve, and with as many it is slower than single-connection clients taken in
    turn, whose locks are fair.
    """

    def __init__(self, clients: Sequence[Any]) -> None:
        """`clients`: at least one, connected. redis-py's commands are typed as sync-or-async, hence `Any`."""
        self._clients = clients
        self.next: Callable[[], Any] = cycle(clients).__next__
        """The client whose turn it is."""

    @classmethod
    async def connect(cls, port: int, *, connections: int, **options: Any) -> Self:
        """Open that many connections to `127.0.0.1:port`; all of them are established when this returns. `options`
        are the client's: TLS, a user.
        """
        clients: list[Any] = []
        try:
            for _ in range(connections):
                client = Client(
                    host="127.0.0.1", port=port, single_connection_client=True, socket_timeout=None, **options
                )
                clients.append(await client.initialize())
        except BaseException:
            await _close(clients)
            raise
        return cls(clients)

    async def close(self) -> None:
        await _close(self._clients)

    async def put(self, key: bytes, value: bytes) -> None:
        await self.next().set(key, value)

    async def get(self, key: bytes) -> bytes | None:
        value: bytes | None = await self.next().get(key)
        return value

    async def put_many(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        await self.next().mset(dict(pairs))

    async def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        values: list[bytes | None] = await self.next().mget(keys)
        return values


async def _close(clients: Sequence[Any]) -> None:
    for client in clients:
        await client.aclose()


class RespDriver:
    """What drivers of servers that speak the Redis protocol have in common, from their start on."""

    def __init__(self) -> None:
        self._server: ServerProcess | None = None
        self._clients: RespClients | None = None

    @property
    def server_pid(self) -> int:
        assert self._server is not None, "asked before start"
        return self._server.pid

    @property
    def port(self) -> int:
        assert self._server is not None, "asked before start"
        return self._server.port

    @property
    def access(self) -> tuple[str, ...]:
        return ()

    async def settle(self) -> None:
        return None

    async def stop(self) -> None:
        if self._clients is not None:
            await self._clients.close()
        if self._server is not None:
            await self._server.stop()

    async def put(self, key: bytes, value: bytes) -> None:
        await self._connected().put(key, value)

    async def get(self, key: bytes) -> bytes | None:
        return await self._connected().get(key)

    async def put_many(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        await self._connected().put_many(pairs)

    async def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return await self._connected().get_many(keys)

    def _connected(self) -> RespClients:
        assert self._clients is not None, "called before start"
        return self._clients
