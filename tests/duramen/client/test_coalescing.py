"""Calls that leave together: few requests, kept order, and nobody pays for another."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import Any

import pytest
from kit.client.in_between import InBetween, fail_with, refuse
from kit.deadlines import patience_s, within

import duramen
from duramen.client.database import Database
from duramen.client.table import Table
from log_tier.model.identifiers import Partition, PartitionId
from log_tier.model.partitioner import partition_of
from router.data.gather import read_coalescer as reads_module
from router.data.gather.read_coalescer import ReadCoalescer
from router.data.gather.read_rounds import ReadRules
from router.data.gather.write_coalescer import WRITE_RULES
from router.data.local_data import LocalData
from router.data.requests import ReadResult
from serving_tier.replica import apply

pytestmark = pytest.mark.embedded_log_only  # what is asked is the client, and not where the log is

DEADLINE_S = 20


@pytest.fixture
async def flights(local: Database, between: InBetween) -> Table:
    table = local.table("flights")
    await table.get(b"k")
    between.reads.clear()
    return table


async def rounds(count: int = 20) -> None:
    """Let whatever is ready run."""
    for _ in range(count):
        await asyncio.sleep(0)


def keys_asked(between: InBetween) -> list[int]:
    return [sum(len(part.keys) for part in parts) for parts in between.reads]


async def test_one_caller_is_not_delayed(between: InBetween, flights: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reads_module, "_PATIENCE_S", DEADLINE_S)  # a replica that is slow to apply is not asked twice
    for number in range(5):
        await flights.put(b"k", b"%d" % number)
        assert await flights.get(b"k") == b"%d" % number
    assert keys_asked(between) == [1] * 5
    assert [len(parts) for parts in between.writes] == [1] * 5


async def test_many_callers_share_few_requests(
    between: InBetween, flights: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reads_module, "_PATIENCE_S", DEADLINE_S)
    pairs = {b"k%d" % number: b"v%d" % number for number in range(1000)}
    await asyncio.gather(*(flights.put(key, value) for key, value in pairs.items()))
    assert len(between.writes) <= 2
    assert await asyncio.gather(*map(flights.get, pairs)) == list(pairs.values())
    assert len(between.reads) <= 2
    assert sum(keys_asked(between)) == 1000


@pytest.mark.parametrize(("callers", "requests"), [(256, 1), (1000, 2)])
async def test_only_many_puts_are_worth_two_requests(
    between: InBetween, flights: Table, callers: int, requests: int
) -> None:
    await asyncio.gather(*(flights.put(b"k%d" % number, b"v") for number in range(callers)))
    assert len(between.writes) == requests
    assert len({part.partition for parts in between.writes for part in parts}) == sum(map(len, between.writes)) > 1


async def test_what_comes_while_requests_are_under_way_gathers(between: InBetween, flights: Table) -> None:
    between.gate = asyncio.Event()
    calls = []
    for number in range(50):
        calls.append(asyncio.ensure_future(flights.get(b"k%d" % number)))
        await rounds(3)
    assert keys_asked(between) == [1, 1], "two are under way, the others gather"
    between.gate.set()
    await asyncio.gather(*calls)
    assert keys_asked(between) == [1, 1, 48]


async def test_the_order_of_puts_is_kept(between: InBetween, flights: Table) -> None:
    between.write_faults = [refuse] * 5
    done = []
    for number in range(200):
        done.append(asyncio.ensure_future(flights.put(b"k", b"%d" % number)))
        if number % 7 == 0:
            await rounds(2)
    offsets = [one.offset for one in await asyncio.gather(*done)]
    assert offsets == list(range(200))
    assert await flights.get(b"k") == b"199"
    for parts in between.writes:
        places = [part.partition.partition for part in parts]
        assert len(places) == len(set(places)), "a partition has one batch in a request"


async def test_a_cancelled_call_does_not_hurt_the_others(between: InBetween, flights: Table) -> None:
    for _ in range(10):
        between.gate = asyncio.Event()
        gets = [asyncio.ensure_future(flights.get(b"k%d" % number)) for number in range(10)]
        puts = [asyncio.ensure_future(flights.put(b"k%d" % number, b"v")) for number in range(10)]
        await rounds()
        for cancelled in (gets[3], puts[3], gets[0], puts[9]):
            cancelled.cancel()
        between.gate.set()
        results = await asyncio.gather(*gets, *puts, return_exceptions=True)
        kinds = [isinstance(result, asyncio.CancelledError) for result in results]
        assert [place for place, cancelled in enumerate(kinds) if cancelled] == [0, 3, 13, 19]
        assert not any(isinstance(result, Exception) for result in results)


async def test_each_call_ends_at_its_own_deadline(between: InBetween, flights: Table) -> None:
    """Impatient calls leave together with patient ones, before and after them; the patient get their answers."""
    between.gate = asyncio.Event()
    short = patience_s(0.5)
    patient = [asyncio.ensure_future(flights.get(b"a")), asyncio.ensure_future(flights.put(b"a", b"1"))]
    impatient = [
        asyncio.ensure_future(flights.get(b"a", timeout=short)),
        asyncio.ensure_future(flights.put(b"a", b"2", timeout=short)),
        asyncio.ensure_future(flights.get_many([b"a", b"b"], timeout=short)),
        asyncio.ensure_future(flights.put_many([(b"a", b"3")], timeout=short)),
        asyncio.ensure_future(flights.get(b"a", level="strong", timeout=short)),
    ]
    await rounds()
    behind = [  # these have not even left
        asyncio.ensure_future(flights.get(b"a", timeout=short)),
        asyncio.ensure_future(flights.put(b"a", b"4", timeout=short)),
    ]
    async with within(DEADLINE_S):
        results = await asyncio.gather(*impatient, *behind, return_exceptions=True)
    assert [type(result) for result in results] == [
        duramen.DeadlineExceeded,
        duramen.WriteUnknown,
        duramen.DeadlineExceeded,
        duramen.WriteUnknown,
        duramen.DeadlineExceeded,
        duramen.DeadlineExceeded,
        duramen.DeadlineExceeded,
    ]
    assert "nothing was written" in str(results[-1])
    assert not any(call.done() for call in patient)
    between.gate.set()
    await asyncio.gather(*patient)
    between.gate = None
    assert await flights.get(b"a", level="strong") == b"3", "what was never sent is never written"


async def test_the_default_timeout_holds_next_to_a_longer_one(between: InBetween, data_plane: LocalData) -> None:
    """A call with the default timeout joined one of an hour, and waited with it."""
    database = Database(between, timeout=0.1)
    table = await database.create_table("flights", timeout=DEADLINE_S)
    between.gate = asyncio.Event()
    patient = [
        asyncio.ensure_future(table.get(b"k", timeout=3600)),
        asyncio.ensure_future(table.put(b"k", b"", timeout=3600)),
    ]
    await rounds()
    async with within(DEADLINE_S):
        with pytest.raises(duramen.DeadlineExceeded):
            await table.get(b"k")
        with pytest.raises(duramen.DeadlineExceeded):
            await table.put(b"k", b"v")
    between.gate.set()
    await asyncio.gather(*patient)
    await database.context.writes.close()
    await database.context.reads.close()


async def test_a_partition_that_waits_does_not_hold_up_the_others(
    flights: Table, data_plane: LocalData, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys: dict[int, bytes] = {partition_of(key, 4): key for key in (b"k%d" % number for number in range(40))}
    await flights.put_many([(key, b"v") for key in keys.values()])
    assert await flights.get_many(keys.values()) == [b"v"] * 4
    table = data_plane.catalog.map.find("flights")
    may_go = threading.Event()
    index = data_plane.node.replica(PartitionId(table.id, Partition(0))).index
    inner = index.fold_in

    def held(chunk: Any) -> Any:
        may_go.wait()
        return inner(chunk)

    monkeypatch.setattr(apply, "SMALL_BYTES_MAX", -1)  # by the thread: the loop must not be held up
    monkeypatch.setattr(index, "fold_in", held)
    await flights.put(keys[0], b"w")
    slow = [asyncio.ensure_future(flights.get(keys[0])) for _ in range(2)]
    await rounds()
    async with within(DEADLINE_S):
        for _ in range(5):
            assert [await flights.get(keys[number]) for number in (1, 2, 3)] == [b"v"] * 3
    assert not any(call.done() for call in slow)
    may_go.set()
    assert await asyncio.gather(*slow) == [b"w", b"w"]


async def test_a_partition_that_is_tried_again_does_not_hold_up_the_others(between: InBetween, flights: Table) -> None:
    keys: dict[int, bytes] = {partition_of(key, 4): key for key in (b"k%d" % number for number in range(40))}
    blocked = {0, 1}

    async def refuse_some(call: Any) -> Any:
        parts = between.writes[-1]
        results = await call()
        return [
            duramen.Overloaded("full") if part.partition.partition in blocked else result
            for part, result in zip(parts, results, strict=True)
        ]

    async def refuse_some_reads(call: Any) -> Any:
        parts = between.reads[-1]
        results = await call()
        return [
            duramen.Overloaded("full") if part.partition.partition in blocked else result
            for part, result in zip(parts, results, strict=True)
        ]

    between.write_faults = [refuse_some] * 1000
    between.read_faults = [refuse_some_reads] * 1000
    stuck: list[asyncio.Future[Any]] = [asyncio.ensure_future(flights.put(keys[number], b"v")) for number in (0, 1)]
    stuck += [asyncio.ensure_future(flights.get(keys[number])) for number in (0, 1)]
    async with within(DEADLINE_S):
        for number in (2, 3, 2, 3):
            await flights.put(keys[number], b"v")
            assert await flights.get(keys[number]) == b"v"
    assert not any(call.done() for call in stuck)
    blocked.clear()
    await asyncio.gather(*stuck)


async def test_a_reply_without_room_is_asked_for_in_pieces(
    between: InBetween, flights: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = {b"k%03d" % number: b"v%d" % number for number in range(200)}
    await flights.put_many(pairs)
    inner = between._inner.read

    async def read(parts: Any, **how: float) -> Any:
        """A server whose reply holds three keys."""
        results: list[Any] = []
        room = 3
        for part, result in zip(parts, await inner(parts, **how), strict=True):
            room -= len(part.keys)
            results.append(result if room >= 0 else duramen.LimitExceeded("no room"))
        return results

    monkeypatch.setattr(between._inner, "read", read)
    assert await flights.get_many(pairs) == list(pairs.values())
    assert await asyncio.gather(*map(flights.get, pairs)) == list(pairs.values())
    keys: dict[int, bytes] = {partition_of(key, 4): key for key in pairs}
    between.reads.clear()
    assert await asyncio.gather(*(flights.get(key) for key in keys.values())) == [pairs[k] for k in keys.values()]
    assert sorted(len(parts) for parts in between.reads) == [1, 4], "the fourth had no room, and is asked for alone"
    between.read_faults = [fail_with(duramen.LimitExceeded("the message is too large"))]
    assert await flights.get_many(list(pairs)[:50]) == list(pairs.values())[:50]


async def test_more_reads_than_may_wait(between: InBetween, flights: Table) -> None:
    ref, loop = flights.lookup.ref, asyncio.get_running_loop()
    assert ref is not None
    reads = ReadCoalescer(between, flights.lookup.context.session, rules=ReadRules(pending_keys_max=5))

    def ask(*keys: bytes, strong: bool = False) -> asyncio.Future[ReadResult]:
        partition, deadline = ref.partition(Partition(0)), loop.time() + DEADLINE_S
        return reads.submit(ref, partition, keys, after=None, strong=strong, seen=True, deadline=deadline)

    between.gate = asyncio.Event()
    waiting = [ask(b"k", strong=True) for _ in range(3)]
    await rounds()
    with pytest.raises(duramen.Overloaded, match="keys wait to be read"):
        ask(b"a", b"b", b"c", b"d")
    between.gate.set()
    await asyncio.gather(*waiting)
    between.gate = None
    assert (await ask(b"a", b"b", b"c")).values == [None] * 3
    await reads.close()


async def test_closing_ends_every_call(
    between: InBetween, data_plane: LocalData, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(between)
    monkeypatch.setattr(database.context.writes.gatherer, "_rules", replace(WRITE_RULES, close_patience_s=0.05))
    table = await database.create_table("flights")
    between.gate = asyncio.Event()
    sent = [
        asyncio.ensure_future(table.get(b"k")),
        asyncio.ensure_future(table.get(b"k", level="strong")),
        asyncio.ensure_future(table.put(b"k", b"1")),
    ]
    await rounds()
    sent += [asyncio.ensure_future(table.get(b"k2")) for _ in range(3)]
    await rounds()
    waiting = [asyncio.ensure_future(table.get(b"k")), asyncio.ensure_future(table.put(b"k", b"2"))]
    await rounds()
    async with within(DEADLINE_S):
        await database.close()
        results = await asyncio.gather(*sent, *waiting, return_exceptions=True)
    assert [type(result) for result in results] == [
        duramen.DatabaseClosed,
        duramen.DatabaseClosed,
        duramen.WriteUnknown,
        *[duramen.DatabaseClosed] * 5,
    ]
    current = asyncio.current_task()
    assert [task for task in asyncio.all_tasks() if task is not current and "_send" in repr(task)] == []
