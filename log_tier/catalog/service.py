"""The map over gRPC, server's side: `duramen.v1.Cluster`."""

from __future__ import annotations

from typing import Any, Literal

import grpc

from log_tier.catalog.catalog import Maps
from log_tier.catalog.map_json import map_to_json
from log_tier.model.errors import DuramenError
from log_tier.proto import cluster_pb2, cluster_pb2_grpc
from log_tier.rpc.problems import abort
from log_tier.rpc.streams import OpenStreams

__all__ = ["ClusterService", "ServerRole"]

ServerRole = Literal["single", "node", "router"]

_Context = grpc.aio.ServicerContext[Any, Any]


class ClusterService(cluster_pb2_grpc.ClusterServicer):
    """Streams the map. `log_url`: how clients reach the log, empty where they shall not."""

    def __init__(self, maps: Maps, streams: OpenStreams, *, role: ServerRole, log_url: str = "") -> None:
        self._maps = maps
        self._streams = streams
        self._role = role
        self._log_url = log_url

    async def Follow(self, request: cluster_pb2.FollowRequest, context: _Context) -> None:  # noqa: N802
        try:
            async with self._streams.served(context):
                cluster = self._maps.map
                while True:
                    view = cluster_pb2.ClusterView(
                        version=cluster.version, map=map_to_json(cluster), log_url=self._log_url, role=self._role
                    )
                    await context.write(view)
                    if request.once:
                        return
                    shown = cluster.version
                    cluster = await self._maps.wait_for(lambda cluster, shown=shown: cluster.version > shown)  # type: ignore[misc]
        except DuramenError as error:
            await abort(context, error)
