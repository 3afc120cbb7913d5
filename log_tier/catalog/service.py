"""The map over gRPC, server's side: `duramen.v1.Cluster`. A user gets the map of what is shown to it.

The server's own status and its slow calls are made elsewhere, and passed through here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal, NamedTuple

import grpc

from log_tier.catalog.catalog import Maps
from log_tier.catalog.cluster_map import ClusterMap
from log_tier.catalog.map_json import MapTexts, map_to_json
from log_tier.concurrency.sized_work import run_sized
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import Offset
from log_tier.proto import cluster_pb2, cluster_pb2_grpc
from log_tier.rpc.open_streams import OpenStreams
from log_tier.rpc.problems import abort

__all__ = [
    "TABLE_ITEMS",
    "ClusterService",
    "ServerRole",
    "ShownMap",
    "ShownToCaller",
    "StatusService",
    "everything_shown",
]

ServerRole = Literal["single", "node", "router"]

TABLE_ITEMS: Final = 10
"""Encoding a table of the map costs as much as this many keys of a read."""

# Users whose view of the newest map is kept for the next follower that is the same user.
_VIEWS_KEPT: Final = 16

_Context = grpc.aio.ServicerContext[Any, Any]


class ShownMap(NamedTuple):
    """What of a map is shown to the caller of a call."""

    to: str
    """To whom: a user; empty: to all who are shown everything."""
    made: Callable[[], ClusterMap]
    """Makes that map. O(tables); it may be called in a thread."""


ShownToCaller = Callable[[ClusterMap], ShownMap]
"""What of a map is shown to the caller of the call that the present task serves."""


def everything_shown(cluster: ClusterMap) -> ShownMap:
    """For a server that has no guard."""
    return ShownMap("", lambda: cluster)


class StatusService(cluster_pb2_grpc.ClusterServicer):
    """The methods that a server has that follows no map. `status`: its status document for the caller of the present
    call, as JSON; `slow_calls`: that of its newest slow calls, at most so many, 0: all. None: it has none.
    """

    def __init__(
        self,
        status: Callable[[], Awaitable[bytes]] | None,
        slow_calls: Callable[[int], Awaitable[bytes]] | None,
    ) -> None:
        self._status = status
        self._slow_calls = slow_calls

    async def Status(  # noqa: N802
        self, request: cluster_pb2.ServerStatusRequest, context: _Context
    ) -> cluster_pb2.ServerStatus:
        if self._status is None:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "this server has no status document")
        try:
            return cluster_pb2.ServerStatus(status=await self._status())
        except DuramenError as error:
            await abort(context, error)

    async def SlowCalls(  # noqa: N802
        self, request: cluster_pb2.SlowCallsRequest, context: _Context
    ) -> cluster_pb2.SlowCallsReply:
        if self._slow_calls is None:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "this server has no slow log")
        try:
            return cluster_pb2.SlowCallsReply(slow_calls=await self._slow_calls(request.count))
        except DuramenError as error:
            await abort(context, error)


class ClusterService(StatusService):
    """Streams the map. `log_url`: how clients reach the log; empty if they must not. `passes_log`: see
    `cluster.proto`. `shown`: what of it is shown to whom.
    """

    def __init__(
        self,
        maps: Maps,
        streams: OpenStreams,
        *,
        role: ServerRole,
        log_url: str = "",
        passes_log: bool = False,
        shown: ShownToCaller = everything_shown,
        status: Callable[[], Awaitable[bytes]] | None = None,
        slow_calls: Callable[[int], Awaitable[bytes]] | None = None,
    ) -> None:
        super().__init__(status, slow_calls)
        self._shown = shown
        self._maps = maps
        self._streams = streams
        self._role = role
        self._log_url = log_url
        self._passes_log = passes_log
        self._encoding = asyncio.Lock()
        self._whole = MapTexts()
        """Of maps of which everything is shown."""
        self._views: dict[str, cluster_pb2.ClusterView] = {}
        """By whom they are shown to: views that followers got last. All who are shown everything share one: a map of
        thousands of tables is encoded once.
        """

    async def Follow(self, request: cluster_pb2.FollowRequest, context: _Context) -> None:  # noqa: N802
        try:
            async with self._streams.served(context):
                while True:
                    view = await self._view()
                    await context.write(view)
                    if request.once:
                        return
                    shown = Offset(view.version)
                    await self._maps.wait_for(lambda cluster, shown=shown: cluster.version > shown)  # type: ignore[misc]
        except DuramenError as error:
            await abort(context, error)

    async def _view(self) -> cluster_pb2.ClusterView:
        """The newest map as a message for the caller. 40 µs a table that is new there; many tables are encoded in a
        thread.
        """
        async with self._encoding:
            cluster = self._maps.map
            shown = self._shown(cluster)
            kept = self._views.pop(shown.to, None)
            if kept is None or kept.version < cluster.version:
                encode = map_to_json if shown.to else self._whole.encode
                text = await run_sized(TABLE_ITEMS * len(cluster.tables), lambda: encode(shown.made()))
                kept = cluster_pb2.ClusterView(
                    version=cluster.version,
                    map=text,
                    log_url=self._log_url,
                    role=self._role,
                    passes_log=self._passes_log,
                )
            self._views[shown.to] = kept
            if len(self._views) > _VIEWS_KEPT:
                del self._views[next(iter(self._views))]
            return kept
