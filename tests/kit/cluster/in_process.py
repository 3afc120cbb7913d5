"""A whole cluster in one event loop: log, serving nodes and routers over loopback gRPC, with faults at hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import grpc

from kit.deadlines import within
from kit.held_port import HeldPort
from log_tier.catalog.catalog import Catalog
from log_tier.catalog.commands import RegisterNode, StartJob, TaskDone, TaskPlan, TaskReady
from log_tier.catalog.map_follower import MapFollower
from log_tier.catalog.service import ClusterService
from log_tier.embedded import EmbeddedLog
from log_tier.model.identifiers import Partition, PartitionId
from log_tier.model.table_ref import TableRef
from log_tier.proto import cluster_pb2_grpc, log_pb2_grpc
from log_tier.remote.remote_log import RemoteLog
from log_tier.remote.service import LogService
from log_tier.rpc.channel import SERVER_OPTIONS
from log_tier.rpc.open_streams import OpenStreams
from router.data.local_data import LocalData
from router.data.requests import WritePart, WriteResult
from router.endpoints.grpc.services import KeyValueService, TablesService
from router.membership.live_membership import LiveMembership
from router.proto import keyvalue_pb2_grpc, tables_pb2_grpc
from router.routing.routed_connection import RoutedConnection
from serving_tier.node.hosting import Hosting
from serving_tier.node.node import Node
from serving_tier.node.node_load import Load
from serving_tier.proto import node_pb2_grpc
from serving_tier.replica.replica import Replica
from serving_tier.service import NodeService, NodeStatusFeed

DEADLINE_S = 20.0


class Gate:
    """While it is shut, callers wait at it: a process that was stopped answers nobody and closes nothing."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()

    def shut(self) -> None:
        self._open.clear()

    def open(self) -> None:
        self._open.set()

    async def passed(self) -> None:
        await self._open.wait()


class Gated:
    """A `Connection` behind a gate. It counts what comes, and `slow_s` makes it answer late."""

    def __init__(self, inner: Any, gate: Gate) -> None:
        self._inner = inner
        self._gate = gate
        self.asked: list[str] = []
        self.slow_s = 0.0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name == "watch":
            return lambda *args: self._watch(found(*args))

        async def call(*args: Any, **kwargs: Any) -> Any:
            self.asked.append(name)
            await self._gate.passed()
            if self.slow_s:
                await asyncio.sleep(self.slow_s)
            result = await found(*args, **kwargs)
            await self._gate.passed()
            return result

        return call

    async def _watch(self, events: Any) -> AsyncIterator[Any]:
        self.asked.append("watch")
        await self._gate.passed()
        try:
            async for event in events:
                await self._gate.passed()
                yield event
        finally:
            await events.aclose()


class _GatedContext:
    """A call's context whose messages pass a gate."""

    def __init__(self, context: Any, gate: Gate) -> None:
        self._context, self._gate = context, gate

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    async def write(self, message: Any) -> None:
        await self._gate.passed()
        await self._context.write(message)


class _GatedStatus(NodeService):
    gates: Sequence[Gate]

    async def Status(self, request: Any, context: Any) -> None:  # noqa: N802
        gated: Any = context
        for gate in self.gates:
            await gate.passed()
            gated = _GatedContext(gated, gate)
        await super().Status(request, gated)


class Serving:
    """A gRPC server on a port of its own, which `stop` and `start` keep; `close` lets go of it."""

    def __init__(self) -> None:
        self._held = HeldPort()
        self.port = self._held.number
        self.streams = OpenStreams()
        self.server: grpc.aio.Server | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def bind(self) -> grpc.aio.Server:
        self.streams = OpenStreams()
        self.server = grpc.aio.server(options=SERVER_OPTIONS)
        self.server.add_insecure_port(self.address)
        return self.server

    async def close(self) -> None:
        """Stop, and let go of the port."""
        await self.stop()
        self._held.close()

    async def stop(self) -> None:
        """As a crash does: no grace, no reasons."""
        if self.server is not None:
            await self.server.stop(None)
            self.server = None

    async def stop_politely(self) -> None:
        """As a shutdown does."""
        self.streams.end()
        assert self.server is not None
        await self.server.stop(5)
        self.server = None


