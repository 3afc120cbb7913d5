"""What the processes of a simulated cluster open in each of their lives: a log server, a node, a router.

The parts are those of `duramen.server.roles`, on a simulated machine and network in place of gRPC's server. Nobody
listens yet: the caller adds what else it wants, and calls `server.listen()`.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

from duramen.server.roles.guarding import Access
from duramen.server.roles.kv import OpenConnection, add_kv_services, here, nearest, others_on_demand
from duramen.server.roles.node_role import add_node_services
from duramen.server.wiring.register import register_node
from duramen.server.wiring.serving_node import ON_DEMAND, ServingNode, SnapshotPolicy
from duramen.testing.cluster.guarded import guard_server
from duramen.testing.machine.simulated_machine import SimulatedMachine
from duramen.testing.machine.simulated_process import SimulatedProcess
from duramen.testing.machine.simulated_server import SimulatedServer
from log_tier.audit.audit_settings import AuditSettings
from log_tier.catalog.catalog import Catalog
from log_tier.catalog.commands import RegisterNode
from log_tier.catalog.map_follower import MapFollower
from log_tier.catalog.service import ClusterService
from log_tier.concurrency.clocks import Clock
from log_tier.model.log import Log
from log_tier.open import open_log
from log_tier.proto import cluster_pb2_grpc, log_pb2_grpc
from log_tier.remote.service import LogService
from router.admin.admin import Admin
from router.admin.answers.node_client import ask_members
from router.admin.lazy import admin_on_demand
from router.admin.service import AdminService
from router.data.local_data import LocalData
from router.endpoints.grpc.services import KeyValueService, TablesService
from router.membership.live_membership import LiveMembership
from router.membership.membership_on_demand import membership_on_demand
from router.proto import admin_pb2_grpc, keyvalue_pb2_grpc, tables_pb2_grpc
from router.routing.routed_connection import RoutedConnection
from serving_tier.jobs.log_trimmer import ROUND_S

__all__ = ["NodeParts", "RouterParts", "open_log_server", "open_node", "open_router"]


class NodeParts(NamedTuple):
    """A node that is open and does not listen yet."""

    server: SimulatedServer
    node: ServingNode
    plane: LocalData
    catalog: Catalog
    memberships: Any
    """Opens what it knows of the other nodes, when somebody asks."""
    access: Access | None
    """None: everybody may do everything."""
    near: OpenConnection
    """Opens its way to the data, its own replicas' and the other nodes'."""


class RouterParts(NamedTuple):
    """A router that is open and does not listen yet."""

    server: SimulatedServer
    connection: RoutedConnection
    catalog: Catalog
    follower: MapFollower
    membership: LiveMembership
    access: Access | None
    """As of a node."""
    log: Log


def open_log_server(process: SimulatedProcess, log: Log) -> SimulatedServer:
    """Serve a log, which stays its owner's."""
    server = process.new_server()
    log_pb2_grpc.add_LogServicer_to_server(LogService(log, server.streams), server.registry)  # type: ignore[no-untyped-call]
    return server


async def open_node(
    process: SimulatedProcess,
    opened: AsyncExitStack,
    machine: SimulatedMachine,
    *,
    log_url: str,
    snapshots: SnapshotPolicy = ON_DEMAND,
    retention_round_s: float = ROUND_S,
    servers: Collection[str] = (),
    audit: AuditSettings | None = None,
) -> NodeParts:
    """Open a node of the process' name, in a folder of that name. Raises what opening log and node raises. `servers`:
    of a cluster that has users, and what is `audit`ed of them: see `guard_server`; none: everybody may do everything.
    """
    name, clock = process.name, machine.clock_of(process.name)
    log = await open_log(log_url)
    opened.push_async_callback(log.close)
    catalog = await Catalog.open(log)
    opened.push_async_callback(catalog.close)
    await register_node(catalog, RegisterNode(name, f"{name}:7070", f"identity of {name}"))
    node = await ServingNode.open(
        log,
        catalog,
        machine.folder / name,
        node_id=name,
        identity=f"identity of {name}",
        snapshots=snapshots,
        retention_round_s=retention_round_s,
        clock=clock,
        workers=machine.workers,
    )
    opened.push_async_callback(node.close)
    plane = LocalData(log, catalog, node.hosting, resources=AsyncExitStack())
    opened.push_async_callback(plane.close)
    memberships = membership_on_demand(node.follower, clock=clock)
    opened.push_async_callback(memberships.close)
    admin = admin_on_demand(catalog, log, memberships)
    opened.push_async_callback(admin.close)
    others = others_on_demand(plane, memberships)
    opened.push_async_callback(others.close)
    near = nearest(plane, others)
    server: Any = process.new_server()
    access = None
    if servers:
        access = await guard_server(opened, server, catalog, node.follower, servers=servers, clock=clock, audit=audit)
    opened.push_async_callback(add_node_services(server, plane, node, admin, role="node", log_url=log_url))
    add_kv_services(opened, server, near, log, node.load)
    return NodeParts(server, node, plane, catalog, memberships, access, near)


async def open_router(
    process: SimulatedProcess,
    opened: AsyncExitStack,
    clock: Clock,
    *,
    log_url: str,
    servers: Collection[str] = (),
    audit: AuditSettings | None = None,
) -> RouterParts:
    """Open a router. Raises what opening the log raises. `servers`, `audit`: as for `open_node`."""
    log = await open_log(log_url)
    opened.push_async_callback(log.close)
    catalog = await Catalog.open(log)
    opened.push_async_callback(catalog.close)
    follower = MapFollower(catalog)
    membership = await LiveMembership.open(follower, clock=clock)
    opened.push_async_callback(membership.close)
    connection = RoutedConnection.for_router(log, catalog, membership)
    opened.push_async_callback(connection.close)
    admin = Admin(catalog, log, membership, ask_members(membership))
    opened.push_async_callback(admin.close)
    server: Any = process.new_server()
    access = None
    if servers:
        access = await guard_server(opened, server, catalog, follower, servers=servers, clock=clock, audit=audit)
    keyvalue_pb2_grpc.add_KeyValueServicer_to_server(KeyValueService(connection, server.streams), server.registry)  # type: ignore[no-untyped-call]
    tables_pb2_grpc.add_TablesServicer_to_server(TablesService(connection), server.registry)  # type: ignore[no-untyped-call]
    maps = ClusterService(catalog, server.streams, role="router", log_url=log_url)
    cluster_pb2_grpc.add_ClusterServicer_to_server(maps, server.registry)  # type: ignore[no-untyped-call]
    add_kv_services(opened, server, here(connection), log)
    administered = AdminService.at_hand(admin, server.streams)
    admin_pb2_grpc.add_AdminServicer_to_server(administered, server.registry)  # type: ignore[no-untyped-call]
    return RouterParts(server, connection, catalog, follower, membership, access, log)
