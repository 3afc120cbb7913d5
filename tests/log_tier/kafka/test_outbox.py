"""What waits to be written to Kafka, without a broker: rounds, order, limits, and who is told what."""

from __future__ import annotations

import asyncio

import pytest

from log_tier.batch import Columns
from log_tier.errors import DuramenError, LogDamaged, Overloaded, ShuttingDown, TableNotFound
from log_tier.identifiers import Offset, Partition
from log_tier.kafka.encoding import RecordSet
from log_tier.kafka.outbox import QUEUE_BYTES_MAX, Item, Outbox, Place

ZERO, ONE = Partition(0), Partition(1)


def record_set(key: bytes, *, size: int = 100) -> RecordSet:
    return RecordSet(Columns([key], [b"v"]), slice(0, 1), 0, 0, size)


def put(
    outbox: Outbox, *keys: bytes, partition: Partition = ZERO, size: int = 100, size_max: int = 1 << 20
) -> list[asyncio.Future[Place]]:
    return outbox.put("orders", partition, [record_set(key, size=size) for key in keys], size_max=size_max)


def gathered(outbox: Outbox) -> list[Item]:
    return outbox.gather(wait_s=0)[0]


def keys_of(items: list[Item]) -> list[bytes]:
    return [item.records.columns.keys[0] for item in items]


def acknowledge(outbox: Outbox, items: list[Item], *, first: int = 0) -> None:
    for offset, item in enumerate(items, first):
        item.outcome = outbox.placed(item, Place(Offset(offset), Offset(offset), 7))
    outbox.settle(items)


async def test_a_partition_has_one_round_under_way_and_keeps_its_order() -> None:
    outbox = Outbox()
    futures = put(outbox, b"a", b"b")
    first = gathered(outbox)
    assert keys_of(first) == [b"a", b"b"]
    put(outbox, b"c")
    put(outbox, b"other", partition=ONE)
    assert keys_of(gathered(outbox)) == [b"other"], "c waits for the round that is under way"
    acknowledge(outbox, first[:1])
    assert gathered(outbox) == [], "for all of it"
    acknowledge(outbox, first[1:], first=1)
    assert keys_of(gathered(outbox)) == [b"c"]
    assert await asyncio.gather(*futures) == [Place(Offset(0), Offset(0), 7), Place(Offset(1), Offset(1), 7)]


async def test_a_round_has_a_size_and_one_item_at_least() -> None:
    outbox = Outbox()
    put(outbox, b"a", b"b", b"c", b"d", size=100, size_max=250)
    rounds = []
    while items := gathered(outbox):
        rounds.append(keys_of(items))
        acknowledge(outbox, items, first=2 * len(rounds))
    assert rounds == [[b"a", b"b"], [b"c", b"d"]]
    put(outbox, b"large", size=300, size_max=250)
    assert keys_of(gathered(outbox)) == [b"large"]


async def test_what_was_cancelled_while_it_waited_is_not_written() -> None:
    outbox = Outbox()
    first, _ = put(outbox, b"a", b"b")
    first.cancel()
    assert keys_of(gathered(outbox)) == [b"b"]


async def test_too_much_is_refused_until_some_of_it_is_settled() -> None:
    outbox = Outbox()
    put(outbox, b"a", size=QUEUE_BYTES_MAX)
    with pytest.raises(Overloaded, match="try again"):
        put(outbox, b"b")
    acknowledge(outbox, gathered(outbox))
    put(outbox, b"b")
    assert keys_of(gathered(outbox)) == [b"b"]


async def test_offsets_that_go_backwards_are_damage_and_end_the_partition() -> None:
    outbox = Outbox()
    put(outbox, b"a")
    acknowledge(outbox, gathered(outbox), first=9)
    (future,) = put(outbox, b"b")
    acknowledge(outbox, gathered(outbox), first=9)
    with pytest.raises(LogDamaged, match="the offset 9 to a write after offset 9"):
        await future
    with pytest.raises(LogDamaged):
        put(outbox, b"c")
    put(outbox, b"c", partition=ONE)


async def test_a_topic_that_is_gone_fails_what_waits_and_leaves_what_is_under_way() -> None:
    outbox = Outbox()
    (written,) = put(outbox, b"a")
    under_way = gathered(outbox)
    (waiting,) = put(outbox, b"b")
    outbox.refuse("orders", TableNotFound("orders is gone"))
    with pytest.raises(TableNotFound, match="orders is gone"):
        await waiting
    acknowledge(outbox, under_way)
    assert (await written).first == 0
    assert gathered(outbox) == []


async def test_a_closing_outbox_gives_what_it_has_and_takes_no_more() -> None:
    outbox = Outbox()
    put(outbox, b"a")
    assert outbox.gather(wait_s=0)[1] is False
    put(outbox, b"b", partition=ONE)
    outbox.close()
    items, closing = outbox.gather(wait_s=60)
    assert (keys_of(items), closing) == ([b"b"], True)
    with pytest.raises(ShuttingDown):
        put(outbox, b"c")


async def test_when_nobody_gathers_any_more_everybody_is_told() -> None:
    outbox = Outbox()
    (waiting,) = put(outbox, b"a")
    outbox.end(DuramenError("ended by a bug"))
    with pytest.raises(DuramenError, match="ended by a bug"):
        await waiting
    with pytest.raises(DuramenError, match="ended by a bug"):
        put(outbox, b"b")
