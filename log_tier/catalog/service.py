"""The map over gRPC, server's side: `duramen.v1.Cluster`."""

from __future__ import annotations

import asyncio
from typing import Any, Final, Literal

import grpc

from log_tier.catalog.catalog import Maps
from log_tier.catalog.cluster_map import ClusterMap
from log_tier.catalog.map_json import map_to_json
from log_tier.concurrency.sized_work import run_sized
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import Offset
from log_tier.proto import cluster_pb2, cluster_pb2_grpc
from log_tier.rpc.open_streams import OpenStreams
from log_tier.rpc.problems import abort

__all__ = ["TABLE_ITEMS", "ClusterService", "ServerRole"]

ServerRole = Literal["single", "node", "router"]

TABLE_ITEMS: Final = 10
"""Encoding a table of the map costs as much as this many keys of a read."""

_Context = grpc.aio.ServicerContext[Any, Any]


class ClusterService(cluster_pb2_grpc.ClusterServicer):
    """Streams the map. `log_url`: how clients reach the log; empty if they must not."""

    def __init__(self, maps: Maps, streams: OpenStreams, *, role: ServerRole, log_url: str = "") -> None:
        self._maps = maps
        self._streams = streams
        self._role = role
        self._log_url = log_url
        self._encoding = asyncio.Lock()
        self._newest: cluster_pb2.ClusterView | None = None
        """The view that the followers got last. All share it: a map of thousands of tables is encoded once."""

    async def Follow(self, request: cluster_pb2.FollowRequest, context: _Context) -> None:  # noqa: N802
        try:
            async with self._streams.served(context):
                cluster = self._maps.map
                while True:
                    view = await self._view(cluster)
                    await context.write(view)
                    if request.once:
                        return
                    shown = Offset(view.version)
                    cluster = await self._maps.wait_for(lambda cluster, shown=shown: cluster.version > shown)  # type: ignore[misc]
        except DuramenError as error:
            await abort(context, error)

    async def _view(self, cluster: ClusterMap) -> cluster_pb2.ClusterView:
        """`cluster` as a message, or a newer map. 40 µs a table; many tables are encoded in a thread."""
        async with self._encoding:
            if self._newest is not None and self._newest.version >= cluster.version:
                return self._newest
            cluster = self._maps.map
            text = await run_sized(TABLE_ITEMS * len(cluster.tables), lambda: map_to_json(cluster))
            self._newest = cluster_pb2.ClusterView(
                version=cluster.version, map=text, log_url=self._log_url, role=self._role
            )
            return self._newest
