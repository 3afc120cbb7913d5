"""Tables: made, found, described, dropped; and the node kept in step with the log.

The log says which tables there are; the node hosts them. Every change goes through one lock and is carried through to
its end, whatever becomes of the caller who asked for it: a table that the log has and the node does not host could
neither be found nor be made again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from log_tier.errors import DuramenError, LimitExceeded, TableExists, TableNotFound
from log_tier.identifiers import NOTHING, PARTITIONS_MAX, Partition, TableId, check_name
from log_tier.log import Log, Topic
from router.requests import PartitionDescription, TableDescription
from serving_tier.node import Node
from serving_tier.replica import Replica

__all__ = ["Tables"]

T = TypeVar("T")


class Tables:
    """The tables of one log, hosted by one node."""

    def __init__(self, log: Log, node: Node) -> None:
        self._log = log
        self._node = node
        self._changing = asyncio.Lock()
        self._changes: set[asyncio.Task[Any]] = set()

    async def _carried_through(self, change: Coroutine[Any, Any, T]) -> T:
        task = asyncio.ensure_future(change)
        self._changes.add(task)
        task.add_done_callback(self._changed)
        return await asyncio.shield(task)

    def _changed(self, task: asyncio.Task[Any]) -> None:
        self._changes.discard(task)
        if not task.cancelled():
            task.exception()  # its caller may have gone; then nobody else looks at it

    async def follow_log(self) -> None:
        """Host what the log has and the node does not, and stop hosting what the log no longer has."""
        await self._carried_through(self._follow_log())

    async def _follow_log(self) -> None:
        async with self._changing:
            there = {topic.id: topic for topic in await self._log.topics()}
            hosted = {topic.id for topic in self._node.topics()}
            for table_id in hosted - set(there):
                await self._node.drop(table_id)
            for table_id, topic in there.items():
                if table_id not in hosted:
                    await self._node.host(topic)

    def by_id(self, table_id: TableId) -> Topic:
        """A hosted table. Raises `TableNotFound`."""
        for topic in self._node.topics():
            if topic.id == table_id:
                return topic
        raise TableNotFound(f"no table has the id {table_id} here: it was dropped, or never was", table=table_id)

    def _named(self, name: str) -> Topic | None:
        return next((topic for topic in self._node.topics() if topic.name == name), None)

    def _was_deleted(self, topic: Topic) -> bool:
        """Have its replicas learnt from the log that it is gone?"""
        try:
            return isinstance(self._node.replica(topic.id, Partition(0)).failure, TableNotFound)
        except DuramenError:
            return False  # its first partition is not served, which says nothing about the table

    async def create(self, name: str, partitions: int) -> Topic:
        """Create a table. Raises `TableExists`, `InvalidName`, `LimitExceeded`."""
        check_name(name)
        if not 1 <= partitions <= PARTITIONS_MAX:
            raise LimitExceeded(
                f"a table has 1 to {PARTITIONS_MAX} partitions, not {partitions}", limit=PARTITIONS_MAX, size=partitions
            )
        return await self._carried_through(self._create(name, partitions))

    async def _create(self, name: str, partitions: int) -> Topic:
        async with self._changing:
            try:
                topic = await self._log.create_topic(name, partitions=partitions)
            except TableExists as error:
                raise TableExists(
                    f"there is a table {name!r} already: choose another name, or drop it first", table=name
                ) from error
            await self._node.host(topic)
            return topic

    async def find(self, name: str) -> Topic:
        """The table of that name. Raises `TableNotFound` naming those that are there."""
        topic = self._named(check_name(name))
        if topic is None or self._was_deleted(topic):
            await self.follow_log()  # somebody may have made it, or deleted it, at the log itself
            topic = self._named(name)
        if topic is None:
            known = ", ".join(sorted(topic.name for topic in self._node.topics())[:10]) or "none"
            raise TableNotFound(f"there is no table {name!r}; the tables are: {known}", table=name)
        return topic

    async def all(self) -> list[Topic]:
        """All tables, by name."""
        await self.follow_log()
        return sorted(self._node.topics(), key=lambda topic: topic.name)

    async def describe(self, name: str) -> TableDescription:
        """How a table stands: what each partition's log holds, and how far its replica is."""
        topic = await self.find(name)
        return TableDescription(
            topic, [await self._describe(topic, partition) for partition in map(Partition, range(topic.partitions))]
        )

    async def _describe(self, topic: Topic, partition: Partition) -> PartitionDescription:
        bounds = await self._log.bounds(topic.id, partition)
        try:
            replica: Replica = self._node.replica(topic.id, partition)
            index = replica.index
            failure = replica.failure.message if replica.failure else ""
            return PartitionDescription(
                partition,
                bounds.earliest,
                bounds.latest,
                index.applied,
                index.count(),
                index.statistics().bytes_used,
                replica.state,
                failure,
            )
        except DuramenError as error:
            return PartitionDescription(
                partition, bounds.earliest, bounds.latest, NOTHING, 0, 0, "stopped", error.message
            )

    async def drop(self, name: str) -> None:
        """Delete a table, its log and its indexes."""
        topic = await self.find(name)
        await self._carried_through(self._drop(topic))

    async def _drop(self, topic: Topic) -> None:
        async with self._changing:
            try:
                await self._log.delete_topic(topic.id)
            finally:
                # Also where the log says that it is gone: then somebody else has dropped it, and we still host it.
                if topic.id not in {found.id for found in await self._log.topics()}:
                    await self._node.drop(topic.id)

    async def close(self) -> None:
        """Wait until the changes under way are through."""
        if self._changes:
            await asyncio.wait(self._changes)
