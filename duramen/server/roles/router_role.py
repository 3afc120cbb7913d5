"""The router role: no state, any number."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

from duramen.server.kept.history_sources import history_sources
from duramen.server.roles.grpc_server import GrpcServer
from duramen.server.roles.guarding import USERS_SERVICES, Access, guard_shell, write_audit
from duramen.server.roles.http_port import HttpAccess, open_http
from duramen.server.roles.kv import add_kv_services, here
from duramen.server.roles.passed_log import PassedLogService
from duramen.server.roles.resp_endpoint import NO_RESP_ENDPOINT, open_resp_endpoint
from duramen.server.sight.http_limits import HttpLimits
from duramen.server.sight.log_watch import LogWatch
from duramen.server.sight.server_sight import ServerSight, SightSources
from duramen.server.wiring.first_user import NO_POLICY, FirstUserResult, UserPolicy, settle_cluster_users
from duramen.server.wiring.register import log_url_for_clients, passes_log
from duramen.server.wiring.server_certificates import ServerCertificates
from log_tier.access.gate import Gate
from log_tier.access.shown_tables import map_shown_to_caller
from log_tier.audit.audit_event import AuditEvent
from log_tier.audit.audit_settings import AuditSettings
from log_tier.catalog.catalog import Catalog
from log_tier.catalog.cluster_map import address_for_servers
from log_tier.catalog.map_follower import MapFollower
from log_tier.catalog.service import ClusterService
from log_tier.concurrency.background import Failed, failing
from log_tier.model.errors import DuramenError
from log_tier.model.log import Log
from log_tier.open import open_log
from log_tier.proto import cluster_pb2, cluster_pb2_grpc, log_pb2, log_pb2_grpc
from log_tier.rpc.messages.stream_bound import STREAMS_MAX
from log_tier.slow_calls.slow_call_log import SLOW_CALL_MS
from router.admin.admin import Admin
from router.admin.answers.node_client import ask_members
from router.admin.healing.healer import Healer
from router.admin.healing.own_jobs import Noted
from router.admin.planners.heal import NO_HEALING, HealBounds
from router.admin.relief.decision import NO_RELIEF, ReliefBounds
from router.admin.relief.description import automatic_answer
from router.admin.relief.reliever import Reliever
from router.admin.service import AdminService, DescribeHealing
from router.endpoints.grpc.services import KeyValueService, TablesService
from router.endpoints.resp.server.sockets import RespSettings, RespSockets
from router.membership.live_membership import LiveMembership
from router.proto import admin_pb2, admin_pb2_grpc, keyvalue_pb2, keyvalue_pb2_grpc, tables_pb2, tables_pb2_grpc
from router.routing.routed_connection import RoutedConnection
from serving_tier.locations.allowed import allowed_of

__all__ = ["RouterRole"]

_SERVICES: Final = (
    keyvalue_pb2.DESCRIPTOR.services_by_name["KeyValue"].full_name,
    tables_pb2.DESCRIPTOR.services_by_name["Tables"].full_name,
    cluster_pb2.DESCRIPTOR.services_by_name["Cluster"].full_name,
    admin_pb2.DESCRIPTOR.services_by_name["Admin"].full_name,
    *USERS_SERVICES,
)

_LOG: Final = (log_pb2.DESCRIPTOR.services_by_name["Log"].full_name,)


class RouterRole:
    """A running router."""

    role = "router"

    def __init__(
        self,
        shell: GrpcServer,
        catalog: Catalog,
        connection: RoutedConnection,
        access: Access,
        sight: ServerSight,
        membership: LiveMembership,
        log: Log,
        ended: asyncio.Future[DuramenError],
        opened: AsyncExitStack,
    ) -> None:
        self.shell = shell
        self.catalog = catalog
        self.connection = connection
        self.access = access
        self.sight = sight
        """What it knows of itself and of the nodes."""
        self._membership = membership
        self._log = log
        self.http_port = 0
        """The port of health and status over HTTP; 0 if there is none."""
        self.resp_port = 0
        """The port of the RESP endpoint; 0 if there is none."""
        self.first_user: FirstUserResult = ""
        """What became of the first user that was asked for."""
        self.ended = ended
        """Why this router must not go on: with a map that no longer changes it would ask the wrong nodes."""
        self._opened = opened

    @classmethod
    async def open(
        cls,
        *,
        log_url: str,
        host: str,
        port: int,
        client_log_url: str | None = None,
        allow_locations: Sequence[str] = (),
        resp_endpoint: RespSettings = NO_RESP_ENDPOINT,
        certificates: ServerCertificates | None = None,
        peer_port: int | None = None,
        users: UserPolicy = NO_POLICY,
        audit: AuditSettings | None = None,
        streams_max: int = STREAMS_MAX,
        heal: HealBounds = NO_HEALING,
        relieve: ReliefBounds = NO_RELIEF,
        slow_call_ms: int = SLOW_CALL_MS,
    ) -> RouterRole:
        """Follow the catalog and the nodes, listen. `client_log_url`: the log's address for clients, if that is not
        `log_url`; empty: clients write through routers. `allow_locations`: the setting `allowed_locations`.
        `peer_port`: see `GrpcServer.listen`. `audit`: what is audited on top of the usual.
        `streams_max`: how many streams may be open at once. `heal`: what it does by itself about lost nodes,
        `relieve`: about those that have too much.
        `slow_call_ms`: from which duration on the slow log has a call; 0: none. Raises `PortInUse`, `Disconnected`.
        """
        allowed = allowed_of(allow_locations, host=host)
        ended: asyncio.Future[DuramenError] = asyncio.get_running_loop().create_future()
        async with AsyncExitStack() as opened:
            shell = await GrpcServer.listen(
                host, port, certificates=certificates, peer_port=peer_port, streams_max=streams_max
            )
            shell.slow.set_threshold(slow_call_ms)
            async with AsyncExitStack() as unless_opened:
                unless_opened.push_async_callback(shell.close)
                sockets = RespSockets.take(resp_endpoint)
                unless_opened.callback(sockets.close)
                log = await open_log(log_url)
                opened.push_async_callback(log.close)
                catalog = await Catalog.open(log)
                opened.push_async_callback(catalog.close)
                first_user = await settle_cluster_users(catalog, users, certificates)
                follower = MapFollower(catalog)
                membership = await LiveMembership.open(follower, failed=failing(ended), address_of=address_for_servers)
                opened.push_async_callback(membership.close)
                unless_opened.pop_all()
            access = await guard_shell(
                opened, shell, catalog, follower, failed=failing(ended), audit=audit, cluster=True
            )
            connection = RoutedConnection.for_router(log, catalog, membership)
            opened.push_async_callback(connection.close)
            admin = Admin(catalog, log, membership, ask_members(membership), allowed)
            opened.push_async_callback(admin.close)
            noted = partial(_note_automatic, access, catalog)
            answer = _open_automatic(opened, catalog, membership, heal, relieve, noted, failing(ended))
            kv = add_kv_services(opened, shell, here(connection), log)
            write_audit(opened, access, here(connection), server="router", failed=failing(ended))
            opened.push_async_callback(shell.close)
            keyvalue_pb2_grpc.add_KeyValueServicer_to_server(KeyValueService(connection, shell.streams), shell.registry)  # type: ignore[no-untyped-call]
            tables_pb2_grpc.add_TablesServicer_to_server(TablesService(connection), shell.registry)  # type: ignore[no-untyped-call]
            secured = certificates is not None
            url = log_url_for_clients(log_url, secured=secured) if client_log_url is None else client_log_url
            passing = passes_log(log_url, secured=secured)
            sight = _sight(shell, catalog, connection, membership, certificates, log, LogWatch.of(log, opened))
            _add_cluster(shell, catalog, url, passing, sight)
            administered = AdminService.at_hand(admin, shell.streams, answer)
            admin_pb2_grpc.add_AdminServicer_to_server(administered, shell.registry)  # type: ignore[no-untyped-call]
            added = await open_resp_endpoint(
                opened,
                shell,
                connection,
                follower,
                resp_endpoint,
                sockets,
                node_id="router",
                membership=membership,
                admin=_at_hand(admin),
                access=access,
                sight=sight,
            )
            passed = _pass_log(shell, log, access.gate) if passing else ()
            await shell.start((*_SERVICES, *passed, *kv, *added))
            made = cls(shell, catalog, connection, access, sight, membership, log, ended, opened.pop_all())
            made.resp_port, made.first_user = sockets.port, first_user
            return made
        raise AssertionError("not reached")

    async def serve_http(
        self,
        port: int | None,
        certificates: ServerCertificates | None = None,
        limits: HttpLimits | None = None,
        *,
        history: bool = False,
    ) -> None:
        """Answer health, status and metrics over HTTP as well: `ServesHttp`."""
        access, ask = HttpAccess.of(self.access), self._membership.status
        kept = history_sources("router", "router", self._log, self.connection) if history else None
        shell, opened = self.shell, self._opened
        registry = self.catalog, self._log
        self.http_port = await open_http(
            opened, shell, self.sight, access, port, certificates, limits, ask, kept=kept, registry=registry
        )

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self.shell.port

    async def close(self) -> None:
        """Stop cleanly."""
        await self._opened.aclose()


def _sight(
    shell: GrpcServer,
    catalog: Catalog,
    connection: RoutedConnection,
    membership: LiveMembership,
    certificates: ServerCertificates | None,
    log: Log,
    log_watch: LogWatch | None,
) -> ServerSight:
    sources = SightSources(
        role="router",
        name="router",
        maps=catalog,
        bound=shell.bound,
        log=log,
        membership=membership,
        certificates=certificates,
        times=connection.times,
        log_watch=log_watch,
    )
    return ServerSight(sources)


def _open_automatic(
    opened: AsyncExitStack,
    catalog: Catalog,
    membership: LiveMembership,
    heal: HealBounds,
    relieve: ReliefBounds,
    noted: Noted,
    failed: Failed,
) -> DescribeHealing:
    """Begin to heal and to relieve, until `opened` ends it; returns what says what would be done now."""
    healer = Healer.open(catalog, membership, heal, noted=noted, failed=failed)
    opened.push_async_callback(healer.close)
    reliever = Reliever.open(catalog, membership, healer, relieve, noted=noted, failed=failed)
    opened.push_async_callback(reliever.close)
    return partial(automatic_answer, healer, reliever)


def _note_automatic(access: Access, catalog: Catalog, action: str, detail: str, offset: int) -> None:
    """Have the audit say what this router began or undid by itself: no user had it done."""
    if access.gate.is_closed:
        access.audit.note(
            AuditEvent("admin", "done", action=action, detail=detail, version=catalog.map.version, offset=offset)
        )


def _at_hand(admin: Admin) -> Callable[[], Awaitable[Admin]]:
    async def at_hand() -> Admin:
        return admin

    return at_hand


def _pass_log(shell: GrpcServer, log: Log, gate: Gate) -> tuple[str, ...]:
    """Pass tables' logs on to users; the names of the services."""
    log_pb2_grpc.add_LogServicer_to_server(PassedLogService(log, gate, shell.streams), shell.registry)  # type: ignore[no-untyped-call]
    return tuple(_LOG)


def _add_cluster(shell: GrpcServer, catalog: Catalog, log_url: str, passing: bool, sight: ServerSight) -> None:
    cluster = ClusterService(
        catalog,
        shell.streams,
        role="router",
        log_url=log_url,
        passes_log=passing,
        shown=map_shown_to_caller,
        status=sight.status_json,
        slow_calls=shell.slow.slow_json,
    )
    cluster_pb2_grpc.add_ClusterServicer_to_server(cluster, shell.registry)  # type: ignore[no-untyped-call]
