"""Watches: every change once, in order, with what changed nothing named; and their ends."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest
from kit.cluster.one_machine import DEADLINE_S, NO_TABLE, ONE, ZERO, held, one_machine, operations, puts, write
from kit.deadlines import within

from log_tier.embedded import EngineSettings
from log_tier.model.batch import decode_batch
from log_tier.model.batch_header import split_batches
from log_tier.model.errors import (
    DuramenError,
    InvalidRequest,
    LogDamaged,
    OffsetTrimmed,
    TableNotFound,
    TokenAhead,
    Unavailable,
)
from log_tier.model.identifiers import Offset, Partition, PartitionId
from log_tier.model.record import Condition, Operation
from log_tier.model.table_ref import TableRef
from log_tier.rows.table_spec import TableSpec
from log_tier.tally.compare import cuts
from router.data.local_data import LocalData
from router.data.requests import WatchEvent
from serving_tier.proof.log_counts import count_log


def shown(event: WatchEvent) -> dict[int, bytes]:
    """Offset → key of an event's records that changed something."""
    found: dict[int, bytes] = {}
    for data in split_batches(event.batches):
        batch = decode_batch(data)
        found.update(zip(batch.offsets(), batch.columns.keys, strict=True))
    return {offset: key for offset, key in found.items() if offset not in event.void_offsets}


async def following(events: object) -> WatchEvent:
    async with within(DEADLINE_S):
        event: WatchEvent = await anext(events)  # type: ignore[call-overload]
        return event


async def shown_to_the_end(data_plane: LocalData, table: TableRef, start: dict[Partition, Offset]) -> dict[int, bytes]:
    """What a watch shows until it raises."""
    seen: dict[int, bytes] = {}
    async with aclosing(data_plane.watch(table.id, start)) as events, within(DEADLINE_S):
        async for event in events:
            seen |= shown(event)
    return seen


async def nothing_shown(events: object) -> None:
    """Follow a watch that shows no change, until it raises."""
    while True:
        assert shown(await following(events)) == {}, "a rejected write is shown as a change"


async def test_the_first_event_tells_where_it_stands(data_plane: LocalData, table: TableRef) -> None:
    await write(data_plane, table, 0, puts((b"a", b"1"), (b"b", b"1")))
    async with aclosing(data_plane.watch(table.id, {ONE: Offset(0)})) as events:
        first = await following(events)
        assert first.positions == {0: 2, 1: 0, 2: 0, 3: 0}
        assert first.batches == b""
        await write(data_plane, table, 0, puts((b"c", b"1")))
        event = await following(events)
        assert (event.partition, shown(event), event.latest) == (0, {2: b"c"}, 2)


async def test_what_was_passed_on_is_counted_as_the_log_counts_it(data_plane: LocalData, table: TableRef) -> None:
    for number in range(5):
        await write(data_plane, table, 0, puts(*((b"k%d" % each, b"1") for each in range(number + 1))))
    place = table.partition(0)
    async with aclosing(data_plane.watch(table.id, {ZERO: Offset(3)})) as events:
        await following(events)
        assert dict(data_plane.node.deliveries.of(place)) == {}
        seen: dict[int, bytes] = {}
        while max(seen, default=0) < 14:
            seen |= shown(await following(events))
        ((_, tally),) = data_plane.node.deliveries.of(place)
        assert (tally.since, tally.applied) == (3, 14)
        pieces = await count_log(data_plane.log, place, Offset(3), cuts([tally]))
        assert [each.numbers for each in pieces] == [each.numbers for each in tally.periods]
        counts, before = data_plane.node.deliveries.counts, data_plane.node.deliveries.taken_s.read().counts[-1]
        assert counts().open == 1
        await write(data_plane, table, 0, puts((b"last", b"1")))
        assert shown(await following(events)) == {15: b"last"}
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(events), 0.01)  # which takes what came
        assert counts().offsets == 13
        assert data_plane.node.deliveries.taken_s.read().counts[-1] > before
    assert dict(data_plane.node.deliveries.of(place)) == {}
    assert counts() == (0, 13)


