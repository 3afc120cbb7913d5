"""Retention by age and by size, and never past the floor."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.log.engine_steps import SMALL, ZERO, open_log
from kit.log.memory_disk import MemoryDisk
from kit.log.sample_batches import keys_of, plain_batch, read_all

from log_tier.embedded.segments.segment import Segment
from log_tier.embedded.upkeep.retention import Retention, plan_trim
from log_tier.model.errors import OffsetTrimmed
from log_tier.model.identifiers import Offset


def segments(*facts: tuple[int, int, int]) -> list[Segment]:
    return [Segment(Path("x"), Offset(base), Offset(0), size, newest) for base, size, newest in facts]


FOUR = segments((0, 100, 10), (10, 100, 20), (20, 100, 30), (30, 50, 40))
NO_FLOOR = Offset(10**9)


@pytest.mark.parametrize(
    ("policy", "now", "floor", "before"),
    [
        (Retention(), 10**9, NO_FLOOR, 0),
        (Retention(age_ms=5), 14, NO_FLOOR, 0),
        (Retention(age_ms=5), 26, NO_FLOOR, 20),
        (Retention(age_ms=5), 10**9, NO_FLOOR, 30),
        (Retention(age_ms=5), 10**9, 20, 20),
        (Retention(age_ms=5), 10**9, 19, 10),
        (Retention(age_ms=5), 10**9, 9, 0),
        (Retention(bytes_max=350), 0, NO_FLOOR, 0),
        (Retention(bytes_max=349), 0, NO_FLOOR, 10),
        (Retention(bytes_max=150), 0, NO_FLOOR, 20),
        (Retention(bytes_max=0), 0, NO_FLOOR, 30),
        (Retention(age_ms=1000, bytes_max=250), 25, NO_FLOOR, 10),
    ],
)
def test_plans(policy: Retention, now: int, floor: int, before: int) -> None:
    assert plan_trim(FOUR, policy, now_ms=now, floor=Offset(floor)) == before


def test_an_empty_partition_has_nothing_to_give() -> None:
    assert plan_trim([], Retention(bytes_max=0), now_ms=0, floor=NO_FLOOR) == 0


@given(
    st.lists(st.tuples(st.integers(1, 100), st.integers(0, 500)), min_size=1, max_size=20),
    st.none() | st.integers(0, 1000),
    st.none() | st.integers(0, 1000),
    st.integers(0, 1500),
)
def test_a_plan_keeps_the_newest_the_floor_and_no_more_than_it_must(
    sizes: list[tuple[int, int]], age: int | None, bytes_max: int | None, floor: int
) -> None:
    chain = segments(*((10 * n, size, newest) for n, (size, newest) in enumerate(sizes)))
    before = plan_trim(chain, Retention(age, bytes_max), now_ms=600, floor=Offset(floor))
    kept = [segment for segment in chain if segment.base >= before]
    assert kept
    assert kept[0].base == before
    assert before <= max(floor, 0)
    gone = [segment for segment in chain if segment.base < before]
    total = sum(segment.bytes for segment in chain)
    for segment in gone:
        assert (age is not None and 600 - segment.newest_ms > age) or (bytes_max is not None and total > bytes_max)
        total -= segment.bytes


async def test_retained_logs_begin_later_and_say_so() -> None:
    disk = MemoryDisk()
    async with await open_log(disk, SMALL) as log:
        topic = await log.create_topic("flights", partitions=1)
        for number in range(120):
            await log.append(topic.id, ZERO, plain_batch(f"k{number}"))
        unchanged = await log.retain(topic.id, ZERO, Retention(bytes_max=3000), floor=Offset(5))
        assert unchanged == 0
        earliest = await log.retain(topic.id, ZERO, Retention(bytes_max=3000), floor=Offset(120))
        assert 0 < earliest < 120
        with pytest.raises(OffsetTrimmed, match=f"begins with offset {earliest}") as caught:
            await read_all(log, topic.id)
        assert caught.value.fields == {"partition": 0, "asked": 0, "earliest": earliest}
        assert sorted(keys_of(await read_all(log, topic.id, start=earliest))) == list(range(earliest, 120))
    async with await open_log(disk, SMALL) as log:
        assert log.recovery.damages == []
        assert (await log.bounds(topic.id, ZERO)).earliest == earliest
        assert (await log.append(topic.id, ZERO, plain_batch("after"))).base_offset == 120


async def test_a_reader_behind_a_trim_is_told() -> None:
    disk = MemoryDisk()
    async with await open_log(disk, SMALL) as log:
        topic = await log.create_topic("flights", partitions=1)
        for number in range(120):
            await log.append(topic.id, ZERO, plain_batch(f"k{number}"))
    async with await open_log(disk, SMALL) as log:
        chunks = log.read(topic.id, ZERO, Offset(0), follow=True, chunk_bytes=100)
        await anext(chunks)
        await log.trim(topic.id, ZERO, Offset(100))
        seen = 0

        async def read_on() -> None:
            nonlocal seen
            async for chunk in chunks:
                seen = max(seen, *keys_of([chunk.data]))

        with pytest.raises(OffsetTrimmed):
            await read_on()
        assert seen < 100, "it read on in the file that it had open, and no further"
