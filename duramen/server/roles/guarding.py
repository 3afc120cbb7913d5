"""The guard of a role: one gate, by the catalog that the role follows, with the rules of all services.

catalog ──▶ Gate ◀── GrpcGuard (every gRPC method) · RESP endpoint (every command)
             ▲                    │
        Authenticator             └──▶ AuditTrail ──▶ AuditWriter ──▶ table `_duramen_audit`
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any, Final, NamedTuple, Protocol

import grpc
from grpc_health.v1 import health
from grpc_reflection.v1alpha import reflection

from duramen.server.roles.grpc_server import GrpcServer
from duramen.server.roles.kv import OpenConnection
from duramen.server.roles.servers_only import identity_shown
from duramen.server.settings.exposure import warn_without_users
from duramen.server.wiring.audit_writer import AuditWriter
from log_tier.access.authenticator import Authenticator
from log_tier.access.gate import Gate
from log_tier.access.guard import GrpcGuard, IdentifyPeer
from log_tier.access.log_rules import LOG_RULES
from log_tier.access.passwords import ARGON2, Hasher
from log_tier.access.quotas.quota_keeper import QuotaKeeper
from log_tier.access.rules import MethodRules
from log_tier.audit.audit_settings import AuditSettings
from log_tier.audit.audit_trail import AuditTrail
from log_tier.catalog.catalog import Catalog
from log_tier.catalog.map_follower import MapFollower
from log_tier.concurrency.background import Failed, only_logged
from log_tier.concurrency.clocks import SYSTEM_CLOCK, Clock
from log_tier.rpc.checked import CallGuard
from log_tier.rpc.open_streams import OpenStreams
from log_tier.rpc.security import shown_certificate
from log_tier.slow_calls.slow_call_log import SlowCallLog
from router.admin.access_rules import ADMIN_RULES, USERS_RULES
from router.admin.users.user_admin import UserAdmin
from router.admin.users.users_service import UsersService
from router.endpoints.grpc.access_rules import DATA_RULES
from router.endpoints.turns.shared_turns import SharedTurns
from router.proto import users_pb2, users_pb2_grpc
from serving_tier.service.access_rules import NODE_RULES

__all__ = [
    "ALL_RULES",
    "UNGUARDED_SERVICES",
    "USERS_SERVICES",
    "Access",
    "GuardedServer",
    "guard_services",
    "guard_shell",
    "write_audit",
]

ALL_RULES: Final[MethodRules] = {**LOG_RULES, **NODE_RULES, **DATA_RULES, **ADMIN_RULES, **USERS_RULES}
"""What each method of every service of ours demands."""

UNGUARDED_SERVICES: Final = frozenset({health.SERVICE_NAME, reflection.SERVICE_NAME})
"""They say whether a server is well, and what its protos are."""

USERS_SERVICES: Final = (users_pb2.DESCRIPTOR.services_by_name["Users"].full_name,)


class Access(NamedTuple):
    """What a role's endpoints ask about their callers, where they note and count what those do, and their turns."""

    gate: Gate
    authenticator: Authenticator
    audit: AuditTrail
    quotas: QuotaKeeper
    slow: SlowCallLog
    turns: SharedTurns


class GuardedServer(Protocol):
    """Serves what is added to its registry. See `GrpcServer`."""

    streams: OpenStreams
    registry: Any
    slow: SlowCallLog

    def guard_with(self, guard: CallGuard) -> None: ...


async def guard_shell(
    opened: AsyncExitStack,
    shell: GrpcServer,
    catalog: Catalog,
    follower: MapFollower,
    *,
    failed: Failed,
    audit: AuditSettings | None = None,
    cluster: bool = False,
    clock: Clock = SYSTEM_CLOCK,
) -> Access:
    """Guard every service that is added to `shell` from now on, and add `duramen.v1.Users`. `opened` ends it. `failed`
    is called where rights are followed no longer. `audit`: None for the usual settings; `write_audit` has to follow.
    `cluster`: this is one server of several, which call each other.
    """
    access = await guard_services(
        opened,
        shell,
        catalog,
        follower,
        identify=None if shell.peer_port is None else _identify,
        takes_first=not cluster or shell.is_secure,
        failed=failed,
        clock=clock,
        audit=audit,
    )
    if shell.is_secure and shell.is_reached and not access.gate.is_closed:  # without TLS, `check_exposure` has warned
        warn_without_users(shell.host)
    return access


async def guard_services(
    opened: AsyncExitStack,
    server: GuardedServer,
    catalog: Catalog,
    follower: MapFollower,
    *,
    identify: IdentifyPeer | None,
    takes_first: bool = True,
    failed: Failed = only_logged,
    audit: AuditSettings | None = None,
    clock: Clock = SYSTEM_CLOCK,
    hasher: Hasher = ARGON2,
    turns: SharedTurns | None = None,
) -> Access:
    """Guard every service that is added to `server` from now on, and add `duramen.v1.Users`. Endpoints of other
    protocols get what this returns, so that all of them decide alike, and count what a user takes together.

    `takes_first`: see `UserAdmin`. `hasher`: of passwords. `turns`: of the loop; None: new
    ones. The others as for `guard_shell` and `GrpcGuard`.
    """
    trail = AuditTrail(audit, clock=clock)
    gate = Gate(lambda: catalog.map, clock=clock)
    authenticator = Authenticator(gate, clock=clock, hasher=hasher)
    quotas = QuotaKeeper(gate, clock)
    turns = turns or SharedTurns(asyncio.get_running_loop(), clock.monotonic_s)
    opened.push_async_callback(await follower.follow(gate.follow, name="following users and grants", failed=failed))
    guard = GrpcGuard(
        gate,
        authenticator,
        ALL_RULES,
        server.streams,
        identify=identify,
        unguarded=UNGUARDED_SERVICES,
        clock=clock,
        audit=trail,
        quotas=quotas,
        turns=turns,
    )
    opened.callback(guard.close)
    server.guard_with(guard)
    server.slow.know(maps=lambda: catalog.map)
    users = UsersService(UserAdmin(catalog, gate, takes_first=takes_first, clock=clock, hasher=hasher))
    users_pb2_grpc.add_UsersServicer_to_server(users, server.registry)  # type: ignore[no-untyped-call]
    return Access(gate, authenticator, trail, quotas, server.slow, turns)


def _identify(context: grpc.aio.ServicerContext[Any, Any]) -> tuple[str, bool] | None:
    """Whom the certificate of a call at the peer port names, and whether that is a server."""
    certificate = shown_certificate(context)
    shown = None if certificate is None else identity_shown(certificate)
    return None if shown is None else (shown.name, shown.kind == "server")


def write_audit(
    opened: AsyncExitStack, access: Access, connect: OpenConnection, *, server: str, failed: Failed
) -> None:
    """Write what the endpoints note, by `connect`. `opened` ends it: to be called before the shell's own `close` is
    pushed there, so that what the last calls did is written.
    """
    writer = AuditWriter(access.audit, access.gate, connect, server=server)
    opened.push_async_callback(writer.close)
    writer.start(failed=failed)
