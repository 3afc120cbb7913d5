"""The node role: replicas that follow a log, and the endpoints to them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Final, Literal

from duramen.server.kept.history_sources import history_sources
from duramen.server.roles.grpc_server import GrpcServer
from duramen.server.roles.guarding import USERS_SERVICES, Access, guard_shell, write_audit
from duramen.server.roles.http_port import HttpAccess, open_http
from duramen.server.roles.kv import OpenConnection, add_kv_services, nearest, others_on_demand
from duramen.server.roles.resp_endpoint import NO_RESP_ENDPOINT, open_resp_endpoint
from duramen.server.sight.http_limits import HttpLimits
from duramen.server.sight.log_watch import LogWatch
from duramen.server.sight.server_sight import ServerSight, SightSources
from duramen.server.wiring.first_user import NO_POLICY, FirstUserResult, UserPolicy, settle_cluster_users
from duramen.server.wiring.node_folder import NodeFolder
from duramen.server.wiring.register import log_url_for_clients, register_node
from duramen.server.wiring.server_certificates import ServerCertificates
from duramen.server.wiring.serving_node import ON_DEMAND, ServingNode, SnapshotPolicy
from log_tier.access.shown_tables import map_shown_to_caller
from log_tier.audit.audit_settings import AuditSettings
from log_tier.catalog.catalog import Catalog
from log_tier.catalog.cluster_map import ClusterMap
from log_tier.catalog.commands import RegisterNode
from log_tier.catalog.map_follower import Leave
from log_tier.catalog.service import ClusterService, ServerRole
from log_tier.concurrency.background import failing, run_forever
from log_tier.concurrency.clocks import SYSTEM_CLOCK, Clock
from log_tier.concurrency.tasks import end_tasks, every_step
from log_tier.embedded import EmbeddedLog
from log_tier.model.errors import DuramenError, NodeIdTaken
from log_tier.open import open_log
from log_tier.proto import cluster_pb2, cluster_pb2_grpc
from log_tier.rpc.messages.stream_bound import STREAMS_MAX
from log_tier.slow_calls.slow_call_log import SLOW_CALL_MS
from router.admin.admin import OpenAdmin
from router.admin.lazy import admin_on_demand
from router.admin.service import AdminService
from router.data.local_data import LocalData
from router.endpoints.grpc.services import KeyValueService, OpenDataPlane, TablesService
from router.endpoints.resp.server.sockets import RespSettings, RespSockets
from router.membership.membership_on_demand import membership_on_demand
from router.proto import admin_pb2, admin_pb2_grpc, keyvalue_pb2, keyvalue_pb2_grpc, tables_pb2, tables_pb2_grpc
from serving_tier.names import COPIES_FOLDER
from serving_tier.proto import node_pb2, node_pb2_grpc
from serving_tier.service import NodeService, NodeStatusFeed

__all__ = ["NODE_SERVICES", "NodeRole", "add_node_services", "node_sight"]

logger = logging.getLogger(__name__)

NODE_SERVICES: Final = (
    keyvalue_pb2.DESCRIPTOR.services_by_name["KeyValue"].full_name,
    tables_pb2.DESCRIPTOR.services_by_name["Tables"].full_name,
    node_pb2.DESCRIPTOR.services_by_name["Node"].full_name,
    cluster_pb2.DESCRIPTOR.services_by_name["Cluster"].full_name,
    admin_pb2.DESCRIPTOR.services_by_name["Admin"].full_name,
    *USERS_SERVICES,
)

# How often the health service looks at the replicas.
_HEALTH_EVERY_S: Final = 0.5


def add_node_services(
    shell: GrpcServer,
    data_plane: LocalData,
    node: ServingNode,
    admin: OpenAdmin,
    *,
    role: ServerRole,
    log_url: str,
    sight: ServerSight | None = None,
    passing: OpenDataPlane | None = None,
) -> Callable[[], Awaitable[None]]:
    """Put a node's endpoints on a shell; returns what closes them. `passing`: see `KeyValueService`. `sight`: what
    answers `Cluster/Status`.
    """
    log = data_plane.log
    commits = log.long_commits if isinstance(log, EmbeddedLog) else None
    shell.slow.know(requests=data_plane.long, commits=commits, is_alone=role == "single")
    streams, registry = shell.streams, shell.registry
    kv = KeyValueService(data_plane, streams, node.load, passing)
    keyvalue_pb2_grpc.add_KeyValueServicer_to_server(kv, registry)  # type: ignore[no-untyped-call]
    tables_pb2_grpc.add_TablesServicer_to_server(TablesService(data_plane), registry)  # type: ignore[no-untyped-call]
    clock, running = data_plane.node.clock, node.worker.running
    feed = NodeStatusFeed(
        node.hosting, node.load, running=running, clock=clock, insecure=shell.is_exposed, is_reached=shell.is_reached
    )
    service = NodeService(data_plane.node, feed, streams, copies_folder=node.folder / COPIES_FOLDER)
    node_pb2_grpc.add_NodeServicer_to_server(service, registry)  # type: ignore[no-untyped-call]
    status = None if sight is None else sight.status_json
    cluster = ClusterService(
        data_plane.catalog,
        streams,
        role=role,
        log_url=log_url,
        shown=map_shown_to_caller,
        status=status,
        slow_calls=shell.slow.slow_json,
    )
    cluster_pb2_grpc.add_ClusterServicer_to_server(cluster, registry)  # type: ignore[no-untyped-call]
    admin_pb2_grpc.add_AdminServicer_to_server(AdminService(admin, streams), registry)  # type: ignore[no-untyped-call]

    return service.close


def node_sight(
    role: Literal["single", "node"],
    name: str,
    shell: GrpcServer,
    data_plane: LocalData,
    node: ServingNode,
    certificates: ServerCertificates | None,
    log_watch: LogWatch | None = None,
) -> ServerSight:
    """What knows a node, or a server that is alone."""
    sources = SightSources(
        role=role,
        name=name,
        maps=data_plane.catalog,
        bound=shell.bound,
        log=data_plane.log,
        hosting=node.hosting,
        load=node.load,
        folder=node.folder,
        certificates=certificates,
        times=data_plane.times,
        snapshots=node.snapshots.taken_s,
        log_watch=log_watch,
    )
    return ServerSight(sources, clock=data_plane.node.clock)


class NodeRole:
    """A running node. `open()` makes one, `close()` ends it; `ended` is set where it had to end by itself."""

    role = "node"

    def __init__(
        self,
        shell: GrpcServer,
        data_plane: LocalData,
        node: ServingNode,
        access: Access,
        sight: ServerSight,
        identity: str,
        near: OpenConnection,
        opened: AsyncExitStack,
    ) -> None:
        self.shell = shell
        self.data_plane = data_plane
        self.node = node
        self.access = access
        self.sight = sight
        """What it knows of itself."""
        self.http_port = 0
        """The port of health and status over HTTP; 0 if there is none."""
        self.ended = node.ended
        """Why this node must not go on."""
        self.resp_port = 0
        """The port of the RESP endpoint; 0 if there is none."""
        self.first_user: FirstUserResult = ""
        """What became of the first user that was asked for."""
        self._identity = identity
        self._near = near
        self._opened = opened
        self._watcher: asyncio.Task[None] | None = None
        self._leave: Leave | None = None

    @classmethod
    async def open(
        cls,
        data: Path,
        *,
        node_id: str,
        log_url: str,
        host: str,
        port: int,
        advertise: str = "",
        snapshots: SnapshotPolicy = ON_DEMAND,
        allow_locations: Sequence[str] = (),
        take_over: bool = False,
        resp_endpoint: RespSettings = NO_RESP_ENDPOINT,
        certificates: ServerCertificates | None = None,
        peer_port: int | None = None,
        users: UserPolicy = NO_POLICY,
        audit: AuditSettings | None = None,
        streams_max: int = STREAMS_MAX,
        slow_call_ms: int = SLOW_CALL_MS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> NodeRole:
        """Own the folder, register with the catalog, host what it says, listen.

        `advertise`: host:port at which others reach it, with port 0 for the one that it listens on; empty: `host`.

        `allow_locations`: the setting `allowed_locations`. `peer_port`: see `GrpcServer.listen`. `audit`: what is
        audited on top of the usual. `streams_max`: how many streams may be open at once. `slow_call_ms`: from which
        duration on the slow log has a call; 0: none. `clock`: of its replicas, snapshots, rights and audit.

        Returns when it answers; replicas may still be on their way, and its health says so. Raises `NodeIdTaken`,
        `FolderInUse`, `ForeignFolder`, `PortInUse`, and `Disconnected` where the log does not answer.
        """
        allowed = snapshots.allowed(allow_locations, host=host, folder=data)
        async with AsyncExitStack() as opened:
            folder = await asyncio.to_thread(NodeFolder.open, data, node_id=node_id)
            opened.callback(folder.close)
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
                own, peer = _advertised(advertise, shell)
                await register_node(catalog, RegisterNode(node_id, own, folder.identity, take_over, peer))
                node_of = partial(ServingNode.open, node_id=node_id, identity=folder.identity, clock=clock)
                node = await node_of(log, catalog, data, snapshots=snapshots, allowed=allowed)
                opened.push_async_callback(node.close)
                unless_opened.pop_all()
            failed = failing(node.ended)
            access = await guard_shell(
                opened, shell, catalog, node.follower, failed=failed, audit=audit, cluster=True, clock=clock
            )
            data_plane = LocalData(log, catalog, node.hosting, resources=AsyncExitStack())
            opened.push_async_callback(data_plane.close)
            memberships = membership_on_demand(node.follower, failed=failing(node.ended), clock=clock)
            opened.push_async_callback(memberships.close)
            admin = admin_on_demand(catalog, log, memberships, allowed)
            opened.push_async_callback(admin.close)
            others = others_on_demand(data_plane, memberships)
            opened.push_async_callback(others.close)
            near = nearest(data_plane, others)
            url = log_url_for_clients(log_url, secured=certificates is not None)
            log_watch = LogWatch.of(log, opened, clock=clock)
            sight = node_sight("node", node_id, shell, data_plane, node, certificates, log_watch)
            close_services = add_node_services(
                shell, data_plane, node, admin, role="node", log_url=url, sight=sight, passing=near
            )
            opened.push_async_callback(close_services)
            kv = add_kv_services(opened, shell, near, log, node.load)
            write_audit(opened, access, near, server=node_id, failed=failing(node.ended))
            opened.push_async_callback(shell.close)
            added: tuple[str, ...] = ()
            if resp_endpoint.wanted:
                where = (opened, shell, await near(), node.follower, resp_endpoint, sockets)
                open_endpoint = partial(open_resp_endpoint, *where, access=access, sight=sight)
                membership = await memberships()
                added = await open_endpoint(node=data_plane.node, node_id=node_id, membership=membership, admin=admin)
            await shell.start((*NODE_SERVICES, *kv, *added), serving=False)
            made = cls(shell, data_plane, node, access, sight, folder.identity, near, opened.pop_all())
            made.resp_port, made.first_user = sockets.port, first_user
            made._watcher = run_forever(made._watch_health(), name="watching the replicas' health", failed=made._end)
            made._leave = await node.follower.follow(made._check_identity, name="watching its id", failed=made._end)
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
        access = HttpAccess.of(self.access)
        kept = (
            history_sources("node", self.node.hosting.node_id, self.data_plane.log, self.data_plane, self._near)
            if history
            else None
        )
        registry = self.data_plane.catalog, self.data_plane.log
        self.http_port = await open_http(
            self._opened, self.shell, self.sight, access, port, certificates, limits, kept=kept, registry=registry
        )

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self.shell.port

    async def _watch_health(self) -> None:
        """Ready when every replica that it should have is, and not when one is behind."""
        while True:
            hosting = self.node.hosting
            ready = not hosting.pending and all(replica.state == "ready" for replica in hosting.node)
            await self.shell.say(serving=ready)
            await asyncio.sleep(_HEALTH_EVERY_S)

    def _check_identity(self, cluster: ClusterMap) -> None:
        """End where another process has registered with this node's id."""
        node_id = self.node.hosting.node_id
        entry = cluster.nodes.get(node_id)
        if entry is not None and entry.identity != self._identity:
            self._end(
                NodeIdTaken(
                    f"the node at {entry.address} has taken over the id {node_id} with another data folder: this one "
                    "stops. Nothing is lost; give it another id to use it again",
                    node=node_id,
                )
            )

    def _end(self, error: DuramenError) -> None:
        failing(self.ended)(error)

    async def close(self) -> None:
        """Stop cleanly."""
        leave = () if self._leave is None else (self._leave,)
        await every_step(*leave, partial(end_tasks, self._watcher), self._opened.aclose)


def _advertised(advertise: str, shell: GrpcServer) -> tuple[str, str]:
    """Where clients call the node, and where servers do: the peer port at the same host; empty if there is none."""
    host, _, port = (advertise or shell.address).rpartition(":")
    peers = "" if shell.peer_port is None else f"{host}:{shell.peer_port}"
    return f"{host}:{shell.port if port == '0' else port}", peers
