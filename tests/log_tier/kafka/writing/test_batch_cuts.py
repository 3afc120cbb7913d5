"""Batches for Kafka are cut before they are queued: large ones in a thread, and none overtakes another of its
partition."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from kit.deadlines import patience_s
from kit.log.sample_batches import plain_batch

from log_tier.kafka.cluster.known_topic import KnownTopic
from log_tier.kafka.records.encoding import RecordSet
from log_tier.kafka.writing import batch_cuts
from log_tier.kafka.writing.batch_cuts import AT_ONCE_PARTS_MAX, BatchCuts, SendPart
from log_tier.kafka.writing.send_queue import SetPlace
from log_tier.model.batch import Columns, check_batch, encode_batch
from log_tier.model.errors import BatchRefused, LimitExceeded, Overloaded, ShuttingDown
from log_tier.model.identifiers import Offset, Partition, table_id_from_bytes
from log_tier.model.log import Topic

KNOWN = KnownTopic(Topic(table_id_from_bytes(bytes(16)), "cities", 2), "test.cities", False, False, 1 << 20, ())
HERE, THERE = Partition(0), Partition(1)
LARGE = plain_batch("large", value=bytes(512 << 10), producer_id=7, sequence=0)


class QueuedSets:
    """A sender that remembers, in order, what came for which partition."""

    def __init__(self) -> None:
        self.sent: list[tuple[Partition, bytes]] = []
        self.refusal: Overloaded | None = None

    def append(
        self, topic: str, partition: Partition, sets: Sequence[RecordSet], *, size_max: int
    ) -> list[asyncio.Future[SetPlace]]:
        if self.refusal is not None:
            raise self.refusal
        self.sent.append((partition, sets[0].columns.keys[0]))
        places: list[asyncio.Future[SetPlace]] = []
        for _ in sets:
            place: asyncio.Future[SetPlace] = asyncio.get_running_loop().create_future()
            place.set_result(SetPlace(Offset(len(self.sent)), Offset(len(self.sent)), 0))
            places.append(place)
        return places


class Cuts:
    """Cuts over such a sender; those in the thread wait while they are held."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sender = QueuedSets()
        sender: Any = self.sender
        self.cuts = BatchCuts(sender)
        self.free = threading.Event()
        self.free.set()
        self.on_loop: list[int] = []
        """The sizes of the batches that were cut on the event loop."""
        loop_thread = threading.get_ident()

        def witnessed(batch: bytes) -> Any:
            if threading.get_ident() == loop_thread:
                self.on_loop.append(len(batch))
            elif not self.free.wait(patience_s(20)):
                raise AssertionError("the cut was held for ever")
            return check_batch(batch)

        monkeypatch.setattr(batch_cuts, "check_batch", witnessed)

    async def send(self, *batches: bytes, partition: Partition = HERE) -> list[Any]:
        return await self.cuts.send([SendPart(KNOWN, partition, batch) for batch in batches])


@pytest.fixture
def cuts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cuts]:
    made = Cuts(monkeypatch)
    yield made
    made.free.set()
    made.cuts.close()


async def test_what_is_large_is_not_cut_on_the_event_loop(cuts: Cuts) -> None:
    compressed = encode_batch(Columns([b"zeros"], [bytes(512 << 10)]), compress=True)
    small = plain_batch("small")
    await cuts.send(LARGE)
    await cuts.send(compressed)
    await cuts.send(*[plain_batch(f"k{number}", value=bytes(20_000)) for number in range(10)])
    await cuts.send(*[small] * (AT_ONCE_PARTS_MAX + 1))
    assert cuts.on_loop == []
    await cuts.send(small)
    assert cuts.on_loop == [len(small)], "a small one is not worth the trip"


async def test_none_overtakes_another_of_its_partition(cuts: Cuts) -> None:
    cuts.free.clear()
    under_way = [asyncio.ensure_future(cuts.send(LARGE))]
    under_way += [asyncio.ensure_future(cuts.send(plain_batch(f"k{number}"))) for number in range(3)]
    await asyncio.sleep(0)
    await cuts.send(plain_batch("other"), partition=THERE)
    assert cuts.sender.sent == [(THERE, b"other")], "another partition does not wait"
    cuts.free.set()
    await asyncio.gather(*under_way)
    assert [key for _, key in cuts.sender.sent[1:]] == [b"large", b"k0", b"k1", b"k2"]
    after = plain_batch("after!")
    await cuts.send(after)
    assert cuts.on_loop[-1] == len(after), "nothing is in the thread any more"


async def test_a_caller_that_leaves_keeps_its_place(cuts: Cuts) -> None:
    cuts.free.clear()
    gone, later = asyncio.ensure_future(cuts.send(LARGE)), asyncio.ensure_future(cuts.send(plain_batch("later")))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    cuts.free.set()
    await later
    assert [key for _, key in cuts.sender.sent] == [b"large", b"later"]


async def test_each_part_is_queued_or_refused_by_itself(cuts: Cuts) -> None:
    damaged = bytearray(LARGE)
    damaged[-1] ^= 1
    too_large = plain_batch("huge", value=bytes(2 << 20))
    refused, too_long, queued = await cuts.send(bytes(damaged), too_large, LARGE)
    assert [type(refused), type(too_long)] == [BatchRefused, LimitExceeded]
    assert [place.result().first for place in queued] == [1]
    assert [type(each) for each in await cuts.send(plain_batch("small")[:-1])] == [BatchRefused]
    cuts.sender.refusal = Overloaded("too much waits")
    assert [type(each) for each in await cuts.send(LARGE)] == [Overloaded]
    assert [type(each) for each in await cuts.send(plain_batch("small"))] == [Overloaded]


async def test_a_log_that_closes_refuses_what_is_large(cuts: Cuts) -> None:
    cuts.cuts.close()
    assert [type(each) for each in await cuts.send(LARGE)] == [ShuttingDown]
