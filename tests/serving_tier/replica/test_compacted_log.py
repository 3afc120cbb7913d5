"""An index of before a compaction and the log that the compaction left: what it took is missed by nobody.

A compaction drops an old delete with what it deleted, and every put that a later one of its key overwrites. So an index
that goes on from within the compacted part keeps deleted keys for ever, and lacks keys until it is beyond that part.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from kit.deadlines import until
from kit.index.one_replica import ReplicaSetting

from log_tier.embedded import EmbeddedLog, EngineSettings
from log_tier.model.batch import Columns, encode_batch
from log_tier.model.errors import OffsetTrimmed
from log_tier.model.identifiers import Offset, Partition
from log_tier.model.log import ReadChunk
from log_tier.model.record import Operation, attribute_of
from serving_tier.replica.applier import Applier
from serving_tier.replica.replica import Replica
from serving_tier.replica.version_folders import ReplicaFolder

DEADLINE_S = 20
NOW = EngineSettings(segment_bytes=1024, tombstone_ms=1)
"""Small segments; deletes are old enough to go at once."""


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncIterator[ReplicaSetting]:
    """The clock of the log stands an hour after every write, so that deletes are old."""
    applier = Applier()
    applier.start()
    times = iter(range(1_000_000, 10**9, 1000))
    async with await EmbeddedLog.open(tmp_path / "log", settings=NOW, clock=lambda: next(times)) as log:
        topic = await log.create_topic("flights", partitions=1)
        yield ReplicaSetting(log, topic, applier, tmp_path / "index")
    await applier.stop()


async def delete(setting: ReplicaSetting, key: bytes) -> None:
    columns = Columns([key], [b""], [attribute_of(Operation.DELETE)])
    await setting.log.append(setting.topic.partition(Partition(0)), encode_batch(columns))


async def compacted(setting: ReplicaSetting) -> Offset:
    """A delete of `gone` and a new value of `kept`, and a compaction of both; the offset below which it dropped."""
    await delete(setting, b"gone")
    await setting.write(b"kept", value=b"new")
    for number in range(40):
        await setting.write(b"filler%d" % number, value=b"x" * 40)
    partition = setting.topic.partition(Partition(0))
    dropped = await setting.log.compact(partition, Offset((await setting.log.bounds(partition)).latest))
    assert dropped >= 3, "both puts and the delete"
    return (await setting.log.bounds(partition)).compacted


async def test_an_index_of_before_the_compaction_is_not_carried_on(setting: ReplicaSetting) -> None:
    """It was, and served the deleted key for ever."""
    replica = await setting.open()
    await replica.wait_applied(await setting.write(b"gone", b"kept"), timeout=DEADLINE_S)
    await replica.close()
    below = await compacted(setting)
    folder = ReplicaFolder(setting.folder / "0", setting.topic.partition(Partition(0)))
    with pytest.raises(OffsetTrimmed, match=f"has applied 1, .* compacted below {below}"):
        await Replica.open(setting.topic, folder, log=setting.log, applier=setting.applier, repair=False)


async def test_a_new_index_folds_what_is_left(setting: ReplicaSetting) -> None:
    await setting.write(b"gone", b"kept")
    await compacted(setting)
    replica = await setting.open()
    await replica.wait_applied(Offset(43), timeout=DEADLINE_S)
    assert replica.index.get_value(b"gone") is None
    assert replica.index.get_value(b"kept") == b"new"
    await replica.close()


class LogReadLater:
    """A log whose readers get nothing until they may."""

    def __init__(self, log: EmbeddedLog) -> None:
        self._log = log
        self.may_read = asyncio.Event()
        self.asked = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def read(self, *args: Any, **options: Any) -> AsyncGenerator[ReadChunk, None]:
        self.asked = True
        await self.may_read.wait()
        async for chunk in self._log.read(*args, **options):
            yield chunk


async def test_a_replica_that_lags_behind_a_compaction_stops(setting: ReplicaSetting) -> None:
    """It went on, showed neither value of a key that was overwritten, and kept one that was deleted."""
    first = await setting.open()
    await first.wait_applied(await setting.write(b"gone", b"kept"), timeout=DEADLINE_S)
    await first.close()
    held: Any = LogReadLater(setting.log)
    folder = ReplicaFolder(setting.folder / "0", setting.topic.partition(Partition(0)))
    replica = await Replica.open(setting.topic, folder, log=held, applier=setting.applier)
    below = await compacted(setting)
    held.may_read.set()
    await until(lambda: replica.state == "stopped")
    assert isinstance(replica.failure, OffsetTrimmed)
    assert f"compacted below {below}" in replica.failure.message
    assert replica.applied == 1
    await replica.close()


async def test_a_new_index_is_read_beyond_the_compacted_part(setting: ReplicaSetting) -> None:
    """The states on the way are none that the log ever had."""
    await setting.write(b"gone", b"kept")
    below = await compacted(setting)
    held: Any = LogReadLater(setting.log)
    folder = ReplicaFolder(setting.folder / "0", setting.topic.partition(Partition(0)))
    opening = asyncio.create_task(Replica.open(setting.topic, folder, log=held, applier=setting.applier))
    await until(lambda: held.asked)
    assert not opening.done()
    held.may_read.set()
    replica = await opening
    assert replica.applied >= below - 1
    assert replica.index.get_value(b"kept") == b"new"
    await replica.close()
