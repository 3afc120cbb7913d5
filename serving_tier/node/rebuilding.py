"""Rebuilding: a replica's index is fetched anew while the old one is served, and then takes its place.

    fetch into `.rebuild` ──▶ follow the log there until level ──▶ close the old one ──▶ exchange the folders ──▶ open

A partition that could be read goes on being read until the new index is level with the log. Where anything fails before
the old one is closed, the old one stays.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

from log_tier.catalog.cluster_map import TableEntry
from log_tier.concurrency.tasks import to_the_end
from log_tier.concurrency.threads import Progress
from log_tier.model.errors import InvalidRequest, Unavailable
from log_tier.model.identifiers import PartitionId
from log_tier.model.log import Topic
from serving_tier.folders import clear_away, discard
from serving_tier.names import old_folder, rebuild_folder
from serving_tier.node.node import Node
from serving_tier.node.replica_files import exchange
from serving_tier.node.staging import Staging
from serving_tier.replica.observer import ReplicaEvent
from serving_tier.replica.replica import Replica
from serving_tier.replica.version_folders import remove_versions

__all__ = ["Rebuilding"]

logger = logging.getLogger(__name__)

Fetch = Callable[[Topic, PartitionId, Path, str, Progress], Awaitable[str]]
"""As `serving_tier.node.bootstrap.Bootstrap`, a few at a time."""


class Rebuilding:
    """One rebuild of one replica. Nobody else opens or closes the replica meanwhile."""

    def __init__(
        self,
        node: Node,
        staging: Staging,
        fetch: Fetch,
        table: TableEntry,
        partition: PartitionId,
        *,
        rank: Callable[[], int],
    ) -> None:
        """`rank`: its place among the partition's replicas, which may change until the new index is hosted."""
        self._node, self._staging, self._fetch = node, staging, fetch
        self._topic, self._partition, self._rank = table.topic, partition, rank
        self._start, self._definition = table.start(partition.partition), table.definition
        self._folder = node.replica_folder(partition)
        self._new = rebuild_folder(self._folder)

    async def run(self, source: str, progress: Progress) -> str:
        """Run the rebuild; return the source of the content. Raises the error that stopped it."""
        found = await self._fetched(source, progress)
        if self._partition in self._node.hosted():
            found = await self._level(found, source, progress)
            where = f"{self._topic.name}/{self._partition.partition}"
            reason = Unavailable(f"replica {where} is put in place anew: ask again")
            await self._staging.forget(self._partition)
            await self._node.unhost(self._partition, reason, delete=False)
        await to_the_end(asyncio.to_thread(remove_versions, self._folder))
        old = old_folder(self._folder)
        await to_the_end(asyncio.to_thread(exchange, self._folder, self._new, old))
        await self._node.host(
            self._topic,
            self._partition,
            start=self._start,
            rank=self._rank(),
            source=found,
            definition=self._definition,
        )
        await to_the_end(asyncio.to_thread(clear_away, old))
        return found

    async def _fetched(self, source: str, progress: Progress) -> str:
        await to_the_end(asyncio.to_thread(discard, self._new))
        return await self._fetch(self._topic, self._partition, self._new, source, progress)

    async def _level(self, found: str, source: str, progress: Progress) -> str:
        """Have what was fetched catch up with the log; from a peer, where it lacks a version that went live since."""
        try:
            await self._follow(progress)
        except InvalidRequest as error:
            if "version" not in error.fields or source != "auto" or found.startswith("peer"):
                raise
            logger.info("%s; the copy comes from a peer", error)
            found = await self._fetched("peer", progress)
            await self._follow(progress)
        return found

    async def _follow(self, progress: Progress) -> None:
        """Follow the log until the new index is level. Raises `InvalidRequest` with the `version` that it lacks."""
        progress("replaying", 0, 0)
        replica = await self._node.open_aside(
            self._topic, self._partition, self._new, start=self._start, definition=self._definition
        )
        replica.owner = _refuse
        try:
            await replica.wait_ready()
        finally:
            await replica.close()


def _refuse(replica: Replica, event: ReplicaEvent) -> None:
    """Stop one that lies aside at the barrier of a version that it does not have: versions are not brought there."""
    if event != "version_missing":
        return
    barrier = replica.awaits
    assert barrier is not None, f"{replica.name} waits for no version"
    raise InvalidRequest(
        f"{replica.name} comes up to offset {replica.applied} only, where version {barrier.fields['version']} went "
        "live, which another node has: restore it from a peer, or from a snapshot that is younger (duramen admin "
        f"snapshot {replica.topic.name}); the replica that was to be replaced goes on",
        version=barrier.fields["version"],
    )
