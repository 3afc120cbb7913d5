"""Encoded batches of clients: what leaves together, the limits, and what becomes of them when the server stops."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from log_tier.model.errors import Disconnected, DuramenError, Overloaded, ShuttingDown, WriteUnknown
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId
from router.data.requests import WritePart, WriteResult
from router.endpoints.resp.data.native_batches import NativeBatches

PLACE = PartitionId(TableId("uz7PoMe1SsyzElQe1u4IvA"), Partition(0))
MIB = 1 << 20


class HeldWrites:
    """Keeps each request until the test answers it."""

    def __init__(self) -> None:
        self.requests: list[list[int]] = []
        self.came = asyncio.Condition()
        self.answers: list[asyncio.Future[list[WriteResult | DuramenError]]] = []

    async def write(
        self, parts: Sequence[WritePart], *, timeout: float, patience: float = 0.0
    ) -> Sequence[WriteResult | DuramenError]:
        answer: asyncio.Future[list[WriteResult | DuramenError]] = asyncio.get_running_loop().create_future()
        self.requests.append([len(part.batch) for part in parts])
        self.answers.append(answer)
        async with self.came:
            self.came.notify_all()
        return await answer

    async def after(self, count: int) -> None:
        async with self.came:
            await self.came.wait_for(lambda: len(self.requests) >= count)


def batch(size: int) -> WritePart:
    return WritePart(PLACE, bytes(size))


def places(*offsets: int) -> list[WriteResult | DuramenError]:
    return [WriteResult(Offset(offset), 5) for offset in offsets]


async def test_what_comes_in_one_turn_leaves_together_up_to_a_request() -> None:
    log = HeldWrites()
    batches = NativeBatches(log)  # type: ignore[arg-type]
    futures = [batches.append(batch(size)) for size in (9 * MIB, 7 * MIB, 1, 16 * MIB - 1, 2)]
    await log.after(2)
    assert log.requests == [[9 * MIB, 7 * MIB], [1, 16 * MIB - 1]]
    log.answers[0].set_result(places(3, 4))
    await log.after(3)
    assert log.requests[2] == [2]
    log.answers[1].set_result([WriteResult(Offset(5), 5), Disconnected("gone")])
    log.answers[2].set_result(places(9))
    found = await asyncio.gather(*futures, return_exceptions=True)
    assert [each.base_offset for each in found if isinstance(each, WriteResult)] == [3, 4, 5, 9]
    assert isinstance(found[3], Disconnected)
    await batches.close()


async def test_what_waits_and_is_under_way_is_bounded_in_bytes() -> None:
    log = HeldWrites()
    batches = NativeBatches(log, pending_bytes_max=100)  # type: ignore[arg-type]
    first = batches.append(batch(60))
    with pytest.raises(Overloaded, match="batches of 60 bytes wait for the log, with this one 101; at most 100"):
        batches.append(batch(41))
    second = batches.append(batch(40))
    await log.after(1)
    log.answers[0].set_result(places(0, 1))
    assert [(await each).base_offset for each in (first, second)] == [0, 1]
    third = batches.append(batch(100))
    await log.after(2)
    log.answers[1].set_exception(Disconnected("gone"))
    with pytest.raises(Disconnected):
        await third
    assert batches.append(batch(100)), "a request that failed has left room"
    await batches.close()


async def test_a_server_that_stops_says_what_became_of_each_batch() -> None:
    log = HeldWrites()
    batches = NativeBatches(log)  # type: ignore[arg-type]
    under_way = [batches.append(batch(16 * MIB)) for _ in range(2)]
    waiting = batches.append(batch(1))
    abandoned = batches.append(batch(1))
    abandoned.cancel()  # its connection has gone
    await log.after(2)
    closing = asyncio.create_task(batches.close())
    with pytest.raises(ShuttingDown, match="not sent"):
        await waiting
    log.answers[0].set_result(places(7))
    assert (await under_way[0]).base_offset == 7
    with pytest.raises(WriteUnknown, match="read its keys"):
        await under_way[1]
    await closing
    with pytest.raises(ShuttingDown):
        batches.append(batch(1))
    await batches.close()
