"""The membership of a process that is the whole cluster: its own node, looked at without a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any, cast

from log_tier.model.errors import DeadlineExceeded, Disconnected, DuramenError, InvalidRequest
from log_tier.model.identifiers import PartitionId
from router.membership.status_views import renewed
from router.membership.views import NodeView, ReplicaView
from serving_tier.node.hosting import Hosting
from serving_tier.proto import node_pb2
from serving_tier.service.digests import Digests, digest_reply
from serving_tier.service.status_feed import NodeStatusFeed
from serving_tier.service.tallies import tally_reply

__all__ = ["LocalMembership"]


class _Replicas(Mapping[PartitionId, ReplicaView]):
    """The replicas of this process. Each is looked at once, when it is first asked for: a change of one table among
    thousands costs no look at the others.
    """

    def __init__(self, feed: NodeStatusFeed) -> None:
        self._feed = feed
        self._seen: dict[PartitionId, ReplicaView] = {}

    def __getitem__(self, name: PartitionId) -> ReplicaView:
        if name not in self._seen:
            self._seen[name] = ReplicaView(*self._feed.replica(name))
        return self._seen[name]

    def __iter__(self) -> Iterator[PartitionId]:
        return iter(self._feed.names())

    def __len__(self) -> int:
        return len(self._feed.names())


class LocalMembership:
    """A `router.membership.views.Membership` over one `Hosting` of this process. `close()` ends it; the hosting and the
    feed are their owner's."""

    def __init__(self, hosting: Hosting, feed: NodeStatusFeed) -> None:
        self._hosting = hosting
        self._feed = feed
        self._digests = Digests()

    def nodes(self) -> Mapping[str, NodeView]:
        """What each registered node holds now; every node but this one is lost. Some 50 µs: a replica is looked at when
        a caller reads its view.
        """
        own = self._hosting.node_id
        views: dict[str, NodeView] = {}
        for node, entry in self._hosting.maps.map.nodes.items():
            reason = f"node {own} is the only one here: this process holds the whole database"
            views[node] = NodeView(node, entry.address, reason="" if node == own else reason)
        message = self._feed.now()
        before = views.get(own, NodeView(own, ""))
        view = renewed(before, message, first=True, clock_ms=message.clock_ms)
        views[own] = replace(view, replicas=_Replicas(self._feed))
        return views

    async def measure(self) -> None:
        """Measure the sizes of this node's indexes, in a thread, at most every few seconds."""
        await self._feed.measure()

    async def wait_for(self, predicate: Callable[[], bool], *, timeout: float) -> None:
        """Return when `predicate()` is true; it is called when a replica has changed, within 50 ms.

        Raises `DeadlineExceeded` after `timeout` seconds.
        """
        if predicate():
            return
        try:
            async with asyncio.timeout(timeout), aclosing(cast("Any", self._feed.subscribe())) as messages:
                async for _ in messages:
                    if predicate():
                        return
        except TimeoutError as error:
            if isinstance(error, DuramenError):
                raise
            raise DeadlineExceeded(f"what was waited for did not happen within {timeout:g} s") from None

    async def tally(self, node: str, request: node_pb2.TallyRequest, *, timeout: float) -> node_pb2.TallyReply:
        self._check_own(node)
        return await tally_reply(self._hosting.node, request)

    async def digest(self, node: str, request: node_pb2.DigestRequest, *, timeout: float) -> node_pb2.DigestReply:
        """A digest of one of this node's replicas. Raises `InvalidRequest` for any other node."""
        self._check_own(node)
        return await digest_reply(self._digests, self._hosting.node, request, timeout=timeout)

    def _check_own(self, node: str) -> None:
        if node != self._hosting.node_id:
            raise InvalidRequest(f"there is no node {node!r} here; this process is node {self._hosting.node_id}")

    def failures(self) -> Iterator[tuple[str, DuramenError]]:
        """The nodes that are not there, each with the reason."""
        for node, view in self.nodes().items():
            if not view.alive:
                yield node, Disconnected(f"node {node} at {view.address or 'no address'} is not there: {view.reason}")

    async def close(self) -> None:
        """End what is under way. Idempotent."""
        await self._digests.close()
