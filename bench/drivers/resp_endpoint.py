"""Duramen through its RESP endpoint, by the same Python client that drives Redis."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from bench.drivers.resp_clients import CONNECTIONS, RespClients, RespDriver
from bench.server_process import ServerProcess, free_port, program

__all__ = ["RespEndpoint"]


class RespEndpoint(RespDriver):
    """`duramen up --resp-port` in a process of its own, in the table that the endpoint itself makes: one partition."""

    def __init__(self, *, readers: int = 0) -> None:
        super().__init__()
        self._readers = readers
        self.grpc_port = 0
        """Where `duramen.connect` goes."""
        self.version = f"Duramen {version('duramen')}"
        self.note = (
            "the RESP endpoint: fdatasync before every acknowledgement, session reads, one partition; redis.asyncio "
            f"with hiredis, {CONNECTIONS} connections; many = MSET / MGET"
            + (f"; {readers} reader processes" if readers else "")
        )

    async def start(self, folder: Path) -> None:
        port, self.grpc_port = free_port(), free_port()
        command = [program("duramen"), "up", "--data", str(folder / "duramen"), "--port", str(self.grpc_port)]
        command += ["--resp-port", str(port), "--resp-readers", str(self._readers), *self._options(folder)]
        self._server = await ServerProcess.start(command, port=port, folder=folder)
        self._clients = await self._connect(folder)

    def _options(self, folder: Path) -> Sequence[str]:
        """More options of `duramen up`."""
        return ()

    async def _connect(self, folder: Path) -> RespClients:
        return await RespClients.connect(self.port, connections=CONNECTIONS)
