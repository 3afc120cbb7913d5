"""NATS JetStream's key-value bucket, one server, file storage, through nats-py."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import nats
from nats.aio.client import Client
from nats.js.api import KeyValueConfig, StorageType
from nats.js.errors import KeyNotFoundError
from nats.js.kv import KeyValue

from bench.server_process import ServerProcess, free_port
from bench.workload import find_binary

__all__ = ["Nats"]

DIRECT_GET: Final = True
"""Reads answered by the stream without passing through JetStream's API queue: the faster of the two that there are."""


class Nats:
    """One connection, which nats-py multiplexes by itself; a bucket with a history of one.

    JetStream syncs its files every two minutes by default, so an acknowledged put can be lost with the machine. Servers
    that know `sync_interval: always` are started with it. Whether this one does is asked of the server itself (a check
    of the configuration, `nats-server -t`); where it does not, its puts are **not** durable and the report says so.
    """

    def __init__(self) -> None:
        self.version = ""
        self.note = ""
        self._server: ServerProcess | None = None
        self._client: Client | None = None
        self._bucket: KeyValue | None = None

    @property
    def server_pid(self) -> int:
        assert self._server is not None, "asked before start"
        return self._server.pid

    async def start(self, folder: Path) -> None:
        binary = find_binary("nats-server")
        assert binary is not None, "a side runs only where nothing is missing"
        said = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout  # noqa: ASYNC221
        self.version = f"NATS {said.split()[-1].removeprefix('v')}"
        port = free_port()
        configuration = folder / "nats.conf"
        _write_configuration(configuration, port=port, synced=True)
        synced = subprocess.run([binary, "-t", "-c", configuration], capture_output=True, check=False).returncode == 0  # noqa: ASYNC221
        if not synced:
            _write_configuration(configuration, port=port, synced=False)
        durability = (
            "sync_interval: always"
            if synced
            else "NO fsync before an acknowledgement (this version knows no sync_interval: always)"
        )
        self.note = f"{durability}; nats-py, one connection, direct gets; many = concurrent single calls"
        self._server = await ServerProcess.start([binary, "-c", str(configuration)], port=port, folder=folder)
        self._client = await nats.connect(f"nats://127.0.0.1:{port}", allow_reconnect=False, pending_size=64 << 20)
        context = self._client.jetstream(timeout=60)
        self._bucket = await context.create_key_value(
            KeyValueConfig(bucket="bench", history=1, storage=StorageType.FILE, direct=DIRECT_GET)
        )

    async def settle(self) -> None:
        return None

    async def stop(self) -> None:
        if self._client is not None:
            await self._client.close()
        if self._server is not None:
            await self._server.stop()

    async def put(self, key: bytes, value: bytes) -> None:
        assert self._bucket is not None, "put before start"
        await self._bucket.put(key.decode("ascii"), value)

    async def get(self, key: bytes) -> bytes | None:
        assert self._bucket is not None, "get before start"
        try:
            value: bytes | None = (await self._bucket.get(key.decode("ascii"))).value
        except KeyNotFoundError:
            return None
        return value

    async def put_many(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        await asyncio.gather(*(self.put(key, value) for key, value in pairs))

    async def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return await asyncio.gather(*(self.get(key) for key in keys))


def _write_configuration(file: Path, *, port: int, synced: bool) -> None:
    sync = "sync_interval: always" if synced else ""
    file.write_text(
        f"listen: 127.0.0.1:{port}\n"
        f'jetstream {{ store_dir: "{file.parent / "jetstream"}", max_file_store: 64GB, {sync} }}\n'
    )