class LogProcess(Serving):
    """The log."""

    def __init__(self, log: EmbeddedLog) -> None:
        super().__init__()
        self.log = log

    async def start(self) -> None:
        server = self.bind()
        log_pb2_grpc.add_LogServicer_to_server(LogService(self.log, self.streams), server)  # type: ignore[no-untyped-call]
        await server.start()

    @property
    def url(self) -> str:
        return f"grpc://{self.address}"


class NodeProcess(Serving):
    """A serving node."""

    def __init__(self, node_id: str, folder: Path, log: LogProcess) -> None:
        super().__init__()
        self.id = node_id
        self.gate = Gate()
        self.status_gate = Gate()
        """While it is shut, the node answers, and reports nothing: routers count it as lost."""
        self._folder = folder / node_id
        self._log = log
        self.data_plane: LocalData
        self.gated: Gated

    async def open(self, *, address: str = "") -> None:
        """Open its indexes, register (under `address`, if it is given, in place of its own), and serve."""
        server = self.bind()
        log = await RemoteLog.open(self._log.address)
        catalog = await Catalog.open(log)
        node = await Node.open(log, self._folder)
        await catalog.submit(RegisterNode(self.id, address or self.address, f"identity of {self.id}"))
        hosting = await Hosting.open(MapFollower(catalog), node, node_id=self.id, identity=f"identity of {self.id}")
        self.data_plane = LocalData(log, catalog, hosting)
        await self._serve(server)

    async def start(self) -> None:
        """Serve again after `stop`."""
        await self._serve(self.bind())

    async def _serve(self, server: grpc.aio.Server) -> None:
        load = Load()
        self.gated = Gated(self.data_plane, self.gate)
        self.service = _GatedStatus(
            self.data_plane.node,
            NodeStatusFeed(self.data_plane.hosting, load),
            self.streams,
            copies_folder=self._folder.with_suffix(".copies"),
        )
        self.service.gates = (self.gate, self.status_gate)
        keyvalue_pb2_grpc.add_KeyValueServicer_to_server(KeyValueService(self.gated, self.streams, load), server)  # type: ignore[no-untyped-call]
        node_pb2_grpc.add_NodeServicer_to_server(self.service, server)  # type: ignore[no-untyped-call]
        maps = ClusterService(self.data_plane.catalog, self.streams, role="node", log_url=self._log.url)
        cluster_pb2_grpc.add_ClusterServicer_to_server(maps, server)  # type: ignore[no-untyped-call]
        await server.start()

    async def stop(self) -> None:
        await super().stop()
        self.gate.open()
        self.status_gate.open()
        await self.service.close()

    async def close(self) -> None:
        if self.server is not None:
            await self.stop()
        await super().close()
        await self.data_plane.close()


class RouterProcess(Serving):
    """A router."""

    def __init__(self, log: LogProcess) -> None:
        super().__init__()
        self._log = log
        self._opened = AsyncExitStack()
        self.gate = Gate()
        self.connection: RoutedConnection

    async def open(self) -> None:
        log = await RemoteLog.open(self._log.address)
        self._opened.push_async_callback(log.close)
        self.catalog = await Catalog.open(log)
        self._opened.push_async_callback(self.catalog.close)
        membership = await LiveMembership.open(MapFollower(self.catalog))
        self._opened.push_async_callback(membership.close)
        self.connection = RoutedConnection.for_router(log, self.catalog, membership)
        self._opened.push_async_callback(self.connection.close)
        await self.start()

    async def start(self) -> None:
        server = self.bind()
        gated: Any = Gated(self.connection, self.gate)
        keyvalue_pb2_grpc.add_KeyValueServicer_to_server(KeyValueService(gated, self.streams), server)  # type: ignore[no-untyped-call]
        tables_pb2_grpc.add_TablesServicer_to_server(TablesService(gated), server)  # type: ignore[no-untyped-call]
        maps = ClusterService(self.catalog, self.streams, role="router", log_url=self._log.url)
        cluster_pb2_grpc.add_ClusterServicer_to_server(maps, server)  # type: ignore[no-untyped-call]
        await server.start()

    async def close(self) -> None:
        await super().close()
        await self._opened.aclose()


