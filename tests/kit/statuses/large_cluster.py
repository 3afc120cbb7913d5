"""Twenty nodes that say what four nodes said: each a gRPC server, registered in the catalog, with its own replicas.

A node of the large cluster repeats one node of the recording, in real time and again and again; a stream that is opened
late begins with all that was said until then, as a node's does. Each of its replicas, as the catalog has placed them,
repeats one replica of that node, at offsets of its own. When the recording begins anew its offsets go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import grpc

from duramen.server.roles.log_role import LogRole
from duramen.server.roles.router_role import RouterRole
from kit.statuses.recording import SaidStatus, read_recording
from log_tier.catalog.catalog import Catalog
from log_tier.catalog.commands import CreateTable, RegisterNode
from log_tier.model.identifiers import PartitionId, partition_id, table_id_to_bytes
from log_tier.rpc.channel import SERVER_OPTIONS
from serving_tier.proto import node_pb2, node_pb2_grpc

__all__ = ["RepeatingNode", "large_cluster"]

_SHIFT = 1_000_000
_REPLICAS = 3

_Context = grpc.aio.ServicerContext[Any, Any]


class RepeatingNode(node_pb2_grpc.NodeServicer):
    """`duramen.v1.Node/Status` of one node."""

    def __init__(self, name: str, said: Sequence[SaidStatus], *, begins_s: float) -> None:
        """`said`: by one node of the recording, of which it is at `begins_s` now."""
        self.name = name
        self.version = 0
        self.placed: list[PartitionId] = []
        self.deaths = 0
        """How often its stream ended as that of the node that was killed."""
        self._stays_dead = False
        self._said = said
        self._began_s = asyncio.get_running_loop().time() - begins_s
        names = sorted({_name(each) for _, _, message in said if message for each in message.replicas})
        self._number = {name: number for number, name in enumerate(names)}

    def stay_dead(self) -> None:
        """Do not come back from the next death, as the recording does after six seconds, before `come_back`."""
        self._stays_dead = True

    def come_back(self) -> None:
        """Go on behind the death."""
        self._stays_dead = False
        (back_s, *_) = [then.at_s for each, then in pairwise(self._said) if each.message is None]
        loop, lasts_s = asyncio.get_running_loop(), self._said[-1].at_s
        self._began_s = loop.time() - back_s - (loop.time() - self._began_s) // lasts_s * lasts_s

    def _repeated(self, message: node_pb2.NodeStatus, rounds: int) -> node_pb2.NodeStatus:
        said = node_pb2.NodeStatus()
        said.CopyFrom(message)
        del said.replicas[:], said.gone[:], said.tasks[:]
        said.node = said.identity = self.name
        said.map_version = self.version
        for each in message.replicas:
            for place in range(self._number[_name(each)], len(self.placed), len(self._number)):
                shift = place * _SHIFT + rounds * _SHIFT // 100
                replica = said.replicas.add()
                replica.CopyFrom(each)
                table, replica.partition = self.placed[place]
                replica.table_id = table_id_to_bytes(table)
                replica.applied, replica.latest = each.applied + shift, each.latest + shift
                if each.HasField("proven"):
                    replica.proven = each.proven + shift
        return said

    def _until(self, now_s: float) -> tuple[int, node_pb2.NodeStatus | None]:
        """How many of what was said is over, and all of it in one message; None: it is dead now."""
        whole: node_pb2.NodeStatus | None = None
        replicas: dict[tuple[bytes, int], node_pb2.ReplicaStatus] = {}
        over = 0
        for at_s, _, message in self._said:
            if at_s > now_s and over:
                break
            over += 1
            whole = message
            replicas |= {_name(each): each for each in message.replicas} if message is not None else {}
        if whole is not None:
            first = node_pb2.NodeStatus()
            first.CopyFrom(whole)
            del first.replicas[:]
            first.replicas.extend(replicas.values())
            whole = first
        return over, whole

    async def Status(  # noqa: N802
        self, request: node_pb2.StatusRequest, context: _Context
    ) -> AsyncIterator[node_pb2.NodeStatus]:
        loop, lasts_s = asyncio.get_running_loop(), self._said[-1].at_s
        rounds, now_s = divmod(loop.time() - self._began_s, lasts_s)
        over, whole = self._until(now_s)
        if whole is None or (self._stays_dead and self.deaths):
            await context.abort(grpc.StatusCode.UNAVAILABLE, "its process was killed")
            return
        yield self._repeated(whole, int(rounds))
        while True:
            for at_s, _, message in self._said[over:]:
                # Where the machine is late, all that follows is late as well: nobody catches up at the cost of others.
                late_s = loop.time() - (self._began_s + rounds * lasts_s + at_s)
                self._began_s += max(0.0, late_s)
                await asyncio.sleep(max(0.0, -late_s))
                if message is None:
                    self.deaths += 1
                    await context.abort(grpc.StatusCode.UNAVAILABLE, "its process was killed")
                    return
                yield self._repeated(message, int(rounds))
            over, rounds = 0, rounds + 1


def _name(replica: node_pb2.ReplicaStatus) -> tuple[bytes, int]:
    return replica.table_id, replica.partition


def _recorded_nodes() -> Iterator[list[SaidStatus]]:
    said = read_recording()
    for node in sorted({each.node for each in said}):
        yield [each for each in said if each.node == node]


@asynccontextmanager
async def large_cluster(
    folder: Path, *, nodes: int = 20, tables: int = 10, partitions: int = 100
) -> AsyncIterator[tuple[RouterRole, list[RepeatingNode]]]:
    """A router with its HTTP port, in front of so many nodes and `tables` × `partitions` of three replicas each."""
    async with AsyncExitStack() as opened:
        log = await LogRole.open(folder / "log", host="127.0.0.1", port=0)
        opened.push_async_callback(log.close)
        catalog = await Catalog.open(log.log)
        opened.push_async_callback(catalog.close)
        recorded = list(_recorded_nodes())
        repeating: list[RepeatingNode] = []
        for number in range(nodes):
            of_recording = recorded[number % len(recorded)]
            name = f"n{number + 1}"
            node = RepeatingNode(name, of_recording, begins_s=number // len(recorded))  # not all die at once
            server = grpc.aio.server(options=SERVER_OPTIONS)
            node_pb2_grpc.add_NodeServicer_to_server(node, server)  # type: ignore[no-untyped-call]
            port = server.add_insecure_port("127.0.0.1:0")
            await server.start()
            opened.push_async_callback(server.stop, None)
            await catalog.submit(RegisterNode(name, f"127.0.0.1:{port}", name))
            repeating.append(node)
        for number in range(tables):
            topic = await log.log.create_topic(f"t{number}", partitions=partitions)
            await catalog.submit(CreateTable(topic.id, topic.name, partitions, _REPLICAS))
        for node in repeating:
            node.version = catalog.map.version
            node.placed = [
                partition_id(table.id, partition)
                for table in catalog.map.tables.values()
                for partition, assigned in enumerate(table.assignments)
                if any(each.node == node.name for each in assigned)
            ]
        router = await RouterRole.open(log_url=f"grpc://127.0.0.1:{log.port}", host="127.0.0.1", port=0)
        opened.push_async_callback(router.close)
        await router.serve_http(0)
        yield router, repeating
