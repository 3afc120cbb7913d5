"""What carries the calls of this process: gRPC's channels, and the seam at which a simulation puts its own network.

The transport belongs to the context (`contextvars`) that makes a connection, so that several simulated processes share
an event loop, each with its own end of the network; tasks inherit it. A real process never sets it.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Final, Protocol

from log_tier.rpc.channel import CHANNEL_OPTIONS
from log_tier.rpc.core import grpc_core
from log_tier.rpc.security import SECURITY, channel_credentials

__all__ = ["TRANSPORT", "GrpcTransport", "Transport"]


class Transport(Protocol):
    """Makes channels."""

    def channel(self, target: str) -> Any:
        """A channel to `host:port` as `grpc.aio.insecure_channel` makes one: it connects with the first call. Its
        calls fail with `grpc.aio.AioRpcError`."""
        ...


class GrpcTransport:
    """gRPC over TCP."""

    def channel(self, target: str) -> Any:
        """A channel of gRPC's core of this process, secured as its context says. Raises `CertificateInvalid`."""
        security = SECURITY.get()
        if security is None:
            return grpc_core().aio.insecure_channel(target, options=CHANNEL_OPTIONS)
        return grpc_core().aio.secure_channel(target, channel_credentials(security), options=CHANNEL_OPTIONS)


TRANSPORT: Final[ContextVar[Transport]] = ContextVar("transport", default=GrpcTransport())  # noqa: B039 (no state)
"""The transport of the present context."""
