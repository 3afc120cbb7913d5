"""One replica of a table of one partition: the log, the topic and the applier that it is opened with."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from kit.log.stored_log import columns_of, put
from log_tier.embedded import EmbeddedLog
from log_tier.model.batch import encode_batch
from log_tier.model.identifiers import Offset, Partition
from log_tier.model.log import Topic
from serving_tier.replica.applier import Applier
from serving_tier.replica.replica import Replica
from serving_tier.replica.version_folders import ReplicaFolder

__all__ = ["ReplicaSetting", "replica_setting"]

_ZERO = Partition(0)


@dataclass
class ReplicaSetting:
    """A log with one topic, an applier, a folder for replicas."""

    log: EmbeddedLog
    topic: Topic
    applier: Applier
    folder: Path

    async def open(self, name: str = "0", clock: Callable[[], float] = time.monotonic) -> Replica:
        """The replica in the folder of that name."""
        folder = ReplicaFolder(self.folder / name, self.topic.partition(_ZERO))
        return await Replica.open(self.topic, folder, log=self.log, applier=self.applier, clock=clock)

    async def write(self, *keys: bytes, value: bytes = b"v") -> Offset:
        """One batch of puts; the offset of its last record."""
        batch = encode_batch(columns_of([put(key, value) for key in keys]))
        appended = await self.log.append(self.topic.partition(_ZERO), batch)
        return Offset(appended.base_offset + len(keys) - 1)


@asynccontextmanager
async def replica_setting(folder: Path) -> AsyncIterator[ReplicaSetting]:
    """A log and a running applier below `folder`, no replica yet."""
    async with await EmbeddedLog.open(folder / "log") as log:
        topic = await log.create_topic("flights", partitions=1)
        applier = Applier()
        applier.start()
        yield ReplicaSetting(log, topic, applier, folder / "index")
        await applier.stop()
