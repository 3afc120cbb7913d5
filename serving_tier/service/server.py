"""The service `duramen.v1.Node`: each method asks the part that knows, and translates."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final, cast

import grpc

from log_tier.access.current import CALLER
from log_tier.concurrency.tasks import every_step
from log_tier.model.errors import DeadlineExceeded, DuramenError
from log_tier.model.identifiers import Offset, Partition, PartitionId, table_id_from_bytes
from log_tier.rpc.open_streams import OpenStreams
from log_tier.rpc.problems import abort
from log_tier.rpc.time_left import time_left_s
from serving_tier.node.node import Node
from serving_tier.proto import node_pb2, node_pb2_grpc
from serving_tier.service.copies import Copies
from serving_tier.service.digests import Digests, digest_reply
from serving_tier.service.shown_status import ShownStatus
from serving_tier.service.status_feed import NodeStatusFeed
from serving_tier.service.tallies import tally_reply
from serving_tier.service.voids import void_offsets

__all__ = ["NodeService"]

_Context = grpc.aio.ServicerContext[Any, Any]

# For callers that set no deadline. A digest of ten million keys takes some 10 s.
_TIMEOUT_DEFAULT_S: Final = 60.0

# A receiver syncs a file of some GiB in between.
_STALLED_S: Final = 60.0


class NodeService(node_pb2_grpc.NodeServicer):
    """Serves one node. `streams` are the streams under way, which a shutdown ends; then `close()`."""

    def __init__(self, node: Node, feed: NodeStatusFeed, streams: OpenStreams, *, copies_folder: Path) -> None:
        """`copies_folder`: where copies lie while they are sent, and nothing else; an index must fit on its disk."""
        self._node = node
        self._feed = feed
        self._streams = streams
        self._digests = Digests()
        self._copies = Copies(copies_folder)

    async def Status(self, request: node_pb2.StatusRequest, context: _Context) -> None:  # noqa: N802
        try:
            shown = ShownStatus(self._feed.maps, CALLER.get())
            shown.has_changed()
            if request.once:
                await context.write(shown.of(await self._feed.once()))
                return
            async with self._streams.served(context), aclosing(cast("Any", self._feed.subscribe())) as messages:
                async for message in messages:
                    if shown.has_changed():
                        await context.write(shown.of(await self._feed.once(), whole=True))
                    await context.write(shown.of(message))
        except DuramenError as error:
            await abort(context, error)

    async def Copy(self, request: node_pb2.CopyRequest, context: _Context) -> None:  # noqa: N802
        try:
            replica = self._node.replica(
                PartitionId(table_id_from_bytes(request.table_id), Partition(request.partition))
            )
            async with self._streams.served(context), aclosing(self._copies.send(replica)) as parts:
                async for part in parts:
                    await _within_patience(context.write(node_pb2.CopyChunk(**part._asdict())))
        except DuramenError as error:
            await abort(context, error)

    async def Digest(  # noqa: N802
        self, request: node_pb2.DigestRequest, context: _Context
    ) -> node_pb2.DigestReply:
        try:
            timeout = time_left_s(context, default_s=_TIMEOUT_DEFAULT_S)
            return await digest_reply(self._digests, self._node, request, timeout=timeout)
        except DuramenError as error:
            await abort(context, error)

    async def Tally(self, request: node_pb2.TallyRequest, context: _Context) -> node_pb2.TallyReply:  # noqa: N802
        try:
            return await tally_reply(self._node, request)
        except DuramenError as error:
            await abort(context, error)

    async def Voids(self, request: node_pb2.VoidsRequest, context: _Context) -> node_pb2.VoidsReply:  # noqa: N802
        try:
            replica = self._node.replica(
                PartitionId(table_id_from_bytes(request.table_id), Partition(request.partition))
            )
            timeout = time_left_s(context, default_s=_TIMEOUT_DEFAULT_S)
            found = await void_offsets(replica, Offset(request.first), Offset(request.last), timeout=timeout)
        except DuramenError as error:
            await abort(context, error)
        return node_pb2.VoidsReply(offsets=found)

    async def close(self) -> None:
        """End what is under way. Idempotent."""
        await every_step(self._feed.close, self._digests.close)


async def _within_patience(writing: Coroutine[Any, Any, None]) -> None:
    """Send a part; a receiver that takes none for long would keep the copy, and its place, from all other nodes."""
    try:
        async with asyncio.timeout(_STALLED_S):
            await writing
    except TimeoutError:
        raise DeadlineExceeded(f"the receiver took nothing of the copy for {_STALLED_S:g} s: ask again") from None