class TestCluster:
    """The processes of a cluster."""

    __test__ = False

    def __init__(self, folder: Path, log: LogProcess) -> None:
        self._folder = folder
        self.log = log
        self.nodes: dict[str, NodeProcess] = {}
        self.routers: list[RouterProcess] = []

    async def add_node(self, node_id: str, *, address: str = "") -> NodeProcess:
        node = NodeProcess(node_id, self._folder, self.log)
        await node.open(address=address)
        self.nodes[node_id] = node
        return node

    async def add_router(self) -> RouterProcess:
        router = RouterProcess(self.log)
        await router.open()
        self.routers.append(router)
        return router

    @property
    def router(self) -> RoutedConnection:
        """The first router's connection."""
        return self.routers[0].connection

    def replicas(self, table: TableRef, partition: int) -> list[Replica]:
        """Every replica of a partition, by node id."""
        name = PartitionId(table.id, Partition(partition))
        return [
            node.data_plane.node.hosted()[name]
            for _, node in sorted(self.nodes.items())
            if name in node.data_plane.node.hosted()
        ]

    async def hosted(self, table: TableRef) -> None:
        """Return when every node has opened its share of a table."""
        for node in self.nodes.values():
            async with within(DEADLINE_S):
                await node.data_plane.catalog.wait_for(lambda cluster: table.id in cluster.tables)
                await node.data_plane.hosting.wait_version(node.data_plane.catalog.map.version)
                await node.data_plane.hosting.wait_hosted(table.id)

    async def close(self) -> None:
        for node in self.nodes.values():
            node.gate.open()
            node.status_gate.open()
        for router in self.routers:
            router.gate.open()
            await router.close()
        for node in self.nodes.values():
            await node.close()


@asynccontextmanager
async def cluster_of(
    folder: Path, *, nodes: Sequence[str] = ("n1", "n2", "n3"), routers: int = 1
) -> AsyncIterator[TestCluster]:
    """A cluster with an empty log."""
    async with await EmbeddedLog.open(folder / "log") as log:
        process = LogProcess(log)
        await process.start()
        made = TestCluster(folder, process)
        try:
            for node_id in nodes:
                await made.add_node(node_id)
            for _ in range(routers):
                await made.add_router()
            yield made
        finally:
            await made.close()
            await process.close()


async def written(connection: Any, part: WritePart) -> WriteResult:
    """Write one part, which must succeed."""
    (result,) = await connection.write([part], timeout=DEADLINE_S)
    assert isinstance(result, WriteResult), result
    return result


async def taken_away(cluster: TestCluster, table: TableRef, partition: int, node: str) -> None:
    """Take a replica away from a node."""
    catalog = next(iter(cluster.nodes.values())).data_plane.catalog
    plan = TaskPlan("remove", table.id, Partition(partition), node)
    await catalog.submit(StartJob("move", f"{table.name}/{partition}", (plan,)))


async def moved(cluster: TestCluster, table: TableRef, partition: int, source: str, target: str) -> None:
    """Move a replica, as the node that gets it would."""
    data_plane = cluster.nodes[target].data_plane
    plan = TaskPlan("move", table.id, Partition(partition), target, {"from": source})
    job, _ = await data_plane.catalog.submit(StartJob("move", f"{table.name}/{partition}", (plan,)))
    await data_plane.hosting.wait_version(data_plane.catalog.map.version)
    async with within(DEADLINE_S):
        await data_plane.hosting.wait_hosted(table.id)
        await data_plane.node.replica(PartitionId(table.id, Partition(partition))).wait_ready()
    await data_plane.catalog.submit(TaskReady(job, 0, target))
    await data_plane.catalog.submit(TaskDone(job, 0, target))
