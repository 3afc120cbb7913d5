"""What tests of a node's hosting need: a table, writes, a move, and a bootstrap that they prepare."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

from kit.log.stored_log import columns_of, put
from log_tier.catalog.catalog import Catalog
from log_tier.catalog.commands import (
    CreateTable,
    StartJob,
    TaskPlan,
)
from log_tier.embedded import EmbeddedLog
from log_tier.model.batch import encode_batch
from log_tier.model.identifiers import Offset, Partition, PartitionId
from log_tier.model.log import Topic

__all__ = ["DEADLINE_S", "ONE", "ZERO", "Sources", "append", "make_table", "start_move"]

DEADLINE_S = 20
ZERO, ONE = Partition(0), Partition(1)


class Sources:
    """A bootstrap that tests prepare."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, str]] = []
        self.copy: Path | None = None
        self.errors: list[Exception] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(
        self,
        topic: Topic,
        partition: PartitionId,
        folder: Path,
        source: str,
        progress: Callable[[str, int, int], None],
    ) -> str:
        self.asked.append((topic.name, partition.partition, source))
        progress("copying", 1, 2)
        await self.gate.wait()
        if self.errors:
            raise self.errors.pop()
        if self.copy is None:
            return "log"
        shutil.copytree(self.copy, folder)
        return "peer n9"


async def make_table(log: EmbeddedLog, catalog: Catalog, *, partitions: int = 2, replicas: int = 1) -> Topic:
    topic = await log.create_topic("flights", partitions=partitions)
    await catalog.submit(CreateTable(topic.id, "flights", partitions, replicas))
    return topic


async def append(log: EmbeddedLog, topic: Topic, partition: Partition, count: int = 1) -> Offset:
    for number in range(count):
        batch = encode_batch(columns_of([put(b"key%d" % number, b"v" * 100)]))
        last = (await log.append(topic.partition(partition), batch)).base_offset
    return last


async def start_move(catalog: Catalog, topic: Topic, source: str, target: str) -> int:
    plan = TaskPlan("move", topic.id, ZERO, target, {"from": source})
    job, _ = await catalog.submit(StartJob("move", "flights/0", (plan,)))
    return job
