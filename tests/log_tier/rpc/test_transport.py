"""The transport of a context carries the calls of what is opened in it, and of nothing else."""

from __future__ import annotations

import contextvars
from typing import Any

from log_tier.rpc.transport import TRANSPORT, GrpcTransport
from log_tier.rpc.wire import Wire


class Noted:
    """A transport that says where it was asked to go."""

    def __init__(self) -> None:
        self.targets: list[str] = []

    def channel(self, target: str) -> Any:
        self.targets.append(target)
        return self


async def test_a_wire_takes_the_transport_of_its_context() -> None:
    noted = Noted()
    context = contextvars.copy_context()
    context.run(TRANSPORT.set, noted)
    wire = context.run(Wire, "n1:7070")
    assert (noted.targets, wire.channel) == (["n1:7070"], noted)


async def test_elsewhere_it_is_grpc() -> None:
    assert isinstance(TRANSPORT.get(), GrpcTransport)
    wire = Wire("127.0.0.1:1")
    assert type(wire.channel).__module__.startswith("grpc.aio")
    await wire.close()
