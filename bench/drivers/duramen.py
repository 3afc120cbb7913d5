"""Duramen, through the interface that its users have: `duramen.aio` against `duramen up`, and `duramen.open`."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from bench.server_process import ServerProcess, free_port, program
from bench.workload import Needs

__all__ = ["EMBEDDED_NEEDS", "PARTITIONS", "SERVER_NEEDS", "TABLE", "Duramen", "DuramenEmbedded"]

PARTITIONS: Final = 4
"""Of the benchmark's table: what a user would take on one small machine."""

TABLE: Final = "bench"

SERVER_NEEDS: Final = Needs(modules=("duramen.aio:connect", "duramen.cli:main"))
EMBEDDED_NEEDS: Final = Needs(modules=("duramen:open",))


class Duramen:
    """`duramen up` in a process of its own; one client, whose concurrent calls it coalesces by itself."""

    def __init__(self) -> None:
        self.version = f"Duramen {version('duramen')}"
        self.note = f"fdatasync before every acknowledgement; session reads; {PARTITIONS} partitions, one connection"
        self._server: ServerProcess | None = None
        self._database: Any = None
        self.table: Any = None

    @property
    def server_pid(self) -> int:
        assert self._server is not None, "asked before start"
        return self._server.pid

    @property
    def address(self) -> str:
        assert self._server is not None, "asked before start"
        return f"127.0.0.1:{self._server.port}"

    async def start(self, folder: Path) -> None:
        port = free_port()
        command = [program("duramen"), "up", "--data", str(folder / "duramen"), "--port", str(port)]
        self._server = await ServerProcess.start([*command, *self._options(folder)], port=port, folder=folder)
        self._database = await self._connect(folder)
        self.table = self._database.table(TABLE)

    def _options(self, folder: Path) -> Sequence[str]:
        """More options of `duramen up`."""
        return ()

    async def _connect(self, folder: Path) -> Any:
        """A connection to a server that has the table."""
        database = await importlib.import_module("duramen.aio").connect(self.address)
        with suppress(importlib.import_module("duramen").TableExists):  # in the folder already
            await database.create_table(TABLE, partitions=PARTITIONS)
        return database

    async def settle(self) -> None:
        return None

    async def stop(self) -> None:
        if self._database is not None:
            await self._database.close()
        if self._server is not None:
            await self._server.stop()

    async def put(self, key: bytes, value: bytes) -> None:
        await self.table.put(key, value)

    async def get(self, key: bytes) -> bytes | None:
        value: bytes | None = await self.table.get(key)
        return value

    async def put_many(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        await self.table.put_many(pairs)

    async def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        values: list[bytes | None] = await self.table.get_many(keys)
        return values


class DuramenEmbedded:
    """`duramen.open(folder)`: the whole database in this process."""

    def __init__(self) -> None:
        self.version = f"Duramen {version('duramen')}"
        self.note = f"duramen.open, session reads, {PARTITIONS} partitions"
        self._database: Any = None
        self._table: Any = None

    def open(self, folder: Path) -> None:
        self._database = importlib.import_module("duramen").open(str(folder / "duramen"))
        self._table = self._database.create_table(TABLE, partitions=PARTITIONS)

    def load(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        for start in range(0, len(pairs), 1000):
            self._table.put_many(pairs[start : start + 1000])

    def get(self, key: bytes) -> bytes | None:
        value: bytes | None = self._table.get(key)
        return value

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
