"""Every call to the disk fails once, in every operation of a log's life: the error is typed and names its file, and
after a restart with the disk whole again nothing acknowledged is lost."""

from __future__ import annotations

import errno
import os
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
from kit.log.engine_steps import open_log
from kit.log.in_turns import in_turns
from kit.log.sample_batches import keys_of, plain_batch, read_all

from duramen.testing.machine.memory_disk import MemoryDisk
from log_tier.embedded import EmbeddedLog, EngineSettings
from log_tier.model.errors import DiskFailed, DiskFull, DuramenError, FolderReadOnly, LogStopped, WriteUnknown
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId
from log_tier.model.log import Topic

OPTIONS = EngineSettings(
    segment_bytes=1024,
    index_every_bytes=200,
    journal_bytes=1000,
    tail_bytes_max=0,
    tombstone_ms=1,
    summary_partitions_min=1,
)
ERRNOS = (errno.EIO, errno.ENOSPC, errno.EACCES)
TYPED = (DiskFailed, DiskFull, FolderReadOnly, LogStopped, WriteUnknown)

Kept = dict[tuple[TableId, int, int], bytes]


class Life:
    """One life of a log: every operation there is. Whatever fails does so with a typed error; the life goes on."""

    def __init__(self, disk: MemoryDisk) -> None:
        self.disk = disk
        self.kept: Kept = {}
        """What was acknowledged and neither trimmed nor compacted: partition 0 of the first topic."""
        self.errors: list[DuramenError] = []

    async def attempt(self, call: Awaitable[object]) -> object:
        try:
            return await call
        except DuramenError as error:
            self.errors.append(error)
            return None

    async def live(self) -> None:
        log = await self.attempt(open_log(self.disk, OPTIONS))
        if not isinstance(log, EmbeddedLog):
            return
        topic = await self.attempt(log.create_topic("flights", partitions=3))
        if isinstance(topic, Topic):
            await self._write(log, topic)
        gone = await self.attempt(log.create_topic("gone", partitions=1))
        if isinstance(gone, Topic):
            await self.attempt(log.append(PartitionId(gone.id, Partition(0)), plain_batch("k")))
            await self.attempt(log.delete_topic(gone.id))
        await self.attempt(log.close())
        again = await self.attempt(open_log(self.disk, OPTIONS))
        if isinstance(again, EmbeddedLog):
            if isinstance(topic, Topic):
                await self._put(again, topic, 0, "again")
            await self.attempt(again.close())

    async def _write(self, log: EmbeddedLog, topic: Topic) -> None:
        for number in range(7):
            await self._put(log, topic, 0, f"k{number}")
            for partition in (1, 2):
                await self.attempt(
                    log.append(topic.partition(partition), plain_batch(f"k{number % 2}", value=b"v" * 90))
                )
        for number in range(5):
            parts = [(topic.partition(p), plain_batch(f"j{number}", value=b"v" * 60)) for p in range(3)]
            for (written, _), place in zip(parts, await log.append_many(parts), strict=True):
                if isinstance(place, DuramenError):
                    self.errors.append(place)
                elif written.partition == 0:
                    self.kept[topic.id, 0, place.base_offset] = f"j{number}".encode()
        await self.attempt(log.trim(topic.partition(1), Offset(6)))
        await self.attempt(log.compact(topic.partition(2), Offset(8)))
        await self.attempt(read_all(log, topic.id, 0))

    async def _put(self, log: EmbeddedLog, topic: Topic, partition: int, key: str) -> None:
        place = await self.attempt(log.append(topic.partition(partition), plain_batch(key, value=b"v" * 90)))
        if place is not None:
            self.kept[topic.id, partition, place.base_offset] = key.encode()  # type: ignore[attr-defined]


async def calls_of_a_life() -> tuple[int, int]:
    """How many changes and how many looks a life without failures makes."""
    disk, looks = MemoryDisk(), []
    disk.on_look = lambda what, path: looks.append(what)
    life = Life(disk)
    await life.live()
    assert life.errors == []
    return disk.steps, len(looks)


def failing_once(at: int, number: int, failed: list[tuple[str, Path]]) -> Callable[[str, Path], None]:
    seen = iter(range(1 << 30))

    def fail(what: str, path: Path) -> None:
        if next(seen) == at:
            failed.append((what, path))
            raise OSError(number, os.strerror(number))

    return fail


async def check_one_failure(at: int, number: int, *, look: bool) -> None:
    disk, failed = MemoryDisk(), list[tuple[str, Path]]()
    if look:
        disk.on_look = failing_once(at, number, failed)
    else:
        disk.on_step = failing_once(at, number, failed)
    life = Life(disk)
    await life.live()
    assert failed, f"the life made no more than {at} such calls"
    assert not disk.locks
    assert not disk.open_files, f"after {failed} these stay open: {disk.open_files}"
    for error in life.errors:
        assert isinstance(error, TYPED) or type(error).__name__ in ("LogDamaged", "ShuttingDown"), (failed, error)
    if failed and failed[0][0] in ("sync", "sync_folder"):
        first = life.errors[0] if life.errors else None
        final = first is None or isinstance(first, (LogStopped, WriteUnknown))
        assert final, f"a failed sync is final: {failed}, {first!r}"
    named = [error for error in life.errors if failed and isinstance(error, TYPED)]
    if named:
        assert failed[0][1].name in named[0].message, (failed, named[0].message)
    whole = disk.after_process_end()
    async with await open_log(whole, OPTIONS) as log:
        assert not log.recovery.damages, (failed, log.recovery.damages)
        topics = {topic.id: topic for topic in await log.topics()}
        found: Kept = {}
        for topic in topics.values():
            for offset, key in keys_of(await read_all(log, topic.id, 0)).items():
                found[topic.id, 0, offset] = key
        assert life.kept.items() <= found.items(), (failed, life.kept.items() - found.items())
        for topic in topics.values():
            end = (await log.bounds(topic.partition(0))).latest + 1
            assert (await log.append(topic.partition(0), plain_batch("next"))).base_offset == end


@pytest.mark.campaign
@pytest.mark.parametrize("number", ERRNOS, ids=["EIO", "ENOSPC", "EACCES"])
@pytest.mark.parametrize("look", [False, True], ids=["change", "look"])
def test_every_call_fails_once_in_every_way(number: int, look: bool) -> None:
    """Each error has an interleaving of its own, so that all lives with it make the same calls until one fails."""
    steps, looks = in_turns(calls_of_a_life, seed=number)
    assert steps > 300, "a life is long enough to meet every kind of change"
    assert looks > 80
    for at in range(looks if look else steps):
        in_turns(partial(check_one_failure, at, number, look=look), seed=number)
