"""Batches are checked before they are queued: large ones in a thread, and none overtakes another of its partition."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from kit.deadlines import patience_s
from kit.log.engine_steps import ZERO, open_log
from kit.log.sample_batches import plain_batch

from duramen.testing.machine.memory_disk import MemoryDisk
from log_tier.embedded import EngineSettings
from log_tier.model import batch as batches
from log_tier.model.batch import Columns, encode_batch
from log_tier.model.batch_header import read_header
from log_tier.model.errors import BatchRefused, ShuttingDown, TableNotFound
from log_tier.model.identifiers import Partition, PartitionId, TableId
from log_tier.model.log import Appended

LARGE_BYTES = 512 << 10
LARGE = plain_batch("large", value=bytes(LARGE_BYTES), producer_id=7, sequence=0)


class CheckedBatches:
    """Who checks batches, by their size; a check of a large one in a thread waits while it is held."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.threads: list[tuple[int, int]] = []
        self.free = threading.Event()
        self.free.set()
        loop_thread = threading.get_ident()

        def witnessed(data: bytes, *place: Any) -> Any:
            self.threads.append((len(data), threading.get_ident()))
            if threading.get_ident() != loop_thread and not self.free.wait(patience_s(20)):
                raise AssertionError("the check was held for ever")
            return read_header(data, *place)

        monkeypatch.setattr(batches, "read_header", witnessed)

    def of(self, batch: bytes) -> set[int]:
        """The threads that have checked batches of that size."""
        return {thread for size, thread in self.threads if size == len(batch)}


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> Iterator[CheckedBatches]:
    made = CheckedBatches(monkeypatch)
    yield made
    made.free.set()


@pytest.mark.parametrize("call", ["append", "append_many"])
async def test_large_batches_are_not_checked_on_the_event_loop(checks: CheckedBatches, call: str) -> None:
    many = [plain_batch(f"k{number}", value=bytes(100_000)) for number in range(10)]
    compressed = encode_batch(Columns([b"zeros"], [bytes(LARGE_BYTES)]), compress=True)
    assert len(compressed) < 1000
    small = plain_batch("small")
    async with await open_log(MemoryDisk(), EngineSettings()) as log:
        topic = await log.create_topic("flights", partitions=2)
        place = topic.partition(ZERO)
        for batch in (LARGE, compressed, small):
            if call == "append":
                assert isinstance(await log.append(place, batch), Appended)
            else:
                assert [type(each) for each in await log.append_many([(place, batch)])] == [Appended]
        assert threading.get_ident() not in checks.of(LARGE) | checks.of(compressed)
        assert checks.of(small) == {threading.get_ident()}, "a small one is not worth the trip"
        if call == "append_many":
            results = await log.append_many([(place, batch) for batch in many])
            assert [type(each) for each in results] == [Appended] * 10
            assert threading.get_ident() not in checks.of(many[0]), "together they are large"


async def test_small_batches_do_not_overtake_a_large_one(checks: CheckedBatches) -> None:
    async with await open_log(MemoryDisk(), EngineSettings()) as log:
        topic = await log.create_topic("flights", partitions=2)
        here, there = topic.partition(ZERO), topic.partition(Partition(1))
        checks.free.clear()
        under_way = [asyncio.ensure_future(log.append_many([(here, LARGE)]))]
        await asyncio.sleep(0)
        for number in range(1, 4):
            small = plain_batch(f"k{number}", producer_id=7, sequence=number)
            under_way.append(asyncio.ensure_future(log.append_many([(here, small)], gathered=True)))
        last = asyncio.ensure_future(log.append(here, plain_batch("last", producer_id=7, sequence=4)))
        other = await log.append(there, plain_batch("other"))
        overtook = [each for each in (*under_way, last) if each.done()]
        checks.free.set()
        assert other.base_offset == 0, "another partition does not wait"
        assert overtook == []
        results = [result for (result,) in await asyncio.gather(*under_way)]
        assert [each.base_offset for each in results if isinstance(each, Appended)] == [0, 1, 2, 3]
        assert (await last).base_offset == 4
        after = plain_batch("after!")
        await log.append(here, after)
        assert checks.of(after) == {threading.get_ident()}, "nothing is in the thread any more"


async def test_each_large_part_succeeds_or_fails_by_itself(checks: CheckedBatches) -> None:
    damaged = bytearray(LARGE)
    damaged[-1] ^= 1
    async with await open_log(MemoryDisk(), EngineSettings()) as log:
        topic = await log.create_topic("flights", partitions=1)
        here, nowhere = topic.partition(ZERO), PartitionId(TableId("AAAAAAAAAAAAAAAAAAAAAA"), ZERO)
        results = await log.append_many([(here, bytes(damaged)), (here, LARGE), (nowhere, LARGE)])
        assert [type(each) for each in results] == [BatchRefused, Appended, TableNotFound]
        assert [type(each) for each in await log.append_many([(here, bytes(damaged))])] == [BatchRefused]
        with pytest.raises(BatchRefused):
            await log.append(here, bytes(damaged))
        assert (await log.append(here, LARGE)).base_offset == 1


async def test_a_caller_that_waits_no_longer_takes_no_place(checks: CheckedBatches) -> None:
    """As a small batch, one that is being checked is written though its caller is gone; later ones come behind it."""
    async with await open_log(MemoryDisk(), EngineSettings()) as log:
        topic = await log.create_topic("flights", partitions=1)
        here = topic.partition(ZERO)
        checks.free.clear()
        gone = asyncio.ensure_future(log.append_many([(here, LARGE)]))
        gone.cancel()
        checks.free.set()
        assert (await log.append(here, plain_batch("next", producer_id=7, sequence=1))).base_offset == 1


async def test_a_log_that_closes_answers_for_what_is_being_checked(checks: CheckedBatches) -> None:
    log = await open_log(MemoryDisk(), EngineSettings())
    topic = await log.create_topic("flights", partitions=1)
    here = topic.partition(ZERO)
    checks.free.clear()
    under_way = asyncio.ensure_future(log.append_many([(here, LARGE)]))
    closing = asyncio.ensure_future(log.close())
    await asyncio.sleep(0)
    checks.free.set()
    (result,) = await under_way
    assert isinstance(result, (Appended, ShuttingDown))
    await closing
    (result,) = await log.append_many([(here, LARGE)])
    assert isinstance(result, ShuttingDown)
