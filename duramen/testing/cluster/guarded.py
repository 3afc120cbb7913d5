"""The guard of a simulated server: the gate of a real one, where the network says which process calls."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

from duramen.server.roles.guarding import ALL_RULES
from duramen.testing.machine.simulated_server import SimulatedServer, calling_process
from log_tier.access.authenticator import Authenticator
from log_tier.access.gate import Gate
from log_tier.access.guard import GrpcGuard
from log_tier.catalog.catalog import Catalog
from log_tier.catalog.map_follower import MapFollower
from log_tier.concurrency.clocks import Clock
from router.admin.users.user_admin import UserAdmin
from router.admin.users.users_service import UsersService
from router.proto import users_pb2_grpc

__all__ = ["GuardParts", "guard_server"]


class GuardParts(NamedTuple):
    """What an endpoint of another protocol shares with the guard, so that both decide alike."""

    gate: Gate
    authenticator: Authenticator


async def guard_server(
    opened: AsyncExitStack,
    server: SimulatedServer,
    catalog: Catalog,
    follower: MapFollower,
    *,
    servers: Collection[str],
    clock: Clock,
) -> GuardParts:
    """Guard every service that is added to `server` from now on, and add `duramen.v1.Users`. `opened` ends it.

    `servers`: the processes that count as servers of the cluster, as those do that show a server's certificate.
    """

    def identify(context: Any) -> tuple[str, bool] | None:
        name = calling_process(context.peer())
        return (name, True) if name in servers else None

    gate = Gate(lambda: catalog.map, clock=clock)
    opened.push_async_callback(await follower.follow(gate.follow, name="following users and grants"))
    authenticator = Authenticator(gate, clock=clock)
    guard = GrpcGuard(gate, authenticator, ALL_RULES, server.streams, identify=identify, clock=clock)
    opened.callback(guard.close)
    server.guard_with(guard)
    users = UsersService(UserAdmin(catalog, gate, clock=clock))
    users_pb2_grpc.add_UsersServicer_to_server(users, server.registry)  # type: ignore[no-untyped-call]
    return GuardParts(gate, authenticator)
