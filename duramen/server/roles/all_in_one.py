"""The whole database in one process, on one port; its log may be a Kafka cluster instead."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Final

from duramen.server.kept.history_sources import history_sources
from duramen.server.roles.grpc_server import GrpcServer
from duramen.server.roles.guarding import Access, guard_shell, write_audit
from duramen.server.roles.http_port import HttpAccess, open_http
from duramen.server.roles.kv import add_kv_services, here
from duramen.server.roles.node_role import NODE_SERVICES, add_node_services, node_sight
from duramen.server.roles.resp_endpoint import NO_RESP_ENDPOINT, open_resp_endpoint
from duramen.server.sight.http_limits import HttpLimits
from duramen.server.sight.server_sight import ServerSight
from duramen.server.wiring.first_user import NO_POLICY, FirstUserResult, UserPolicy, settle_users
from duramen.server.wiring.server_certificates import ServerCertificates
from duramen.server.wiring.serving_node import ON_DEMAND, SnapshotPolicy
from duramen.server.wiring.single_machine import (
    NODE_ID,
    THIS_MACHINE,
    MachineParts,
    SingleMachine,
    open_single_machine,
)
from log_tier.audit.audit_settings import AuditSettings
from log_tier.concurrency.background import failing
from log_tier.model.errors import DuramenError
from log_tier.proto import log_pb2, log_pb2_grpc
from log_tier.remote.service import LogService
from log_tier.rpc.messages.stream_bound import STREAMS_MAX
from log_tier.slow_calls.slow_call_log import SLOW_CALL_MS
from router.admin.admin import Admin
from router.admin.answers.node_client import ask_only
from router.data.local_data import LocalData
from router.endpoints.resp.server.sockets import RespSettings, RespSockets
from router.membership.local_membership import LocalMembership
from serving_tier.locations.allowed import AllowedLocations
from serving_tier.service import NodeStatusFeed

__all__ = ["SingleServer"]

_SERVICES: Final = (*NODE_SERVICES, log_pb2.DESCRIPTOR.services_by_name["Log"].full_name)


class SingleServer:
    """A running server. `open()` makes one, `close()` ends it without losing anything."""

    role = "single"

    def __init__(
        self,
        shell: GrpcServer,
        data_plane: LocalData,
        access: Access,
        resp_port: int,
        ended: asyncio.Future[DuramenError],
        opened: AsyncExitStack,
    ) -> None:
        self.shell = shell
        self.data_plane = data_plane
        self.access = access
        self.sight: ServerSight | None = None
        """What it knows of itself; there once it is open."""
        self.http_port = 0
        """The port of health and status over HTTP; 0 if there is none."""
        self.resp_port = resp_port
        """The port of the RESP endpoint; 0 if there is none."""
        self.first_user: FirstUserResult = ""
        """What became of the first user that was asked for."""
        self.ended = ended
        """Why this server must not go on."""
        self._opened = opened

    @classmethod
    async def open(
        cls,
        data: Path,
        *,
        log_url: str | None = None,
        take_over: bool = False,
        host: str = "127.0.0.1",
        port: int = 7070,
        snapshots: SnapshotPolicy = ON_DEMAND,
        allow_locations: Sequence[str] = (),
        resp_endpoint: RespSettings = NO_RESP_ENDPOINT,
        machine: MachineParts = THIS_MACHINE,
        certificates: ServerCertificates | None = None,
        peer_port: int | None = None,
        users: UserPolicy = NO_POLICY,
        audit: AuditSettings | None = None,
        streams_max: int = STREAMS_MAX,
        slow_call_ms: int = SLOW_CALL_MS,
    ) -> SingleServer:
        """Open the data folder and listen. `log_url`: where the log is, if not there. `take_over`: see
        `open_local_data`. `allow_locations`: folders and buckets that callers may name. `certificates`: for TLS.
        `peer_port`: see `GrpcServer.listen`. `users`: who must be in the catalog before it answers. `audit`: what is
        audited on top of the usual. `streams_max`: how many streams may be open at once. `slow_call_ms`: from which
        duration on the slow log has a call; 0: none.

        Raises `PortInUse`, and what `open_local_data` and `settle_users` raise.
        """
        resp_endpoint = resp_endpoint.with_certificate(None if certificates is None else certificates.files)
        allowed = snapshots.allowed(allow_locations, host=host, folder=data)
        async with AsyncExitStack() as opened:
            shell = await GrpcServer.listen(
                host, port, certificates=certificates, peer_port=peer_port, streams_max=streams_max
            )
            shell.slow.set_threshold(slow_call_ms)
            async with AsyncExitStack() as unless_opened:
                unless_opened.push_async_callback(shell.close)
                sockets = RespSockets.take(resp_endpoint)
                unless_opened.callback(sockets.close)
                database = await open_single_machine(
                    data,
                    log_url=log_url,
                    take_over=take_over,
                    address=shell.address,
                    snapshots=snapshots,
                    allowed=allowed,
                    machine=machine,
                )
                unless_opened.push_async_callback(database.data_plane.close)
                first_user = await settle_users(database.data_plane.catalog, users)
                unless_opened.pop_all()
            data_plane = database.data_plane
            opened.push_async_callback(data_plane.close)
            failed = failing(database.node.ended)
            access = await guard_shell(
                opened, shell, database.data_plane.catalog, database.node.follower, failed=failed, audit=audit
            )
            admin = _admin(database, opened, allowed, insecure=shell.is_exposed, is_reached=shell.is_reached)

            async def at_hand() -> Admin:
                return admin

            sight = node_sight("single", NODE_ID, shell, database.data_plane, database.node, certificates)
            opened.push_async_callback(
                add_node_services(shell, data_plane, database.node, at_hand, role="single", log_url="", sight=sight)
            )
            kv = add_kv_services(opened, shell, here(data_plane), data_plane.log, database.node.load)
            write_audit(opened, access, here(database.data_plane), server=NODE_ID, failed=failed)
            opened.push_async_callback(shell.close)
            log_pb2_grpc.add_LogServicer_to_server(LogService(database.data_plane.log, shell.streams), shell.registry)  # type: ignore[no-untyped-call]
            parts = (opened, shell, data_plane, database.node.follower, resp_endpoint, sockets)
            added = await open_resp_endpoint(
                *parts,
                node=data_plane.node,
                node_id=NODE_ID,
                admin=at_hand,
                access=access,
                sight=sight,
                bind_for_machine=partial(sockets.take_machine_socket, data, shell.port),
            )
            await shell.start((*_SERVICES, *kv, *added))
            server = cls(shell, database.data_plane, access, sockets.port, database.node.ended, opened.pop_all())
            server.first_user, server.sight = first_user, sight
            return server
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
        assert self.sight is not None, "a server that is not open answers nothing"
        access = HttpAccess.of(self.access)
        kept = history_sources("single", NODE_ID, self.data_plane.log, self.data_plane) if history else None
        registry = self.data_plane.catalog, self.data_plane.log
        self.http_port = await open_http(
            self._opened, self.shell, self.sight, access, port, certificates, limits, kept=kept, registry=registry
        )

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self.shell.port

    async def close(self) -> None:
        """Report that the server takes no new work, let calls under way end, close indexes and log cleanly."""
        await self._opened.aclose()


def _admin(
    database: SingleMachine, opened: AsyncExitStack, allowed: AllowedLocations, *, insecure: bool, is_reached: bool
) -> Admin:
    """The administration of a database that is one process: it looks at the node itself, and connects to nobody."""
    node, data_plane = database.node, database.data_plane
    feed = NodeStatusFeed(
        node.hosting, node.load, running=node.worker.running, insecure=insecure, is_reached=is_reached
    )
    opened.push_async_callback(feed.close)
    membership = LocalMembership(node.hosting, feed)
    opened.push_async_callback(membership.close)
    admin = Admin(data_plane.catalog, data_plane.log, membership, ask_only(NODE_ID, data_plane), allowed)
    opened.push_async_callback(admin.close)
    return admin
