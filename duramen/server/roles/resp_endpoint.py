"""The RESP endpoint of a role: opened over the role's `Connection`; its address is reported over gRPC.

Its modules are a tenth of all that a server can import, and take a fifth of a second of its start: they are imported
where an endpoint is opened. One that is for clients of this machine alone is opened when the first of them asks for it,
because it has many calls to make.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from importlib import import_module
from typing import Final

from duramen.server.roles.grpc_server import GrpcServer
from duramen.server.roles.guarding import Access
from duramen.server.sight.server_sight import ServerSight
from log_tier.catalog.map_follower import MapFollower
from log_tier.concurrency.tasks import end_tasks, every_step
from log_tier.measures.work_counts import RespCounts
from log_tier.model.errors import DuramenError
from log_tier.privacy.machine_socket import MachineSocket
from router.admin.admin import OpenAdmin
from router.data.seam import Connection
from router.endpoints.resp.server.endpoint_service import RespEndpointService
from router.endpoints.resp.server.sockets import RespSettings, RespSockets
from router.membership.live_membership import LiveMembership
from router.proto import resp_endpoint_pb2, resp_endpoint_pb2_grpc
from serving_tier.node.node import Node

__all__ = ["NO_RESP_ENDPOINT", "RESP_SERVICES", "open_resp_endpoint"]

logger = logging.getLogger(__name__)

RESP_SERVICES: Final = (resp_endpoint_pb2.DESCRIPTOR.services_by_name["RespEndpoint"].full_name,)

NO_RESP_ENDPOINT: Final = RespSettings()
"""Settings of a server without a RESP endpoint."""

_MODULES: Final = ("duramen.server.roles.readers", "router.endpoints.resp.server.resp_server")


async def open_resp_endpoint(
    opened: AsyncExitStack,
    shell: GrpcServer,
    connection: Connection,
    follower: MapFollower,
    settings: RespSettings,
    sockets: RespSockets,
    *,
    node: Node | None = None,
    node_id: str = "",
    membership: LiveMembership | None = None,
    admin: OpenAdmin | None = None,
    access: Access,
    sight: ServerSight,
    bind_for_machine: Callable[[], None] = lambda: None,
) -> tuple[str, ...]:
    """Open the endpoint, if it is wanted; `opened` closes it. The names of the services that were added to the shell.

    `membership`: the other nodes; without it this server is alone. `admin`: what clears tables. `access`: who
    calls, and what it may do. `sight`: learns what it counts. `bind_for_machine`: takes the socket for clients on this
    machine, if the endpoint has one.
    """
    if not settings.wanted:
        return ()

    async def open_all(parts: AsyncExitStack) -> None:
        parts.callback(sockets.close)
        bind_for_machine()
        where = (parts, connection, follower, settings, sockets, access, sight)
        await _open_server(*where, node=node, node_id=node_id, membership=membership, admin=admin)

    endpoint = _Endpoint(open_all, sockets)
    opened.push_async_callback(endpoint.close)
    if settings.port is not None or settings.socket_path is not None:
        await endpoint.open()
    service = RespEndpointService(settings, endpoint.place, access.gate, endpoint.open_if_possible)
    resp_endpoint_pb2_grpc.add_RespEndpointServicer_to_server(service, shell.registry)  # type: ignore[no-untyped-call]
    return RESP_SERVICES


class _Endpoint:
    """What is opened once, now or when somebody asks for it: whole or not at all. `close` closes it.

    Nobody hears where it is before it is open: a client that connects to what is bound only waits for nothing.
    A caller that leaves ends no opening: the next one finds it open.
    """

    def __init__(self, open_all: Callable[[AsyncExitStack], Awaitable[None]], sockets: RespSockets) -> None:
        self._open_all, self._sockets = open_all, sockets
        self._parts = AsyncExitStack()
        self._lock = asyncio.Lock()
        self._is_open = self._is_closed = False
        self._trying: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Raises what opening does; then nothing of it is open."""
        async with self._lock:
            if self._is_open or self._is_closed:
                return
            for name in _MODULES:  # while the event loop serves others
                await asyncio.to_thread(import_module, name)
            async with AsyncExitStack() as parts:
                await self._open_all(parts)
                self._parts = parts.pop_all()
            self._is_open = True

    async def open_if_possible(self) -> None:
        """For callers who do without, and may leave before it is open. All that wait wait for one try."""
        if self._trying is None or self._trying.done():
            self._trying = asyncio.create_task(self._try_to_open(), name="opening RESP for clients on this machine")
        await asyncio.shield(self._trying)

    async def _try_to_open(self) -> None:
        try:
            await self.open()
        except (DuramenError, OSError) as error:
            logger.warning("clients on this machine have no socket of their own, and call by gRPC: %s", error)

    def place(self) -> tuple[int, MachineSocket | None]:
        """The TCP port, 0 for none, and the socket for clients on this machine, of what is open."""
        return (self._sockets.port, self._sockets.machine) if self._is_open else (0, None)

    async def close(self) -> None:
        """Idempotent."""
        self._is_closed = True
        await every_step(lambda: end_tasks(self._trying), self._close_parts)

    async def _close_parts(self) -> None:
        async with self._lock:
            await self._parts.aclose()


async def _open_server(
    parts: AsyncExitStack,
    connection: Connection,
    follower: MapFollower,
    settings: RespSettings,
    sockets: RespSockets,
    access: Access,
    sight: ServerSight,
    *,
    node: Node | None,
    node_id: str,
    membership: LiveMembership | None,
    admin: OpenAdmin | None,
) -> None:
    from duramen.server.roles.readers import Readers
    from router.endpoints.resp.server.peers import MembershipPeers
    from router.endpoints.resp.server.resp_counts import resp_counts
    from router.endpoints.resp.server.resp_server import RespServer

    resp_server = await RespServer.open(
        connection,
        follower,
        settings,
        sockets,
        node=node,
        node_id=node_id,
        membership=membership,
        peers=MembershipPeers(membership) if membership is not None else None,
        admin=admin,
        gate=access.gate,
        authenticator=access.authenticator,
        audit=access.audit,
        quotas=access.quotas,
        slow=access.slow,
        turns=access.turns,
    )
    parts.push_async_callback(resp_server.close)
    readers: Readers | None = None
    if settings.readers:
        readers = await Readers.start(resp_server, settings, sockets)
        parts.push_async_callback(readers.close)

    def counts() -> RespCounts:
        if readers is None:
            return resp_counts(resp_server)
        return resp_counts(resp_server, readers_running=readers.running, reader_ends=readers.ended)

    sight.resp = counts
