"""The RESP endpoint of a role: opened over the role's `Connection`; its address is reported over gRPC.

Most servers have none, and its modules are a tenth of all that a server can import: they are imported where one is
opened.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Final

from duramen.server.roles.grpc_server import GrpcServer
from duramen.server.roles.guarding import Access
from duramen.server.sight.server_sight import ServerSight
from log_tier.catalog.map_follower import MapFollower
from log_tier.measures.work_counts import RespCounts
from router.admin.admin import OpenAdmin
from router.data.seam import Connection
from router.endpoints.resp.server.sockets import RespSettings, RespSockets
from router.membership.live_membership import LiveMembership
from router.proto import resp_endpoint_pb2, resp_endpoint_pb2_grpc
from serving_tier.node.node import Node

__all__ = ["NO_RESP_ENDPOINT", "RESP_SERVICES", "open_resp_endpoint"]

RESP_SERVICES: Final = (resp_endpoint_pb2.DESCRIPTOR.services_by_name["RespEndpoint"].full_name,)

NO_RESP_ENDPOINT: Final = RespSettings()
"""Settings of a server without a RESP endpoint."""


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
) -> tuple[str, ...]:
    """Open the endpoint, if it is wanted; `opened` closes it. The names of the services that were added to the shell.

    `membership`: the other nodes; without it this server is alone. `admin`: what clears tables. `access`: who
    calls, and what it may do. `sight`: learns what it counts.
    """
    if not settings.wanted:
        return ()
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
    opened.push_async_callback(resp_server.close)
    readers: Readers | None = None
    if settings.readers:
        readers = await Readers.start(resp_server, settings, sockets)
        opened.push_async_callback(readers.close)

    def counts() -> RespCounts:
        if readers is None:
            return resp_counts(resp_server)
        return resp_counts(resp_server, readers_running=readers.running, reader_ends=readers.ended)

    sight.resp = counts
    _report(shell, settings, sockets.port, is_guarded=lambda: resp_server.is_guarded)
    return RESP_SERVICES


def _report(shell: GrpcServer, settings: RespSettings, port: int, *, is_guarded: Callable[[], bool]) -> None:
    """Answer over gRPC where the endpoint is, and what a client of it needs."""
    from router.endpoints.resp.server.peers import RespEndpointService

    service = RespEndpointService(
        port=port,
        tls=settings.tls_certificate is not None,
        password=lambda: bool(settings.password) or is_guarded(),
    )
    resp_endpoint_pb2_grpc.add_RespEndpointServicer_to_server(service, shell.registry)  # type: ignore[no-untyped-call]
