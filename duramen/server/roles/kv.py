"""`duramen.v1.KV` and `duramen.v1.Console` of a role: opened over whatever the role reaches the data by.

A server whose `KV` nobody calls opens nothing for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Final

from duramen.server.roles.grpc_server import GrpcServer
from log_tier.concurrency.on_demand import OnDemand
from log_tier.model.errors import ShuttingDown
from log_tier.model.log import Log
from router.data.local_data import LocalData
from router.data.seam import Connection
from router.endpoints.grpc.kv.forms import TextForms
from router.endpoints.grpc.kv.plane import Plane
from router.endpoints.grpc.kv.service import KVService
from router.endpoints.grpc.pages.console_service import ConsoleService
from router.membership.live_membership import LiveMembership
from router.proto import console_pb2, console_pb2_grpc, kv_pb2, kv_pb2_grpc
from router.routing.local_first import LocalFirstConnection
from router.routing.routed_connection import RoutedConnection
from serving_tier.node.node_load import Load

__all__ = [
    "KV_SERVICES",
    "LazyPlane",
    "OpenConnection",
    "add_kv_services",
    "here",
    "nearest",
    "others_on_demand",
]

KV_SERVICES: Final = (
    kv_pb2.DESCRIPTOR.services_by_name["KV"].full_name,
    console_pb2.DESCRIPTOR.services_by_name["Console"].full_name,
)

OpenConnection = Callable[[], Awaitable[Connection]]
"""Opens a way to the data, which stays its owner's."""


class LazyPlane:
    """Call it for the plane; the first call opens it. `close()` ends it."""

    def __init__(self, connect: OpenConnection) -> None:
        self._connect = connect
        self._opening = asyncio.Lock()
        self._plane: Plane | None = None
        self._closed = False

    async def __call__(self) -> Plane:
        """Raises `ShuttingDown` after `close`."""
        if self._plane is not None:
            return self._plane
        async with self._opening:
            if self._closed:
                raise ShuttingDown("the server is stopping; ask another one")
            if self._plane is None:
                self._plane = Plane(await self._connect())
            return self._plane

    async def close(self) -> None:
        """End what is under way. Idempotent."""
        async with self._opening:
            self._closed = True
            plane, self._plane = self._plane, None
            if plane is not None:
                await plane.close()


def here(connection: Connection) -> OpenConnection:
    """By a connection that is open already."""

    async def connect() -> Connection:
        return connection

    return connect


def others_on_demand(data_plane: LocalData, memberships: OnDemand[LiveMembership]) -> OnDemand[RoutedConnection]:
    """A node's way to the other nodes, which its endpoints share."""

    async def opened() -> RoutedConnection:
        return RoutedConnection.for_router(data_plane.log, data_plane.catalog, await memberships())

    return OnDemand(opened)


def nearest(data_plane: LocalData, others: OnDemand[RoutedConnection]) -> OpenConnection:
    """A node's: by its own replicas, and by other nodes for what it does not hold."""

    async def connect() -> Connection:
        return LocalFirstConnection(data_plane, await others())

    return connect


def add_kv_services(
    opened: AsyncExitStack, shell: GrpcServer, connect: OpenConnection, log: Log, load: Load | None = None
) -> tuple[str, ...]:
    """Add both services to a shell; `opened` closes what they open. The names of what was added.

    To be called before the shell's own `close` is pushed on `opened`, so that the calls end before their plane does.
    """
    plane = LazyPlane(connect)
    opened.push_async_callback(plane.close)
    forms = TextForms()
    kv = KVService(plane, shell.streams, load, forms)
    console = ConsoleService(connect, log, forms, shell.streams.budget)
    kv_pb2_grpc.add_KVServicer_to_server(kv, shell.registry)  # type: ignore[no-untyped-call]
    console_pb2_grpc.add_ConsoleServicer_to_server(console, shell.registry)  # type: ignore[no-untyped-call]
    return KV_SERVICES
