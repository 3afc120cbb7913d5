"""The HTTP port of a role that knows itself: a single server, a node, a router.

Every server has one, unless it is switched off. Who names the port gets it at the address of the server. Where nobody
does, only this machine reaches it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from contextlib import AsyncExitStack
from typing import Final, Literal, NamedTuple, Protocol, TypeVar

from duramen.server.console.node_watch import AskStatus
from duramen.server.kept.history_sources import HistorySources
from duramen.server.roles.grpc_server import GrpcServer
from duramen.server.roles.guarding import Access
from duramen.server.roles.resp_endpoint import NO_RESP_ENDPOINT
from duramen.server.sight.http_limits import HttpLimits
from duramen.server.sight.server_sight import ServerSight
from duramen.server.wiring.server_certificates import ServerCertificates
from log_tier.access.authenticator import Authenticator
from log_tier.access.call_audit import CallAudit
from log_tier.access.gate import Gate
from log_tier.catalog.catalog import Catalog
from log_tier.concurrency.descriptors import descriptor_shares
from log_tier.model.errors import PortInUse
from log_tier.model.log import Log
from log_tier.rpc.address import is_loopback
from router.endpoints.resp.server.sockets import tls_context

__all__ = ["HTTP_PORT", "HttpAccess", "ServesHttp", "http_port_of", "open_http", "opened_with_http"]

HTTP_PORT: Final = 8080
"""Where nobody names another. A second server of the machine takes a free one."""


class ServesHttp(Protocol):
    """A role that can have an HTTP port."""

    async def serve_http(
        self,
        port: int | None,
        certificates: ServerCertificates | None = None,
        limits: HttpLimits | None = None,
        *,
        history: bool = False,
    ) -> None:
        """Answer health, status and metrics over HTTP as well, at the same address. `port`: 0 for a free one; None:
        `HTTP_PORT`, or a free one where that is taken, for this machine alone. `certificates`: by HTTPS. `history`:
        keep it in the table `_duramen_history` as well. Raises `PortInUse`.
        """
        ...

    async def close(self) -> None:
        """End it."""
        ...


class HttpAccess(NamedTuple):
    """What an HTTP port asks about its callers."""

    gate: Gate
    authenticator: Authenticator
    audit: CallAudit | None = None
    """None: this server writes no audit."""

    @classmethod
    def of(cls, access: Access) -> HttpAccess:
        """That of a server with other endpoints."""
        return cls(access.gate, access.authenticator, CallAudit(access.audit, access.gate))


_Role = TypeVar("_Role", bound=ServesHttp)


def http_port_of(setting: int | Literal["auto"]) -> int | None:
    """The setting `http_port`, as `ServesHttp` takes it; -1: none."""
    return None if setting == "auto" else setting


async def open_http(
    opened: AsyncExitStack,
    shell: GrpcServer,
    sight: ServerSight,
    access: HttpAccess,
    port: int | None,
    certificates: ServerCertificates | None,
    limits: HttpLimits | None,
    ask: AskStatus | None = None,
    *,
    answers_calls: bool = True,
    kept: HistorySources | None = None,
    registry: tuple[Catalog, Log],
) -> int:
    """Listen for HTTP until `opened` is closed; the port. `port`: see `ServesHttp`. `ask`: asks a node of the cluster
    for its status. `answers_calls`: may pages call the methods of the shell? `kept`: by what its history outlives the
    server; None: it does not. `registry`: what has the schemas of tables, and their log. Raises `PortInUse`.
    """
    # Here, because a server without it need not load the libraries.
    from duramen.server.console.console import Console
    from duramen.server.console.history import ServerHistory
    from duramen.server.kept.history_table import HistoryTable
    from duramen.server.registry.schema_registry import SchemaRegistry
    from duramen.server.sight.http_endpoint import HttpEndpoint

    limits = HttpLimits().within(descriptor_shares().http_connections) if limits is None else limits
    settings = NO_RESP_ENDPOINT.with_certificate(None if certificates is None else certificates.files)
    find = shell.find_method if answers_calls else None

    def keep(history: ServerHistory) -> HistoryTable:
        assert kept is not None, "a history is kept by something"
        return HistoryTable(history, kept, sight.uptime_s, sight.now_ms)

    console = await Console.open(sight, access.gate, limits, ask, find, None if kept is None else keep)
    opened.push_async_callback(console.close)
    taken: PortInUse | None = None
    for host, number in _places(shell.host, port):
        try:
            endpoint = await HttpEndpoint.open(
                sight,
                access.gate,
                access.authenticator,
                access.audit,
                shell.slow,
                host=host,
                port=number,
                tls=tls_context(settings),
                limits=limits,
                routes={**console.routes(), **SchemaRegistry(*registry).routes()},
            )
        except PortInUse as error:
            taken = error
        else:
            opened.push_async_callback(endpoint.close)
            return endpoint.port
    assert taken is not None, "there is no place to listen"
    raise taken


def _places(host: str, port: int | None) -> Iterator[tuple[str, int]]:
    """Where to listen, the first that is free: the address and the port."""
    if port is not None:
        yield host, port
        return
    here = host if is_loopback(host) else "127.0.0.1"
    yield here, HTTP_PORT
    yield here, 0


async def opened_with_http(
    opening: Awaitable[_Role], port: int | None, certificates: ServerCertificates | None, *, history: bool = False
) -> _Role:
    """The role that `opening` opens, with an HTTP port as `ServesHttp` says; below 0: without one, and without history.
    Raises what opening it raises, and `PortInUse`; then the role is closed.
    """
    role = await opening
    try:
        if port is None or port >= 0:
            await role.serve_http(port, certificates, history=history)
    except BaseException:
        await role.close()
        raise
    return role
