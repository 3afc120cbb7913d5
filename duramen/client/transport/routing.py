"""A connection to a cluster of several nodes: each call goes to the node that has its key, and a write to the log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Final

from log_tier.catalog.map_follower import MapFollower
from log_tier.catalog.remote.cluster_view import view_of
from log_tier.catalog.remote.remote_maps import RemoteMaps
from log_tier.model.errors import DuramenError, UnknownFormat
from log_tier.model.log import Log
from log_tier.proto.cluster_pb2 import ClusterView
from log_tier.remote.remote_log import RemoteLog
from router.data.seam import Connection
from router.membership.live_membership import LiveMembership
from router.routing.routed_connection import RoutedConnection

__all__ = ["route_from"]

logger = logging.getLogger(__name__)

# The log answers in a millisecond where it can be reached at all.
_LOG_S: Final = 1.0


async def route_from(targets: Sequence[str], answer: ClusterView, server: Connection) -> Connection:
    """Follow the map from the first of `targets`, which gave this answer, and connect to the nodes and the log.

    `server` passes on what cannot be reached from here; it does everything where the map is of a later version than
    this process knows. It belongs to the connection from now on, and is closed if that fails.
    """
    async with AsyncExitStack() as opened:
        opened.push_async_callback(server.close)
        try:
            view = await view_of(answer)
        except UnknownFormat:
            opened.pop_all()
            return server
        maps = await RemoteMaps.open(targets[0], view, *targets[1:])
        opened.push_async_callback(maps.close)
        membership = await LiveMembership.open(MapFollower(maps))
        opened.push_async_callback(membership.close)
        log = await _reached(view.log_url)
        connection = RoutedConnection.for_client(maps, membership, log, server)
        opened.pop_all()  # the connection's from now on
        return connection
    raise AssertionError("not reached")


async def _reached(url: str) -> Log | None:
    """The log, where it can be reached from here."""
    scheme, _, netloc = url.partition("://")
    if scheme != "grpc" or not netloc:
        return None
    log = await RemoteLog.open(netloc)
    try:
        async with asyncio.timeout(_LOG_S):
            await log.topics()
    except (DuramenError, TimeoutError) as error:
        logger.info("the log at %s is not reached from here, writes go through the server: %s", url, error)
        await log.close()
        return None
    except BaseException:
        await log.close()
        raise
    return log