async def test_what_changed_nothing_is_void(data_plane: LocalData, table: TableRef) -> None:
    add = operations((Operation.ADD, b"n", b"2"), producer_id=9, sequence=4)
    await write(data_plane, table, 0, add)
    await write(data_plane, table, 0, add)
    await write(data_plane, table, 0, operations((Operation.PUT, b"k", b"v"), condition=Condition.PRESENT))
    await write(data_plane, table, 0, puts((b"k", b"v")))
    seen: dict[int, bytes] = {}
    async with aclosing(data_plane.watch(table.id, {ZERO: Offset(0)})) as events:
        await following(events)
        while 3 not in seen:
            seen |= shown(await following(events))
    assert seen == {0: b"n", 3: b"k"}


async def test_who_sees_a_change_can_read_it(data_plane: LocalData, table: TableRef) -> None:
    replica = data_plane.node.replica(PartitionId(table.id, ZERO))
    async with aclosing(data_plane.watch(table.id, {ZERO: Offset(0)})) as events:
        await following(events)
        with held(replica):
            await write(data_plane, table, 0, puts((b"a", b"1")))
            waiting = asyncio.ensure_future(anext(events))
            done, _ = await asyncio.wait({waiting}, timeout=0.05)
            assert not done, "it is shown before it can be read"
        async with within(DEADLINE_S):
            await waiting
        assert replica.index.get_value(b"a") == b"1"


async def test_starts_that_cannot_be(data_plane: LocalData, table: TableRef) -> None:
    for start, kind in (
        ({ZERO: Offset(9)}, TokenAhead),
        ({ZERO: Offset(-4)}, OffsetTrimmed),
        ({Partition(4): Offset(0)}, InvalidRequest),
    ):
        with pytest.raises(kind):
            await shown_to_the_end(data_plane, table, start)
    with pytest.raises(TableNotFound):
        await anext(data_plane.watch(NO_TABLE, {}))


async def test_dropping_the_table_ends_it(data_plane: LocalData, table: TableRef) -> None:
    async with aclosing(data_plane.watch(table.id, {})) as events:
        await following(events)
        waiting = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        await data_plane.drop_table("flights", timeout=DEADLINE_S)
        async with within(DEADLINE_S):
            with pytest.raises(TableNotFound):
                await waiting


async def test_what_retention_removed(tmp_path: Path) -> None:
    async with one_machine(tmp_path, settings=EngineSettings(segment_bytes=1024)) as data_plane:
        table = await data_plane.create_table(TableSpec("flights", partitions=1), timeout=DEADLINE_S)
        for number in range(100):
            await write(data_plane, table, 0, puts((b"k%d" % number, bytes(50))), outcomes=True)
        earliest = await data_plane.log.trim(PartitionId(table.id, ZERO), Offset(90))
        with pytest.raises(OffsetTrimmed) as caught:
            await shown_to_the_end(data_plane, table, {ZERO: Offset(0)})
        assert caught.value.fields["earliest"] == earliest
        assert earliest > 0


