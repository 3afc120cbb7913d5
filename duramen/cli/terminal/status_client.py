"""The documents of one server, its status and its slow calls, over one connection."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

__all__ = ["StatusClient", "asked_status"]


class StatusClient:
    """Asks one server. `StatusClient.connected()` makes one; gRPC is imported then."""

    def __init__(self, wire: Any, *, timeout: float) -> None:
        """`wire`: an open `log_tier.rpc.wire.Wire`; `timeout`: seconds for each call."""
        from log_tier.proto import cluster_pb2_grpc

        self._wire = wire
        self._stub: Any = cluster_pb2_grpc.ClusterStub(wire.channel)  # type: ignore[no-untyped-call]
        self._timeout = timeout

    @classmethod
    @asynccontextmanager
    async def connected(cls, at: str, *, timeout: float) -> AsyncIterator[StatusClient]:
        """A client of the server at `at` while the block runs. Nothing is sent before the first question."""
        from log_tier.rpc.wire import Wire

        wire = Wire(at)
        try:
            yield cls(wire, timeout=timeout)
        finally:
            await wire.close()

    async def slow_calls(self, count: int) -> dict[str, Any]:
        """The document of the slow calls, at most so many; 0: all. Raises as `ask`. One call; 0.3 KiB for each."""
        from json import loads

        from log_tier.proto import cluster_pb2

        request = cluster_pb2.SlowCallsRequest(count=count)
        reply = await self._wire.ask(self._stub.SlowCalls, request, timeout=self._timeout)
        document: dict[str, Any] = loads(reply.slow_calls)
        return document

    async def ask(self) -> dict[str, Any]:
        """The document. Raises what the server says, and `Disconnected`. One call; 0.2 KiB for each partition."""
        from json import loads

        from log_tier.proto import cluster_pb2

        reply = await self._wire.ask(self._stub.Status, cluster_pb2.ServerStatusRequest(), timeout=self._timeout)
        document: dict[str, Any] = loads(reply.status)
        return document


def asked_status(at: str, timeout: float) -> dict[str, Any]:
    """The status document of the server at `at`, for a command. Raises what the server says, and `Disconnected`."""
    import asyncio

    async def asked() -> dict[str, Any]:
        async with StatusClient.connected(at, timeout=timeout) as client:
            return await client.ask()

    return asyncio.run(asked())
