"""What trims and compactions take from a log: it is read and kept before they do, so that the log can be folded from
its beginning.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, aclosing
from typing import Any

from duramen.testing.machine.story import RunStory
from duramen.verification.history import LogRecord
from duramen.verification.observations import records_of
from log_tier.embedded import EmbeddedLog
from log_tier.model.batch_header import read_header, split_batches
from log_tier.model.identifiers import NOTHING, Offset, PartitionId
from log_tier.model.retention import Retention
from log_tier.model.table_ref import TableRef

__all__ = ["KeepingLog", "KeptRecords"]


class KeptRecords:
    """Stored batches of each partition, without a gap from its first record on. Outlives the log's process."""

    def __init__(self, story: RunStory) -> None:
        self._story = story
        self._earliest: dict[PartitionId, Offset] = {}
        self._batches: dict[PartitionId, list[bytes]] = defaultdict(list)
        self._next: dict[PartitionId, Offset] = {}
        self.reading: dict[PartitionId, asyncio.Lock] = defaultdict(asyncio.Lock)

    def next_offset(self, partition: PartitionId) -> Offset:
        """The first offset that is not kept."""
        return self._next.get(partition, Offset(NOTHING + 1))

    def add(self, partition: PartitionId, data: bytes) -> None:
        """Keep what follows; batches that are there already are left out."""
        for batch in split_batches(data):
            header = read_header(batch)
            if header.base_offset >= self.next_offset(partition):
                self._batches[partition].append(bytes(batch))
                self._next[partition] = Offset(header.last_offset + 1)

    def begins(self, partition: PartitionId, earliest: Offset, why: str) -> Offset:
        """The log begins at `earliest` now."""
        if earliest > self._earliest.get(partition, 0):
            self._earliest[partition] = earliest
            self._story.met[f"log shortened by a {why}"] += 1
            self._story.tell("log", f"a {why} lets partition {partition.partition} begin at {earliest}")
        return earliest

    def compacted(self, partition: PartitionId, below: Offset, dropped: int) -> None:
        """The log has dropped so many records below an offset."""
        if dropped:
            self._story.met["log compacted"] += 1
            self._story.tell("log", f"{dropped} records of partition {partition.partition} below {below} are dropped")

    def stored(self, partition: PartitionId) -> bytes:
        """The batches of one partition."""
        return b"".join(self._batches.get(partition, ()))

    def records(self, ref: TableRef) -> Iterator[LogRecord]:
        """Those of a table, by partition and offset."""
        for number in range(ref.partitions):
            place = ref.partition(number)
            yield from records_of(place, self.stored(place))


class KeepingLog:
    """A log whose records are kept before a trim, a retention or a compaction takes them."""

    def __init__(
        self, log: EmbeddedLog, kept: KeptRecords, doing: Callable[[str], AbstractContextManager[None]]
    ) -> None:
        """`doing`: told of what nodes do by themselves, while they do it."""
        self._log, self._kept, self._doing = log, kept, doing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def trim(self, partition: PartitionId, before: Offset) -> Offset:
        """As the log's."""
        await self.keep(partition)
        return self._kept.begins(partition, await self._log.trim(partition, before), "trim")

    async def retain(self, partition: PartitionId, retention: Retention, *, below: Offset) -> Offset:
        """As the log's."""
        with self._doing("retention"):
            if below > 0:
                await self.keep(partition)
            return self._kept.begins(partition, await self._log.retain(partition, retention, below=below), "retention")

    async def compact(self, partition: PartitionId, below: Offset) -> int:
        """As the log's."""
        await self.keep(partition)
        dropped = await self._log.compact(partition, below)
        self._kept.compacted(partition, below, dropped)
        return dropped

    async def keep(self, partition: PartitionId) -> None:
        """Read and keep what the log holds of a partition now."""
        async with self._kept.reading[partition]:
            start = self._kept.next_offset(partition)
            if start > (await self._log.bounds(partition)).latest:
                return
            reader: Any = self._log.read(partition, start, follow=False)
            async with aclosing(reader) as chunks:
                async for chunk in chunks:
                    self._kept.add(partition, chunk.data)
