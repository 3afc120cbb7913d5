"""A cluster that is operated: a log, nodes with workers and a common snapshot store, a router, in one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duramen
from duramen.aio import Database, Table
from duramen.server.roles.grpc_server import GrpcServer
from duramen.server.roles.log_role import LogRole, log_sight
from duramen.server.roles.node_role import NodeRole
from duramen.server.roles.router_role import RouterRole
from duramen.server.wiring.serving_node import SnapshotPolicy
from kit.deadlines import within
from log_tier.embedded import EmbeddedLog, EngineSettings
from log_tier.model.identifiers import Partition, PartitionId
from log_tier.proto import log_pb2, log_pb2_grpc
from log_tier.remote.service import LogService
from router.admin import verbs
from router.admin.client import AdminConnection
from router.admin.planners.heal import NO_HEALING, HealBounds
from router.admin.relief.decision import NO_RELIEF, ReliefBounds
from router.proto import admin_pb2 as pb
from serving_tier.replica.replica import Replica

DEADLINE_S = 30.0


class Operated:
    """The cluster, and an operator's connection to its router."""

    def __init__(self, folder: Path, log: LogRole) -> None:
        self._folder = folder
        self.log = log
        self.nodes: dict[str, NodeRole] = {}
        self.router: RouterRole
        self.admin: AdminConnection
        self.database: Database

    async def add_node(self, node_id: str) -> NodeRole:
        store = f"file://{quote(str(self._folder / 'snapshots'))}"
        node = await NodeRole.open(
            self._folder / node_id,
            node_id=node_id,
            log_url=f"grpc://127.0.0.1:{self.log.port}",
            host="127.0.0.1",
            port=0,
            snapshots=SnapshotPolicy(url=store),
        )
        self.nodes[node_id] = node
        return node

    async def stop_node(self, node_id: str) -> None:
        """End it, and wait until the router knows."""
        await self.nodes.pop(node_id).close()
        await self.until_nodes(lambda nodes: nodes[node_id].state == "lost")

    async def until_nodes(self, condition: Any) -> None:
        """Wait until what the operator sees of the nodes is so."""
        async with within(DEADLINE_S):
            while not condition({each.node: each for each in await self.admin.nodes()}):  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    async def until_level(self, table: str) -> None:
        """Wait until every replica that is there is ready, in the router's eyes too."""
        async with within(DEADLINE_S):
            while any(each.state != "ready" or each.lag_records for each in await self.admin.lag(table)):  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    async def done(self, change: verbs.AdminChange) -> pb.AdminJob:
        """Begin a change and return its job, which must end well."""
        plan = await self.admin.start(change)
        assert plan.HasField("job"), plan
        job = await self.ended(plan.job)
        assert job.state == "done", job
        return job

    async def ended(self, job_id: int) -> pb.AdminJob:
        """The job when it is over."""
        async with within(DEADLINE_S):
            async for job in self.admin.follow_job(job_id):
                last = job
        return last

    async def holders(self, table: str) -> list[str]:
        """Who holds each partition, by the map."""
        return [
            " ".join(sorted(replica.node for replica in each.replicas)) for each in await self.admin.partitions(table)
        ]

    def replica(self, node_id: str, table: str, partition: int) -> Replica:
        node = self.nodes[node_id]
        entry = node.data_plane.catalog.map.find(table)
        return node.data_plane.node.replica(PartitionId(entry.id, Partition(partition)))


async def table_of(cluster: Operated, keys: Sequence[bytes], *, partitions: int = 3, replicas: int = 2) -> Table:
    """The table `flights` in which every key has the value 1, level everywhere."""
    table = await cluster.database.create_table("flights", partitions=partitions, replicas=replicas)
    await table.put_many(dict.fromkeys(keys, b"1"))
    await cluster.until_level("flights")
    return table


async def version_states(cluster: Operated) -> dict[int, str]:
    """The state of each version of the table `flights`."""
    return {each.version: each.state for each in await cluster.admin.versions("flights")}


@asynccontextmanager
async def operated(
    folder: Path,
    *,
    nodes: Sequence[str] = ("n1", "n2", "n3"),
    segment_bytes: int = 64 << 20,
    router_locations: Sequence[str] = (),
    heal: HealBounds = NO_HEALING,
    relieve: ReliefBounds = NO_RELIEF,
) -> AsyncIterator[Operated]:
    """A cluster with an empty log. Its tests look again and again: nobody signals what they wait for."""
    log = await _log_of(folder / "log", segment_bytes)
    cluster = Operated(folder, log)
    try:
        for node_id in nodes:
            await cluster.add_node(node_id)
        cluster.router = await RouterRole.open(
            log_url=f"grpc://127.0.0.1:{log.port}",
            host="127.0.0.1",
            port=0,
            allow_locations=router_locations,
            heal=heal,
            relieve=relieve,
        )
        try:
            target = f"127.0.0.1:{cluster.router.port}"
            async with (
                AdminConnection(target, timeout=DEADLINE_S) as admin,
                await duramen.aio.connect(target, timeout=DEADLINE_S) as database,
            ):
                cluster.admin, cluster.database = admin, database
                yield cluster
        finally:
            await cluster.router.close()
    finally:
        for node in cluster.nodes.values():
            await node.close()
        await log.close()


async def _log_of(folder: Path, segment_bytes: int) -> LogRole:
    """A log role over segments that a test can fill."""
    async with AsyncExitStack() as opened:
        shell = await GrpcServer.listen("127.0.0.1", 0)
        log = await EmbeddedLog.open(folder, settings=EngineSettings(segment_bytes=segment_bytes))
        opened.push_async_callback(log.close)
        opened.push_async_callback(shell.close)
        log_pb2_grpc.add_LogServicer_to_server(LogService(log, shell.streams), shell.registry)  # type: ignore[no-untyped-call]
        await shell.start([log_pb2.DESCRIPTOR.services_by_name["Log"].full_name])
        return LogRole(shell, log, log_sight(shell, log, folder, None), opened.pop_all())
    raise AssertionError("not reached")