async def test_verdicts_that_were_forgotten_are_not_taken_for_changes(
    data_plane: LocalData, table: TableRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watch that is far behind would show rejected writes once the index has forgotten that they were rejected."""
    replica = data_plane.node.replica(PartitionId(table.id, ZERO))
    refused = operations((Operation.PUT, b"k", b"v"), condition=Condition.PRESENT)
    await write(data_plane, table, 0, refused, outcomes=True)
    async with aclosing(data_plane.watch(table.id, {ZERO: Offset(0)})) as events:
        await following(events)
        monkeypatch.setattr(replica.index, "_limits", replica.index._limits._replace(verdicts=2))
        for _ in range(4):
            await write(data_plane, table, 0, refused, outcomes=True)
        assert replica.index.verdicts_from == 3
        with pytest.raises(OffsetTrimmed, match=r"rejected is known from 3 on") as caught:
            await following(events)
    assert caught.value.fields == {"partition": 0, "asked": 0, "earliest": 3}


async def test_verdicts_that_are_forgotten_while_it_goes_on(
    data_plane: LocalData, table: TableRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same for a subscriber who was fast enough in the beginning."""
    replica = data_plane.node.replica(PartitionId(table.id, ZERO))
    monkeypatch.setattr(replica.index, "_limits", replica.index._limits._replace(verdicts=2))
    refused = operations((Operation.PUT, b"k", b"v"), condition=Condition.PRESENT)
    async with aclosing(data_plane.watch(table.id, {ZERO: Offset(0)})) as events:
        await following(events)
        waiting = asyncio.ensure_future(anext(events))
        await write(data_plane, table, 0, refused, outcomes=True)
        assert shown(await waiting) == {}
        for _ in range(12):
            await write(data_plane, table, 0, refused, outcomes=True)
        with pytest.raises(OffsetTrimmed, match=r"rejected is known from 11 on"):
            await nothing_shown(events)


@pytest.mark.parametrize(("failure", "kind"), [(LogDamaged("byte 7"), LogDamaged), (KeyError("k"), DuramenError)])
async def test_a_follower_that_fails_ends_the_watch(
    data_plane: LocalData,
    table: TableRef,
    monkeypatch: pytest.MonkeyPatch,
    failure: Exception,
    kind: type[DuramenError],
) -> None:
    def fail(first: Offset, last: Offset) -> object:
        raise failure

    monkeypatch.setattr(data_plane.node.replica(PartitionId(table.id, ZERO)).index, "outcomes", fail)
    async with aclosing(data_plane.watch(table.id, {})) as events:
        await following(events)
        await write(data_plane, table, 0, puts((b"a", b"1")))
        with pytest.raises(kind):
            await following(events)


async def test_a_replica_that_a_trim_has_overtaken_is_no_reason_to_call_the_start_trimmed(
    data_plane: LocalData, table: TableRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its subscriber has what was trimmed, and goes on at another node."""

    async def stopped(offset: Offset, *, timeout: float) -> Offset:
        raise OffsetTrimmed("it begins with offset 12, offset 0 was requested", asked=0, earliest=12)

    monkeypatch.setattr(data_plane.node.replica(PartitionId(table.id, ZERO)), "wait_applied", stopped)
    async with aclosing(data_plane.watch(table.id, {})) as events:
        await following(events)
        await write(data_plane, table, 0, puts((b"a", b"1")))
        with pytest.raises(Unavailable, match="has to be fetched again"):
            await following(events)


async def test_a_slow_subscriber_holds_up_its_followers_only(data_plane: LocalData, table: TableRef) -> None:
    async with aclosing(data_plane.watch(table.id, {ZERO: Offset(0)})) as events:
        await following(events)
        for number in range(30):
            await write(data_plane, table, 0, puts((b"k%d" % number, b"v")), outcomes=True)
        seen: dict[int, bytes] = {}
        while len(seen) < 30:
            fresh = shown(await following(events))
            assert not seen.keys() & fresh.keys()
            seen |= fresh
    assert list(seen) == list(range(30))


async def test_leaving_a_watch_leaves_no_task(tmp_path: Path) -> None:
    async with one_machine(tmp_path) as data_plane:
        table = await data_plane.create_table(TableSpec("flights", partitions=4), timeout=DEADLINE_S)
        before = asyncio.all_tasks()
        async with aclosing(data_plane.watch(table.id, {})) as events:
            await following(events)
            waiting = asyncio.ensure_future(anext(events))
            await asyncio.sleep(0)
            assert len(asyncio.all_tasks() - before) == 5
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        assert asyncio.all_tasks() == before
