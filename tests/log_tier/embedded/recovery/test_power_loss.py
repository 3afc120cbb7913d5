"""Power fails at any step of the disk: what was acknowledged is there afterwards, and nothing that nobody wrote."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from kit.log.engine_steps import SMALL, ZERO, open_log
from kit.log.sample_batches import keys_of, plain_batch, read_all

from duramen.testing.machine.memory_disk import MemoryDisk
from log_tier.embedded import EmbeddedLog
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import Offset
from log_tier.model.log import Topic

PARTITIONS = 3

Seen = dict[tuple[int, int], bytes]
"""(partition, offset) → key."""


class Plug:
    """Pulls the plug before one step: keeps what the disk would hold then, and what had been acknowledged."""

    def __init__(self, disk: MemoryDisk, at_step: int, chance: random.Random, acknowledged: Seen) -> None:
        self.disk, self.at_step, self.chance = disk, at_step, chance
        self.acknowledged = acknowledged
        self.survivor: MemoryDisk | None = None
        self.promised: Seen = {}
        disk.on_step = self

    def __call__(self, what: str, path: Path) -> None:
        if self.survivor is None and self.disk.steps >= self.at_step:
            self.promised = dict(self.acknowledged)
            self.survivor = self.disk.after_power_loss(self.chance)


async def write_bursts(
    log: EmbeddedLog, topic: Topic, bursts: list[list[int]], acknowledged: Seen, tag: str
) -> set[bytes]:
    """Append each burst's batches at once, one key each, to the partitions it names; return what was sent."""
    sent: set[bytes] = set()

    async def one(partition: int, key: str) -> None:
        # Every other one as its caller's own commit, where the log takes it so.
        batch = (topic.partition(partition), plain_batch(key, value=b"x" * 90))
        (place,) = await log.append_many([batch], gathered=len(acknowledged) % 2 == 0)
        if isinstance(place, DuramenError):
            raise place
        acknowledged[partition, place.base_offset] = key.encode()

    for number, burst in enumerate(bursts):
        keys = [f"{tag}{number}.{index}" for index in range(len(burst))]
        sent.update(key.encode() for key in keys)
        await asyncio.gather(*(one(partition, key) for partition, key in zip(burst, keys, strict=True)))
    return sent


async def everything(log: EmbeddedLog, topic: Topic) -> Seen:
    found: Seen = {}
    for partition in range(topic.partitions):
        for offset, key in keys_of(await read_all(log, topic.id, partition)).items():
            found[partition, offset] = key
    return found


bursts_of = st.lists(st.lists(st.integers(0, PARTITIONS - 1), min_size=1, max_size=12), min_size=1, max_size=12)


@given(first=bursts_of, second=bursts_of, at=st.integers(0, 400), again=st.integers(0, 200), seed=st.integers(0, 2**32))
@settings(max_examples=250, deadline=None)
def test_what_was_acknowledged_survives(
    first: list[list[int]], second: list[list[int]], at: int, again: int, seed: int
) -> None:
    async def story() -> None:
        chance = random.Random(seed)
        disk = MemoryDisk()
        acknowledged: Seen = {}
        async with await open_log(disk) as log:
            topic = await log.create_topic("flights", partitions=PARTITIONS)
            plug = Plug(disk, disk.steps + at, chance, acknowledged)
            sent = await write_bursts(log, topic, first, acknowledged, "a")
        survivor = plug.survivor or disk.after_power_loss(chance)
        promised = plug.promised if plug.survivor else dict(acknowledged)

        # Power fails a second time, during recovery or after it.
        acknowledged = dict(promised)
        second_plug = Plug(survivor, again, chance, acknowledged)
        async with await open_log(survivor) as log:
            assert log.recovery.damages == []
            found = await everything(log, topic)
            assert promised.items() <= found.items()
            assert set(found.values()) <= sent
            sent |= await write_bursts(log, topic, second, acknowledged, "b")
        last = second_plug.survivor or survivor
        promised = second_plug.promised if second_plug.survivor else acknowledged
        async with await open_log(last) as log:
            assert log.recovery.damages == []
            found = await everything(log, topic)
            assert promised.items() <= found.items()
            assert set(found.values()) <= sent
            for partition in range(PARTITIONS):
                bounds = await log.bounds(topic.partition(partition))
                assert sorted(offset for place, offset in found if place == partition) == list(range(bounds.latest + 1))

    asyncio.run(story())


@given(at=st.integers(0, 120), before=st.integers(0, 60), seed=st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
def test_trimming_is_finished_or_not_begun(at: int, before: int, seed: int) -> None:
    async def story() -> None:
        disk = MemoryDisk()
        async with await open_log(disk) as log:
            topic = await log.create_topic("flights", partitions=1)
            acknowledged: Seen = {}
            await write_bursts(log, topic, [[0]] * 60, acknowledged, "a")
            plug = Plug(disk, disk.steps + at, random.Random(seed), acknowledged)
            await log.trim(topic.partition(ZERO), Offset(before))
        async with await open_log(plug.survivor or disk) as log:
            assert log.recovery.damages == []
            bounds = await log.bounds(topic.partition(ZERO))
            assert bounds.earliest <= before
            assert bounds.latest == 59
            found = keys_of(await read_all(log, topic.id, start=bounds.earliest))
            assert found == {n: acknowledged[0, n] for n in range(bounds.earliest, 60)}

    asyncio.run(story())


@given(at=st.integers(0, 40), seed=st.integers(0, 2**32), deleting=st.booleans())
@settings(max_examples=100, deadline=None)
def test_a_topic_is_there_whole_or_not_at_all(at: int, seed: int, deleting: bool) -> None:
    async def story() -> None:
        disk = MemoryDisk()
        acknowledged: Seen = {}
        async with await open_log(disk) as log:
            first = await log.create_topic("first", partitions=2)
            await write_bursts(log, first, [[0, 1]], acknowledged, "a")
            plug = Plug(disk, disk.steps + at, random.Random(seed), acknowledged)
            if deleting:
                await log.delete_topic(first.id)
            else:
                await log.create_topic("second", partitions=2)
        async with await open_log(plug.survivor or disk) as log:
            names = [topic.name for topic in await log.topics()]
            assert names in ([[], ["first"]] if deleting else [["first"], ["first", "second"]])
            for topic in await log.topics():
                assert len(await everything(log, topic)) == (2 if topic.name == "first" else 0)
            assert (await log.create_topic("third", partitions=1)).name == "third"

    asyncio.run(story())
    assert SMALL.segment_bytes < 4096, "the stories above mean several segments"
