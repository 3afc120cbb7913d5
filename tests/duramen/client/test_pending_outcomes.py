"""Writes whose place is known and whose outcome is not: they hold up nobody, and are settled in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from kit.client.in_between import InBetween, refuse
from kit.cluster.one_machine import all_replicas, held
from kit.deadlines import patience_s, until, within

import duramen
from duramen.client.database import Database
from duramen.client.table import Table
from log_tier.model.errors import NotHosted
from log_tier.model.partitioner import partition_of
from router.data.gather.write_coalescer import WRITE_RULES
from router.data.local_data import LocalData

DEADLINE_S = 20
KEYS: dict[int, bytes] = {partition_of(key, 4): key for key in (b"k%d" % number for number in range(40))}


@pytest.fixture
async def flights(local: Database, between: InBetween) -> Table:
    table = local.table("flights")
    await table.get(b"k")
    return table


@contextmanager
def nothing_applied(data_plane: LocalData) -> Iterator[None]:
    with held(*all_replicas(data_plane, data_plane.catalog.map.find("flights").ref)):
        yield


async def test_late_outcomes_hold_up_nobody(flights: Table, data_plane: LocalData) -> None:
    """More of them than requests may be under way; plain puts pass them, in their partitions and in others."""
    with nothing_applied(data_plane):
        updates = [asyncio.ensure_future(flights.update(KEYS[n], add=1)) for n in range(4) for _ in range(2)]
        refused = [asyncio.ensure_future(flights.put(KEYS[n], b"x", if_absent=True)) for n in range(2)]
        async with within(DEADLINE_S):
            for turn in range(3):
                for n in range(4):
                    await flights.put(b"{%s}.other" % KEYS[n], b"%d" % turn)
        assert not any(call.done() for call in (*updates, *refused))
    done = await asyncio.gather(*updates)
    assert [each.value for each in done] == [1, 2] * 4
    for call in refused:
        with pytest.raises(duramen.ConditionFailed):
            await call
    assert await flights.get_many(KEYS[n] for n in range(4)) == [b"2"] * 4


async def test_a_session_sees_them_when_they_are_settled(flights: Table, data_plane: LocalData) -> None:
    with nothing_applied(data_plane):
        call = asyncio.ensure_future(flights.update(b"n", add=5))
        writes = flights.lookup.context.writes.gatherer
        await until(lambda: bool(writes._tasks) and not writes.rounds.under_way)
    assert (await call).value == 5
    assert await flights.get(b"n") == b"5"


async def test_at_its_deadline_a_caller_learns_the_place(flights: Table, data_plane: LocalData) -> None:
    with nothing_applied(data_plane):
        with pytest.raises(duramen.WriteUnknown, match="in the log at offset 0") as caught:
            await flights.update(b"n", add=1, timeout=patience_s(1.0))
        assert caught.value.fields["offset"] == 0
        short = asyncio.ensure_future(flights.update(b"n", add=1, timeout=patience_s(1.0)))
        long = asyncio.ensure_future(flights.update(b"n", add=1, timeout=patience_s(30.0)))
        with pytest.raises(duramen.WriteUnknown, match="in the log at offset 1"):
            await short
    assert (await long).value == 3
    assert await flights.get(b"n") == b"3"


async def test_the_question_is_asked_again(
    flights: Table, data_plane: LocalData, between: InBetween, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults: list[duramen.DuramenError] = [NotHosted("elsewhere"), duramen.Disconnected("lost")]
    asked: list[int] = []

    async def outcomes(parts: Any, *, timeout: float) -> Any:
        asked.append(len(parts))
        if faults:
            raise faults.pop()
        return await data_plane.outcomes(parts, timeout=timeout)

    monkeypatch.setattr(between, "outcomes", outcomes, raising=False)
    with nothing_applied(data_plane):
        call = asyncio.ensure_future(flights.update(b"n", add=1))
        await until(lambda: len(asked) == 3)
    assert (await call).value == 1
    assert asked == [1, 1, 1]


async def test_a_retry_that_is_pending_tells_where_the_first_copy_took_effect(
    flights: Table, data_plane: LocalData, between: InBetween
) -> None:
    async def lose(call: Any) -> Any:
        await call()
        raise duramen.Disconnected("the reply was lost")

    between.write_faults = [lose, refuse]
    with nothing_applied(data_plane):
        call = asyncio.ensure_future(flights.update(b"n", add=1))
        await until(lambda: len(between.writes) == 3 and not flights.lookup.context.writes.gatherer.rounds.under_way)
    done = await call
    assert (done.offset, done.value) == (0, 1)
    assert await flights.get(b"n") == b"1"


async def test_closing_tells_that_it_is_in_the_log(
    between: InBetween, data_plane: LocalData, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(between)
    monkeypatch.setattr(database.context.writes.gatherer, "_rules", replace(WRITE_RULES, close_patience_s=0.05))
    table = await database.create_table("flights", partitions=4)
    with nothing_applied(data_plane):
        call = asyncio.ensure_future(table.update(b"n", add=1))
        await until(lambda: bool(between.writes) and not database.context.writes.gatherer.rounds.under_way)
        await database.context.writes.close()
        with pytest.raises(duramen.WriteUnknown, match="in the log at offset 0"):
            await call
    await database.context.reads.close()
