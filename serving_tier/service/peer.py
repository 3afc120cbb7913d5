"""A live peer as a source of copies and verdicts: the client's side of `duramen.v1.Node/Copy` and `/Voids`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from log_tier.model.errors import DeadlineExceeded, Disconnected
from log_tier.model.identifiers import Offset, Partition, PartitionId, table_id_from_bytes, table_id_to_bytes
from log_tier.rpc.wire import Wire
from serving_tier.proto import node_pb2, node_pb2_grpc
from serving_tier.snapshots.peer_copy import CopyPart

__all__ = ["NodePeer"]


class NodePeer:
    """The node `name` at `target` (host:port). It is a `serving_tier.snapshots.peer_copy.CopySource`."""

    def __init__(self, name: str, target: str) -> None:
        self.name = name
        self._target = target

    async def copy(self, partition: PartitionId) -> AsyncGenerator[CopyPart, None]:
        """A copy made now, over a connection of its own; close it with `aclose()`.

        There is no deadline: the peer sends what it has written, as fast as its disk is. One that is dead or paused is
        noticed by the connection's own pings, within `CUT_NOTICED_S`. Raises `Disconnected`, and what the peer raises.
        """
        wire = Wire(self._target)
        try:
            stub = node_pb2_grpc.NodeStub(wire.channel)  # type: ignore[no-untyped-call]
            request = node_pb2.CopyRequest(table_id=table_id_to_bytes(partition.table), partition=partition.partition)
            replies: Any = wire.stream(stub.Copy, request)
            async with aclosing(replies) as chunks:
                async for chunk in chunks:
                    yield CopyPart(chunk.manifest, chunk.file, chunk.data, Offset(chunk.offset), chunk.bytes)
        finally:
            await wire.close()

    async def applied(self, *, timeout: float) -> Mapping[PartitionId, Offset]:
        """What each of its replicas has applied now. Over a connection of its own. Raises `Disconnected`,
        `DeadlineExceeded`.
        """
        wire = Wire(self._target)
        try:
            stub = node_pb2_grpc.NodeStub(wire.channel)  # type: ignore[no-untyped-call]
            statuses: Any = wire.stream(stub.Status, node_pb2.StatusRequest(once=True))
            async with asyncio.timeout(timeout), aclosing(statuses) as answers:
                async for answer in answers:
                    return {
                        PartitionId(table_id_from_bytes(each.table_id), Partition(each.partition)): Offset(each.applied)
                        for each in answer.replicas
                    }
            raise Disconnected(f"node {self.name} at {self._target} ended without reporting its status")
        except TimeoutError as error:
            raise DeadlineExceeded(f"node {self.name} at {self._target} did not report its status in time") from error
        finally:
            await wire.close()

    async def voids(self, partition: PartitionId, first: Offset, last: Offset, *, timeout: float) -> Sequence[int]:
        """The offsets between `first` and `last` whose records changed nothing; waits until `last` is applied there.

        Over a connection of its own. Raises what `serving_tier.service.voids.void_offsets` raises, and `Disconnected`.
        """
        wire = Wire(self._target)
        try:
            stub = node_pb2_grpc.NodeStub(wire.channel)  # type: ignore[no-untyped-call]
            request = node_pb2.VoidsRequest(
                table_id=table_id_to_bytes(partition.table), partition=partition.partition, first=first, last=last
            )
            reply = await wire.ask(stub.Voids, request, timeout=timeout)
            return list(reply.offsets)
        finally:
            await wire.close()
