"""Ask a server once what it is, and how the cluster looks to it."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

from log_tier.model.errors import ShuttingDown
from log_tier.proto import cluster_pb2, cluster_pb2_grpc
from log_tier.rpc.wire import Wire

__all__ = ["ask_cluster"]


async def ask_cluster(target: str, *, timeout: float) -> cluster_pb2.ClusterView:
    """What the server at `target` answers: its role, how clients reach the log, and the cluster map as JSON, which
    `cluster_view.py` reads.

    Raises `Disconnected`, `UnknownFormat`, and `TimeoutError` after `timeout` seconds.
    """
    wire, view = Wire(target), None
    try:
        async with asyncio.timeout(timeout):
            stub = cluster_pb2_grpc.ClusterStub(wire.channel)  # type: ignore[no-untyped-call]
            replies: Any = wire.stream(stub.Follow, cluster_pb2.FollowRequest(once=True))
            async with aclosing(replies) as views:
                view = await anext(views, None)
    finally:
        await wire.close()
    if not isinstance(view, cluster_pb2.ClusterView):
        raise ShuttingDown(f"the server at {target} ended before it sent the cluster map")
    return view
