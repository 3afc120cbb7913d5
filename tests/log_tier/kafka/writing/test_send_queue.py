"""What waits to be written to Kafka, without a broker: rounds, order, limits, and each caller's outcome."""

from __future__ import annotations

import asyncio

import pytest

from log_tier.kafka.records.encoding import RecordSet
from log_tier.kafka.writing.send_queue import QUEUE_BYTES_MAX, Item, SendQueue, SetPlace
from log_tier.model.batch import Columns
from log_tier.model.errors import DuramenError, LogDamaged, Overloaded, ShuttingDown, TableNotFound
from log_tier.model.identifiers import Offset, Partition

ZERO, ONE = Partition(0), Partition(1)


def record_set(key: bytes, *, size: int = 100) -> RecordSet:
    return RecordSet(Columns([key], [b"v"]), slice(0, 1), 0, 0, size)


def put(
    send_queue: SendQueue, *keys: bytes, partition: Partition = ZERO, size: int = 100, size_max: int = 1 << 20
) -> list[asyncio.Future[SetPlace]]:
    return send_queue.put("orders", partition, [record_set(key, size=size) for key in keys], size_max=size_max)


def gathered(send_queue: SendQueue) -> list[Item]:
    return send_queue.gather(wait_s=0)[0]


def keys_of(items: list[Item]) -> list[bytes]:
    return [item.records.columns.keys[0] for item in items]


def acknowledge(send_queue: SendQueue, items: list[Item], *, first: int = 0) -> None:
    for offset, item in enumerate(items, first):
        item.outcome = send_queue.placed(item, SetPlace(Offset(offset), Offset(offset), 7))
    send_queue.settle(items)


async def test_a_partition_has_one_round_under_way_and_keeps_its_order() -> None:
    send_queue = SendQueue()
    futures = put(send_queue, b"a", b"b")
    first = gathered(send_queue)
    assert keys_of(first) == [b"a", b"b"]
    put(send_queue, b"c")
    put(send_queue, b"other", partition=ONE)
    assert keys_of(gathered(send_queue)) == [b"other"], "c waits for the round that is under way"
    acknowledge(send_queue, first[:1])
    assert gathered(send_queue) == [], "for all of it"
    acknowledge(send_queue, first[1:], first=1)
    assert keys_of(gathered(send_queue)) == [b"c"]
    assert await asyncio.gather(*futures) == [SetPlace(Offset(0), Offset(0), 7), SetPlace(Offset(1), Offset(1), 7)]


async def test_a_round_has_a_size_and_one_item_at_least() -> None:
    send_queue = SendQueue()
    put(send_queue, b"a", b"b", b"c", b"d", size=100, size_max=250)
    rounds = []
    while items := gathered(send_queue):
        rounds.append(keys_of(items))
        acknowledge(send_queue, items, first=2 * len(rounds))
    assert rounds == [[b"a", b"b"], [b"c", b"d"]]
    put(send_queue, b"large", size=300, size_max=250)
    assert keys_of(gathered(send_queue)) == [b"large"]


async def test_what_was_cancelled_while_it_waited_is_not_written() -> None:
    send_queue = SendQueue()
    first, _ = put(send_queue, b"a", b"b")
    first.cancel()
    assert keys_of(gathered(send_queue)) == [b"b"]


async def test_too_much_is_refused_until_some_of_it_is_settled() -> None:
    send_queue = SendQueue()
    put(send_queue, b"a", size=QUEUE_BYTES_MAX)
    with pytest.raises(Overloaded, match="try again"):
        put(send_queue, b"b")
    acknowledge(send_queue, gathered(send_queue))
    put(send_queue, b"b")
    assert keys_of(gathered(send_queue)) == [b"b"]


async def test_offsets_that_go_backwards_are_damage_and_end_the_partition() -> None:
    send_queue = SendQueue()
    put(send_queue, b"a")
    acknowledge(send_queue, gathered(send_queue), first=9)
    (future,) = put(send_queue, b"b")
    acknowledge(send_queue, gathered(send_queue), first=9)
    with pytest.raises(LogDamaged, match="the offset 9 to a write after offset 9"):
        await future
    with pytest.raises(LogDamaged):
        put(send_queue, b"c")
    put(send_queue, b"c", partition=ONE)


async def test_a_topic_that_is_gone_fails_what_waits_and_leaves_what_is_under_way() -> None:
    send_queue = SendQueue()
    (written,) = put(send_queue, b"a")
    under_way = gathered(send_queue)
    (waiting,) = put(send_queue, b"b")
    send_queue.refuse("orders", TableNotFound("orders is gone"))
    with pytest.raises(TableNotFound, match="orders is gone"):
        await waiting
    acknowledge(send_queue, under_way)
    assert (await written).first == 0
    assert gathered(send_queue) == []


async def test_a_closing_queue_gives_what_it_has_and_takes_no_more() -> None:
    send_queue = SendQueue()
    put(send_queue, b"a")
    assert send_queue.gather(wait_s=0)[1] is False
    put(send_queue, b"b", partition=ONE)
    send_queue.close()
    items, closing = send_queue.gather(wait_s=60)
    assert (keys_of(items), closing) == ([b"b"], True)
    with pytest.raises(ShuttingDown):
        put(send_queue, b"c")


async def test_when_the_sender_ends_every_caller_gets_an_error() -> None:
    send_queue = SendQueue()
    (waiting,) = put(send_queue, b"a")
    send_queue.end(DuramenError("ended by a bug"))
    with pytest.raises(DuramenError, match="ended by a bug"):
        await waiting
    with pytest.raises(DuramenError, match="ended by a bug"):
        put(send_queue, b"b")
