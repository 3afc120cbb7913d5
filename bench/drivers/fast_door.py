"""Duramen through its fast door, by the same Python client that drives Redis."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from bench.drivers.resp_clients import CONNECTIONS, RespClients
from bench.server_process import ServerProcess, free_port

__all__ = ["FastDoor"]


class FastDoor:
    """`duramen up --resp-port` in a process of its own, in the table that the door itself makes: one partition."""

    def __init__(self) -> None:
        self.version = f"Duramen {version('duramen')}"
        self.note = (
            "the fast door: fdatasync before every acknowledgement, session reads, one partition; redis.asyncio with "
            f"hiredis, {CONNECTIONS} connections; many = MSET / MGET"
        )
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

    async def start(self, folder: Path) -> None:
        port = free_port()
        program = str(Path(sys.executable).with_name("duramen"))
        command = [program, "up", "--data", str(folder / "duramen"), "--port", "0", "--resp-port", str(port)]
        self._server = await ServerProcess.start(command, port=port, folder=folder)
        self._clients = await RespClients.connect(port, connections=CONNECTIONS)

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
