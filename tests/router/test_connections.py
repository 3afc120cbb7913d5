"""The contracts of `DataPlane` and `TableAdmin`, with every implementation."""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import grpc
import pytest
from kit.cluster.data_plane_contract import DataPlaneContract
from kit.cluster.one_machine import DEADLINE_S, NO_TABLE, ZERO
from kit.cluster.table_admin_contract import TableAdminContract
from kit.deadlines import until_true

from duramen.client.transport.deferred import DeferredConnection
from duramen.testing.machine.simulated_grpc import SimulatedTransport
from duramen.testing.machine.simulated_network import Network
from duramen.testing.machine.simulated_server import SimulatedServer
from duramen.testing.machine.story import RunStory
from duramen.testing.recording.call_recorder import CallRecorder
from duramen.testing.recording.recorded_ways import RecordedConnection
from log_tier.access.gate import Gate
from log_tier.catalog.map_follower import MapFollower
from log_tier.concurrency.clocks import SYSTEM_CLOCK
from log_tier.model.identifiers import PartitionId
from log_tier.rpc.transport import TRANSPORT
from router.data.catalog_tables import CatalogTables
from router.data.local_data import LocalData
from router.data.requests import ReadPart
from router.data.seam import Connection
from router.endpoints.grpc.services import KeyValueService, TablesService
from router.endpoints.resp.server.endpoint_service import RespEndpointService
from router.endpoints.resp.server.resp_server import RespServer
from router.endpoints.resp.server.sockets import RespSettings, RespSockets
from router.membership.live_membership import LiveMembership
from router.proto import keyvalue_pb2_grpc, resp_endpoint_pb2_grpc, tables_pb2_grpc
from router.remote.grpc_connection import GrpcConnection
from router.routing.failover import FailoverConnection
from router.routing.local_first import LocalFirstConnection
from router.routing.routed_connection import RoutedConnection
from router.routing.tables import CatalogChanges


async def served(data_plane: LocalData, stack: AsyncExitStack, *, alone: bool = False) -> GrpcConnection:
    """`alone`: with an endpoint of the Redis protocol, to which the connection has opened its short way."""
    server = grpc.aio.server()
    keyvalue_pb2_grpc.add_KeyValueServicer_to_server(KeyValueService(data_plane), server)  # type: ignore[no-untyped-call]
    tables_pb2_grpc.add_TablesServicer_to_server(TablesService(data_plane), server)  # type: ignore[no-untyped-call]
    if alone:
        service = await resp_service(data_plane, stack)
        resp_endpoint_pb2_grpc.add_RespEndpointServicer_to_server(service, server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    stack.push_async_callback(server.stop, None)
    connection = GrpcConnection(f"127.0.0.1:{port}", alone=alone)
    stack.push_async_callback(connection.close)
    if alone:
        await open_short_way(connection)
    return connection


async def resp_service(data_plane: LocalData, stack: AsyncExitStack) -> RespEndpointService:
    settings = RespSettings(port=0)
    sockets = RespSockets.take(settings)
    maps = MapFollower(data_plane.catalog)
    endpoint = await RespServer.open(data_plane, maps, settings, sockets, node=data_plane.node)
    stack.push_async_callback(endpoint.close)
    return RespEndpointService(
        settings, lambda: (sockets.port, None), Gate(lambda: data_plane.catalog.map), lambda: asyncio.sleep(0)
    )


async def open_short_way(connection: GrpcConnection) -> None:
    """By as many calls as it takes."""

    async def is_open() -> bool:
        await connection.read([ReadPart(PartitionId(NO_TABLE, ZERO), [b"k"])], timeout=DEADLINE_S, patience=0.001)
        return connection.short_way is not None and connection.short_way.is_open

    await until_true(is_open)


def simulated(data_plane: LocalData, stack: AsyncExitStack) -> GrpcConnection:
    """As in `duramen.testing`: the same services and stubs, over its network in place of TCP, in real time here."""
    loop = asyncio.get_running_loop()
    network = Network(loop, random.Random(0), RunStory(loop.time))

    def broken(method: str, error: Exception) -> None:
        raise AssertionError(f"{method} ended with {error!r}")

    server = SimulatedServer(network, "server", contextvars.copy_context(), SYSTEM_CLOCK, broken)
    keyvalue_pb2_grpc.add_KeyValueServicer_to_server(KeyValueService(data_plane), server)  # type: ignore[no-untyped-call]
    tables_pb2_grpc.add_TablesServicer_to_server(TablesService(data_plane), server)  # type: ignore[no-untyped-call]
    server.listen()
    stack.push_async_callback(server.stop, politely=False)
    context = contextvars.copy_context()
    context.run(TRANSPORT.set, SimulatedTransport(network, "client"))
    connection = context.run(GrpcConnection, "server:7070")
    stack.push_async_callback(connection.close)
    return connection


async def routed(data_plane: LocalData, stack: AsyncExitStack) -> RoutedConnection:
    """It writes to the log itself. The one node has no address, so everything else goes through a server."""
    membership = await LiveMembership.open(MapFollower(data_plane.catalog))
    stack.push_async_callback(membership.close)
    changes = CatalogChanges(CatalogTables(data_plane.log, data_plane.catalog))
    stack.push_async_callback(changes.close)
    return RoutedConnection(
        data_plane.catalog,
        membership,
        changes=changes,
        log=data_plane.log,
        fallback=await served(data_plane, stack),
        refresh=data_plane.catalog.refresh,
    )


class TestConnections(DataPlaneContract, TableAdminContract):
    @pytest.fixture(
        params=[
            "data_plane",
            "gRPC",
            "short way",
            "several",
            "routed",
            "nearest",
            "deferred",
            "simulated gRPC",
            "recorded",
        ]
    )
    async def connection(self, request: pytest.FixtureRequest, data_plane: LocalData) -> AsyncIterator[Connection]:
        async with AsyncExitStack() as stack:
            made: Connection
            if request.param == "data_plane":
                made = data_plane
            elif request.param == "gRPC":
                made = await served(data_plane, stack)
            elif request.param == "short way":
                made = await served(data_plane, stack, alone=True)
            elif request.param == "several":
                made = FailoverConnection([await served(data_plane, stack), await served(data_plane, stack)])
            elif request.param == "routed":
                made = await routed(data_plane, stack)
            elif request.param == "nearest":
                made = LocalFirstConnection(data_plane, await routed(data_plane, stack))
            elif request.param == "simulated gRPC":
                made = simulated(data_plane, stack)
            elif request.param == "recorded":
                recorder = CallRecorder((), lambda: 0)
                made = RecordedConnection(data_plane, 0, recorder.table)
            else:

                async def itself(_: object) -> Connection:
                    return data_plane

                made = DeferredConnection(itself)
            yield made
