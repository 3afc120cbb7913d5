"""What a server says about the cluster, with the map read."""

from __future__ import annotations

from functools import partial
from typing import Final

from log_tier.catalog.cluster_map import ClusterMap
from log_tier.catalog.map_json import map_from_json
from log_tier.catalog.remote.cluster_question import ask_cluster
from log_tier.concurrency.sized_work import run_sized
from log_tier.proto import cluster_pb2

__all__ = ["ClusterView", "fetch_view", "read_map", "view_of"]

# Reading 20 bytes of a map costs as much as one key of a read; a table has some 200 bytes.
_ITEM_BYTES: Final = 20


class ClusterView:
    """A server's reply about the cluster: the map, how clients reach the log, and what the server is and does."""

    __slots__ = ("log_url", "map", "passes_log", "role")

    def __init__(self, message: cluster_pb2.ClusterView) -> None:
        self.map = map_from_json(message.map)
        self.log_url = message.log_url
        self.role = message.role
        self.passes_log = message.passes_log


async def fetch_view(target: str, *, timeout: float) -> ClusterView:
    """Ask one server once. Raises `Disconnected`, `UnknownFormat`, and `TimeoutError` after `timeout` seconds."""
    return await view_of(await ask_cluster(target, timeout=timeout))


async def view_of(message: cluster_pb2.ClusterView) -> ClusterView:
    """Read a server's reply. Raises `UnknownFormat` for a map of a later version than this process knows."""
    return await run_sized(len(message.map) // _ITEM_BYTES, partial(ClusterView, message))


async def read_map(text: bytes) -> ClusterMap:
    """The map of this JSON. Raises `UnknownFormat` for one of a later version than this process knows."""
    return await run_sized(len(text) // _ITEM_BYTES, lambda: map_from_json(text))
