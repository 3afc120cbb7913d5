"""A log that has topics of others, for tests: an embedded log, some of whose topics count as somebody else's.

It replaces the seam alone. What is behind it is a real log, with real records.
"""

from __future__ import annotations

from typing import Any

from log_tier.embedded import EmbeddedLog
from log_tier.model.errors import TableNotFound
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId
from log_tier.model.log import Topic
from log_tier.model.retention import Retention


class OthersLog:
    """Passes everything on; `removals` records what would take something away from a topic of others."""

    def __init__(self, inner: EmbeddedLog) -> None:
        self._inner = inner
        self._others: dict[str, Topic] = {}
        self.removals: list[tuple[str, TableId]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def make_topic_of_others(self, name: str, *, partitions: int) -> Topic:
        self._others[name] = await self._inner.create_topic(name, partitions=partitions)
        return self._others[name]

    async def adopt_topic(self, name: str) -> Topic:
        if name not in self._others:
            raise TableNotFound(f"there is no topic {name!r}")
        return self._others[name]

    async def topics(self) -> list[Topic]:
        others = {topic.id for topic in self._others.values()}
        return [topic for topic in await self._inner.topics() if topic.id not in others]

    async def delete_topic(self, topic: TableId) -> None:
        self._record("delete", topic)
        await self._inner.delete_topic(topic)

    async def trim(self, partition: PartitionId, before: Offset) -> Offset:
        self._record("trim", partition.table)
        return await self._inner.trim(partition, before)

    async def retain(self, partition: PartitionId, retention: Retention, *, below: Offset) -> Offset:
        self._record("retain", partition.table)
        return await self._inner.retain(partition, retention, below=below)

    async def compact(self, partition: PartitionId, below: Offset) -> int:
        self._record("compact", partition.table)
        return await self._inner.compact(partition, below)

    def _record(self, what: str, topic: TableId) -> None:
        if topic in {other.id for other in self._others.values()}:
            self.removals.append((what, topic))

    async def lose(self, name: str, partition: int, before: int) -> Offset:
        """Let the owners of a topic trim it; the earliest offset that is left."""
        return await self._inner.trim(PartitionId(self._others[name].id, Partition(partition)), Offset(before))
