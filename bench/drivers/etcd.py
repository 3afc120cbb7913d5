"""etcd, one member, through `grpc.aio`."""

from __future__ import annotations

import subprocess
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any, Final

import grpc.aio

from bench.drivers.etcd_pb2 import (
    PutRequest,
    PutResponse,
    RangeRequest,
    RangeResponse,
    RequestOp,
    TxnRequest,
    TxnResponse,
)
from bench.server_process import ServerProcess, free_port
from bench.workload import find_binary

__all__ = ["Etcd"]

CHANNELS: Final = 4
"""Connections to etcd; calls take them in turn. Of 1, 2 and 4: no difference for puts, 4 somewhat better for gets."""

_Call = Callable[[Any], Awaitable[Any]]


class Etcd:
    """etcd with its defaults: a put is acknowledged once the write-ahead log is synced; many puts share a sync.

    Reads are serializable (answered from the member's own state) unless `linearizable`. Serializable is the faster mode
    and on one member it loses nothing that a client could notice.
    """

    def __init__(self, *, linearizable: bool = False, channels: int = CHANNELS) -> None:
        self.version = ""
        self._channel_count = channels
        self._serializable = not linearizable
        self.note = (
            f"fsync before every acknowledgement; {'linearizable' if linearizable else 'serializable'} reads; "
            f"grpc.aio, {channels} channel(s); many = one Txn"
        )
        self._folder = Path()
        self._server: ServerProcess | None = None
        self._channels: list[grpc.aio.Channel] = []

    @property
    def server_pid(self) -> int:
        assert self._server is not None, "asked before start"
        return self._server.pid

    @property
    def port(self) -> int:
        assert self._server is not None, "asked before start"
        return self._server.port

    async def start(self, folder: Path) -> None:
        self._folder = folder
        binary = find_binary("etcd")
        assert binary is not None, "a side runs only where nothing is missing"
        said = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout  # noqa: ASYNC221
        self.version = f"etcd {said.split()[2]}"
        client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self._server = await ServerProcess.start(
            [
                binary,
                f"--data-dir={folder / 'etcd'}",
                f"--listen-client-urls={client}",
                f"--advertise-client-urls={client}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=default={peer}",
                "--log-level=error",
                "--quota-backend-bytes=8589934592",
            ],
            port=int(client.rpartition(":")[2]),
            folder=folder,
        )
        metadata = await self._log_in(client)
        puts, gets, transactions = [], [], []
        for number in range(self._channel_count):
            # Without an option that differs, gRPC gives equal channels one connection.
            channel = grpc.aio.insecure_channel(client.removeprefix("http://"), options=[("bench.channel", number)])
            self._channels.append(channel)
            puts.append(_method(channel, "Put", PutResponse, metadata))
            gets.append(_method(channel, "Range", RangeResponse, metadata))
            transactions.append(_method(channel, "Txn", TxnResponse, metadata))
        self._put, self._range, self._txn = cycle(puts).__next__, cycle(gets).__next__, cycle(transactions).__next__
        # Also a read that is answered without a quorum can hang until the member has elected itself, for a second.
        await self._range()(RangeRequest(key=b"absent"))

    async def _log_in(self, client: str) -> tuple[tuple[str, str], ...]:
        """The metadata of every call, once the server at the URL `client` listens."""
        return ()

    async def settle(self) -> None:
        """Restart: a member that has just taken a bulk load copies that load's write buffer for every read.

        Measured with 256 callers: 2.6 k gets a second without, 23 k with.
        """
        await self.stop()
        await self.start(self._folder)

    async def stop(self) -> None:
        for channel in self._channels:
            await channel.close(None)
        self._channels.clear()
        if self._server is not None:
            await self._server.stop()

    async def put(self, key: bytes, value: bytes) -> None:
        await self._put()(PutRequest(key=key, value=value))

    async def get(self, key: bytes) -> bytes | None:
        found = (await self._range()(RangeRequest(key=key, serializable=self._serializable))).kvs
        return found[0].value if found else None

    async def put_many(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        operations = [RequestOp(request_put=PutRequest(key=key, value=value)) for key, value in pairs]
        done = await self._txn()(TxnRequest(success=operations))
        assert done.succeeded, "a transaction without a condition takes its success branch"

    async def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        operations = [RequestOp(request_range=RangeRequest(key=key, serializable=self._serializable)) for key in keys]
        done = await self._txn()(TxnRequest(success=operations))
        found = [answer.response_range.kvs for answer in done.responses]
        return [kvs[0].value if kvs else None for kvs in found]


def _method(channel: grpc.aio.Channel, name: str, response: Any, metadata: tuple[tuple[str, str], ...]) -> _Call:
    call: Callable[..., Awaitable[Any]] = channel.unary_unary(
        f"/etcdserverpb.KV/{name}",
        request_serializer=lambda request: request.SerializeToString(),
        response_deserializer=response.FromString,
    )
    return partial(call, metadata=metadata) if metadata else call
