"""The map from a server that follows the catalog: `Maps` for processes without a log of their own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing
from typing import Any, Final

from log_tier.catalog.cluster_map import ClusterMap
from log_tier.catalog.remote.cluster_view import ClusterView, read_map
from log_tier.concurrency.background import run_forever
from log_tier.concurrency.backoff import Backoff
from log_tier.concurrency.tasks import end_tasks
from log_tier.model.errors import DuramenError, ShuttingDown, UnknownFormat
from log_tier.model.identifiers import Offset
from log_tier.proto import cluster_pb2, cluster_pb2_grpc
from log_tier.rpc.wire import Wire

__all__ = ["RemoteMaps"]

logger = logging.getLogger(__name__)

_PAUSE_FIRST_S: Final = 0.05
_PAUSE_MAX_S: Final = 2.0


class RemoteMaps:
    """`Maps` from one of several servers, and from the next one when the connection is lost. `open()` makes one.

    Invariant: the version never falls, also where the next server is behind the last one.
    """

    def __init__(self, targets: list[str], first: ClusterMap) -> None:
        # With all commands of the catalog, which a client that fetches one view has no use for.
        from log_tier.catalog.catalog import MapFeed

        self._targets = targets
        self._feed = MapFeed()
        self._feed.advance(first)
        self._follower: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, target: str, view: ClusterView, *others: str) -> RemoteMaps:
        """Follow from a first view on. The maps come from `target`, `others` and the nodes of the map, in turn."""
        maps = cls([target, *others], view.map)
        maps._follower = run_forever(maps._follow(), name=f"follow map at {target}", failed=maps._feed.fail)
        return maps

    @property
    def map(self) -> ClusterMap:
        """The newest map that is known here."""
        return self._feed.map

    async def wait_for(self, predicate: Callable[[ClusterMap], bool], *, timeout: float | None = None) -> ClusterMap:
        return await self._feed.wait_for(predicate, timeout=timeout)

    async def _follow(self) -> None:
        backoff, turn = Backoff(_PAUSE_FIRST_S, _PAUSE_MAX_S), 0
        while True:
            known = [*self._targets, *sorted(node.address for node in self.map.nodes.values() if node.address)]
            target = known[turn % len(known)]
            turn += 1
            wire = Wire(target)
            try:
                stub = cluster_pb2_grpc.ClusterStub(wire.channel)  # type: ignore[no-untyped-call]
                replies: Any = wire.stream(stub.Follow, cluster_pb2.FollowRequest())
                async with aclosing(replies) as views:
                    async for message in views:
                        if Offset(message.version) > self.map.version:
                            self._feed.advance(await read_map(message.map))
                        backoff.heard()
            except UnknownFormat as error:
                logger.warning("the map at %s is not followed: %s", target, error)
            except DuramenError as error:
                logger.info("the map at %s is lost: %s", target, error)
            finally:
                await wire.close()
            await backoff.pause()

    async def close(self) -> None:
        """Stop following. Idempotent."""
        try:
            await end_tasks(self._follower)
        finally:
            self._feed.fail(ShuttingDown("the database was closed, and follows the cluster's map no longer"))
