"""Two serving nodes over one real log, each with its service behind real gRPC on the loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc

from kit.log.stored_log import columns_of, put
from log_tier.catalog.catalog import Maps
from log_tier.catalog.cluster_map import ClusterMap
from log_tier.embedded import EmbeddedLog
from log_tier.model.batch import encode_batch
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId, table_id_to_bytes
from log_tier.model.log import Topic
from log_tier.rpc.channel import SERVER_OPTIONS
from log_tier.rpc.open_streams import OpenStreams
from log_tier.rpc.wire import Wire
from serving_tier.node.node import Node
from serving_tier.node.node_load import Load
from serving_tier.proto import node_pb2, node_pb2_grpc
from serving_tier.replica.replica import Replica
from serving_tier.service.server import NodeService
from serving_tier.service.status_feed import NodeStatusFeed

DEADLINE_S = 30
ZERO = Partition(0)


class FixedMaps:
    """The catalog as far as a status names it: the version of a map."""

    def __init__(self) -> None:
        self.map = ClusterMap()

    async def wait_for(self, predicate: Callable[[ClusterMap], bool], *, timeout: float | None = None) -> ClusterMap:
        raise AssertionError("a status waits for no map")

    async def close(self) -> None:
        raise AssertionError("a status closes no map")


class Hosted:
    """What the feed needs of a host: a real node, and replicas that are on their way."""

    def __init__(self, node: Node, node_id: str) -> None:
        self.node = node
        self.node_id = node_id
        self.identity = f"identity of {node_id}"
        self.maps: Maps = FixedMaps()
        self.pending: dict[PartitionId, Any] = {}


class ServedNode:
    """One node and its service."""

    def __init__(self, log: EmbeddedLog, node: Node, node_id: str, folder: Path) -> None:
        self.log, self.node, self.folder = log, node, folder
        self.hosts = Hosted(node, node_id)
        self.load = Load()
        self.running: dict[tuple[int, int], Any] = {}
        self.feed = NodeStatusFeed(self.hosts, self.load, running=lambda: self.running)
        self.streams = OpenStreams()
        self.service = NodeService(node, self.feed, self.streams, copies_folder=folder / "copies")
        self.server = grpc.aio.server(options=SERVER_OPTIONS)
        node_pb2_grpc.add_NodeServicer_to_server(self.service, self.server)  # type: ignore[no-untyped-call]
        self.target = f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.wire = Wire(self.target)
        self.stub: Any = node_pb2_grpc.NodeStub(self.wire.channel)  # type: ignore[no-untyped-call]

    async def ask(self, method: Any, request: Any) -> Any:
        return await self.wire.ask(method, request, timeout=DEADLINE_S)

    async def digest(self, topic: Topic, offset: int, **how: Any) -> node_pb2.DigestReply:
        request = node_pb2.DigestRequest(table_id=table_id_to_bytes(topic.id), offset=offset, **how)
        reply: node_pb2.DigestReply = await self.ask(self.stub.Digest, request)
        return reply

    async def close(self) -> None:
        await self.wire.close()
        self.streams.end()
        await self.server.stop(5)
        await self.service.close()
        await self.node.close()


class TwoNodes:
    """The nodes, and a table of one partition that both hold."""

    def __init__(self, log: EmbeddedLog, topic: Topic, nodes: list[ServedNode]) -> None:
        self.log, self.topic, self.nodes = log, topic, nodes

    @property
    def replicas(self) -> list[Replica]:
        return [served.node.replica(self.topic.partition(ZERO)) for served in self.nodes]

    async def write(self, *keys: bytes, value: bytes = b"v", table: TableId | None = None) -> Offset:
        batch = encode_batch(columns_of([put(key, value) for key in keys]))
        appended = await self.log.append(PartitionId(table or self.topic.id, ZERO), batch)
        return Offset(appended.base_offset + len(keys) - 1)

    async def level(self, offset: Offset) -> None:
        for replica in self.replicas:
            await replica.wait_applied(offset, timeout=DEADLINE_S)


@asynccontextmanager
async def two_nodes(folder: Path) -> AsyncIterator[TwoNodes]:
    async with await EmbeddedLog.open(folder / "log") as log:
        topic = await log.create_topic("flights", partitions=1)
        nodes = []
        try:
            for node_id in ("n1", "n2"):
                node = await Node.open(log, folder / node_id / "index")
                nodes.append(ServedNode(log, node, node_id, folder / node_id))
                await nodes[-1].server.start()
                await node.host(topic, topic.partition(ZERO))
            yield TwoNodes(log, topic, nodes)
        finally:
            for served in nodes:
                await served.close()
