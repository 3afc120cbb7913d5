"""A replica of a partition whose table has several versions: writes, barriers, versions built by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from kit.index.built_index import forget_last_batch
from kit.log.stored_log import Said, StoredLog, columns_of, put
from log_tier.embedded import EmbeddedLog
from log_tier.model.barrier import Barrier, barrier_batch
from log_tier.model.batch import encode_batch
from log_tier.model.identifiers import Offset, Partition
from log_tier.model.log import Topic
from log_tier.model.record import Operation
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.replica.applier import Applier
from serving_tier.replica.replica import Replica
from serving_tier.replica.version_folders import ReplicaFolder

__all__ = ["DEADLINE_S", "ZERO", "VersionSetting", "applied"]


ZERO = Partition(0)


DEADLINE_S = 20.0


@dataclass
class VersionSetting:
    """A log with one topic, an applier, folders."""

    log: EmbeddedLog
    topic: Topic
    applier: Applier
    folder: Path
    swaps: int = 0

    @asynccontextmanager
    async def replica(self, name: str) -> AsyncIterator[Replica]:
        folder = ReplicaFolder(self.folder / name / "0", self.topic.partition(ZERO))
        replica = await Replica.open(self.topic, folder, log=self.log, applier=self.applier)
        try:
            yield replica
            replica.check()
        finally:
            await replica.close()

    async def write(self, *said: Said, producer_id: int = 0, sequence: int = 0) -> Offset:
        batch = encode_batch(columns_of(list(said)), producer_id=producer_id, sequence=sequence)
        appended = await self.log.append(self.topic.partition(ZERO), batch)
        return Offset(appended.base_offset + len(said) - 1)

    async def swap(self, version: int, *, job: int | None = None) -> Offset:
        self.swaps += 1
        barrier = Barrier(version, self.swaps if job is None else job)
        batch = barrier_batch(barrier, producer_id=77 + self.swaps, sequence=0)
        return Offset((await self.log.append(self.topic.partition(ZERO), batch)).base_offset)

    def build(self, folder: Path, content: dict[bytes, bytes], *, base: Offset) -> None:
        """What a bulk build makes: an index with other content, at an offset of the log."""
        index = LmdbIndex.open(folder, partition=self.topic.partition(ZERO))
        made = StoredLog()
        assert len(content) <= base + 1
        noops = [Said(Operation.NOOP, b"", b"")] * (base + 1 - len(content))
        index.apply(made.append(*noops, *[put(key, value) for key, value in content.items()]))
        assert index.applied == base
        index.close()
        forget_last_batch(folder)

    async def stage(self, replica: Replica, number: int, content: dict[bytes, bytes], *, base: Offset) -> None:
        await asyncio.to_thread(self.build, replica.versions.folder.version(number), content, base=base)
        await replica.versions.add(number)


async def applied(replica: Replica, offset: Offset) -> None:
    await replica.wait_applied(offset, timeout=DEADLINE_S)
