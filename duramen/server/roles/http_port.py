"""The HTTP port of a role that knows itself: a single server, a node, a router."""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import AsyncExitStack
from typing import Protocol, TypeVar

from duramen.server.roles.grpc_server import GrpcServer
from duramen.server.roles.guarding import Access
from duramen.server.roles.resp_endpoint import NO_RESP_ENDPOINT
from duramen.server.settings.resp import with_certificate
from duramen.server.sight.http_limits import HttpLimits
from duramen.server.sight.server_sight import ServerSight
from duramen.server.wiring.server_certificates import ServerCertificates
from log_tier.access.call_audit import CallAudit
from router.endpoints.resp.server.sockets import tls_context

__all__ = ["ServesHttp", "open_http", "opened_with_http"]


class ServesHttp(Protocol):
    """A role that can have an HTTP port."""

    async def serve_http(
        self, port: int, certificates: ServerCertificates | None = None, limits: HttpLimits | None = None
    ) -> None:
        """Answer health, status and metrics over HTTP as well, at the same address. `port`: 0 for a free one.
        `certificates`: by HTTPS. Raises `PortInUse`.
        """
        ...

    async def close(self) -> None:
        """End it."""
        ...


_Role = TypeVar("_Role", bound=ServesHttp)


async def open_http(
    opened: AsyncExitStack,
    shell: GrpcServer,
    sight: ServerSight,
    access: Access,
    port: int,
    certificates: ServerCertificates | None,
    limits: HttpLimits | None,
) -> int:
    """Listen for HTTP at the address of `shell`, until `opened` is closed; the port. Raises `PortInUse`."""
    # Here, because a server without it need not load the libraries.
    from duramen.server.sight.http_endpoint import HttpEndpoint

    settings = with_certificate(NO_RESP_ENDPOINT, None if certificates is None else certificates.files)
    endpoint = await HttpEndpoint.open(
        sight,
        access.gate,
        access.authenticator,
        CallAudit(access.audit, access.gate),
        host=shell.host,
        port=port,
        tls=tls_context(settings),
        limits=HttpLimits() if limits is None else limits,
    )
    opened.push_async_callback(endpoint.close)
    return endpoint.port


async def opened_with_http(
    opening: Awaitable[_Role], port: int | None, certificates: ServerCertificates | None
) -> _Role:
    """The role that `opening` opens, with an HTTP port; None or below 0: without one. Raises what opening it raises,
    and `PortInUse`; then the role is closed.
    """
    role = await opening
    try:
        if port is not None and port >= 0:
            await role.serve_http(port, certificates)
    except BaseException:
        await role.close()
        raise
    return role
