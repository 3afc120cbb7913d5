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
from log_tier.concurrency.backoff import Backoff
from log_tier.concurrency.tasks import TaskSet
from log_tier.model.errors import DuramenError, UnknownFormat
from log_tier.model.log import Log
from log_tier.proto.cluster_pb2 import ClusterView
from log_tier.remote.remote_log import RemoteLog
from router.data.seam import Connection
from router.membership.live_membership import LiveMembership
from router.routing.routed_connection import RoutedConnection

__all__ = ["LOG_AGAIN_MAX_S", "LOG_WAIT_S", "route_from"]

logger = logging.getLogger(__name__)

# The log answers in a millisecond where it can be reached at all.
LOG_WAIT_S: Final = 1.0

# A log that was silent when the connection began is asked again: it may have been starting, or a firewall hides it.
_AGAIN_FIRST_S: Final = 1.0
LOG_AGAIN_MAX_S: Final = 30.0


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
        scheme, _, netloc = view.log_url.partition("://")
        if scheme != "grpc" or not netloc:
            connection = RoutedConnection.for_client(maps, membership, None, server)
        else:
            log = await RemoteLog.open(netloc)
            opened.push_async_callback(log.close)
            silent = await _why_silent(log)
            connection = RoutedConnection.for_client(maps, membership, log if silent is None else None, server)
            connection.closes(log.close)
            if silent is not None:
                logger.info("the log at %s is not reached from here, writes go through the server: %s", netloc, silent)
                asking = TaskSet()
                asking.start(_reach_later(log, connection), name="asking a silent log")
                connection.closes(asking.close)
        opened.pop_all()  # the connection's from now on
        return connection
    raise AssertionError("not reached")


async def _why_silent(log: Log) -> Exception | None:
    """Why the log does not answer; None: it does."""
    try:
        async with asyncio.timeout(LOG_WAIT_S):
            await log.topics()
    except (DuramenError, TimeoutError) as error:
        return error
    return None


async def _reach_later(log: Log, connection: RoutedConnection) -> None:
    """Ask the log until it answers; from then on, writes go to it."""
    backoff = Backoff(_AGAIN_FIRST_S, LOG_AGAIN_MAX_S)
    await backoff.pause()
    while await _why_silent(log) is not None:
        await backoff.pause()
    connection.reach(log)
    logger.info("the log is reached from here now, writes go to it")
