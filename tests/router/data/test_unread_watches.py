"""What a watch reads of the log for a subscriber that takes nothing is bounded, whatever the table has."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from kit.cluster.one_machine import DEADLINE_S, one_machine, puts

from log_tier.model.identifiers import Offset, Partition
from log_tier.model.log import Log
from log_tier.rows.table_spec import TableSpec
from router.data import watch
from router.data.requests import WritePart, WriteResult
from router.data.watch import watch_replicas

VALUE = b"x" * 2_000
BATCHES, RECORDS = 8, 20


class GivenBytesLog:
    """A log that counts the bytes of the chunks that readers were given."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.given = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def read(self, *place: Any, **how: Any) -> AsyncGenerator[Any, None]:
        reader: Any = self._log.read(*place, **how)
        async with aclosing(reader) as chunks:
            async for chunk in chunks:
                self.given += len(chunk.data)
                yield chunk


@pytest.mark.parametrize("partitions", [1, 4, 16])
async def test_a_watch_that_nobody_reads_holds_little(
    tmp_path: Path, partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds the chunk that it gave, whatever the number of partitions; once it held one of each and 16 more."""
    # On a busy machine a read takes longer than a follower may keep the turn for, and the next one reads as well.
    monkeypatch.setattr(watch, "_SLOW_S", DEADLINE_S)
    async with one_machine(tmp_path) as plane:
        table = await plane.create_table(TableSpec("flights", partitions), timeout=DEADLINE_S)
        for number in map(Partition, range(partitions)):
            for turn in range(BATCHES * 4):
                batch = puts(*((b"%d.%d.%d" % (number, turn, each), VALUE) for each in range(RECORDS)))
                (done,) = await plane.write([WritePart(table.partition(number), batch)], timeout=DEADLINE_S)
                assert isinstance(done, WriteResult), done
        replicas = [plane.node.replica(table.partition(number)) for number in map(Partition, range(partitions))]
        for replica in replicas:  # one that has applied nothing is waited for with a chunk at hand
            await replica.wait_applied(Offset(BATCHES * 4 * RECORDS - 1), timeout=DEADLINE_S)
        counted = GivenBytesLog(plane.log)
        log: Any = counted
        shown: dict[Partition, int] = dict.fromkeys(map(Partition, range(partitions)), 0)
        start = dict.fromkeys(shown, Offset(0))
        async with aclosing(watch_replicas(log, replicas, start, plane.node.deliveries)) as events:
            await anext(events)
            event = await anext(events)
            # The followers have begun, and read what they may: a read of this log takes a few turns of the loop.
            for _ in range(100):
                await asyncio.to_thread(int)
            assert counted.given == len(event.batches) <= 256 * 1024 + RECORDS * len(VALUE) * 2
            while True:
                shown[event.partition] = int(event.latest)
                if all(latest >= BATCHES * 4 * RECORDS - 1 for latest in shown.values()):
                    break
                event = await anext(events)
