"""How often a server is looked at: for its history, for somebody who watches, for fifty; and what is in a look."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from kit.scripted_sight import ScriptedSight
from kit.seen_partitions import seen_partition, seen_partitions
from kit.virtual_loop import run_virtually

from duramen.server.console.history import LOOKS_PER_S
from duramen.server.console.history_keeper import HistoryKeeper, next_look_s
from log_tier.concurrency import sized_work
from log_tier.model.errors import Disconnected


@pytest.fixture(autouse=True)
def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The virtual loop knows of timers alone: what is large is done in a turn as well."""
    monkeypatch.setattr(sized_work, "AT_ONCE_ITEMS_MAX", 1 << 30)


def kept(sight: ScriptedSight, script: Callable[[HistoryKeeper], Awaitable[None]]) -> None:
    async def work() -> None:
        keeper = HistoryKeeper(sight)
        keeper.start()
        await script(keeper)
        await keeper.close()

    run_virtually(work())


REST_S = 600.0
"""Twenty looks at the largest number of partitions."""


@pytest.mark.parametrize("partitions", [1, 200, 201, 1_000, 6_001])
def test_at_rest_two_hundred_partitions_are_looked_at_in_a_second(partitions: int) -> None:
    sight = ScriptedSight(*seen_partitions(partitions))

    async def script(keeper: HistoryKeeper) -> None:
        await asyncio.sleep(REST_S)
        assert sight.looks * partitions <= LOOKS_PER_S * REST_S + 2 * partitions
        rows = keeper.history.hour.points(0, REST_S, keeper.history.grain.fine_s)
        assert all(rows[1:-1]), "no step is without a look"

    kept(sight, script)


def test_who_watches_has_a_look_each_second() -> None:
    sight = ScriptedSight(*seen_partitions(1_000))

    async def script(keeper: HistoryKeeper) -> None:
        await asyncio.sleep(60)
        assert keeper.newest is not None
        assert keeper.newest.trends is None, "nobody watched"
        before, woken = sight.looks, 0

        def wake() -> None:
            nonlocal woken
            woken += 1

        with keeper.watched(wake):
            await asyncio.sleep(0.01)
            assert sight.looks == before + 1, "the first look is at once"
            await asyncio.sleep(60)
        assert 60 <= sight.looks - before <= 62
        assert woken == sight.looks - before
        assert keeper.newest.trends is not None
        after = sight.looks
        await asyncio.sleep(60)
        assert sight.looks - after <= 13

    kept(sight, script)


def test_fifty_who_watch_cost_one_look_a_second() -> None:
    sight, woken = ScriptedSight(*seen_partitions(10)), [0] * 50

    def waking(place: int) -> Callable[[], None]:
        def wake() -> None:
            woken[place] += 1

        return wake

    async def script(keeper: HistoryKeeper) -> None:
        async def watch(place: int) -> None:
            await asyncio.sleep(place / 100)
            with keeper.watched(waking(place)):
                await asyncio.sleep(30)

        await asyncio.gather(*(watch(place) for place in range(50)))
        assert sight.looks <= 34
        assert min(woken) >= 29

    kept(sight, script)


def test_rates_are_there_with_the_first_look_of_who_watches() -> None:
    sight = ScriptedSight(seen_partition(0, 0, 0))

    async def script(keeper: HistoryKeeper) -> None:
        for second in range(20):
            sight.partitions = (seen_partition(0, 100 * second, 90 * second),)
            await asyncio.sleep(1)
        with keeper.watched(lambda: None):
            await asyncio.sleep(0.01)
            assert keeper.newest is not None
            assert keeper.newest.trends is not None
            figures = keeper.newest.trends.partitions["orders/0"]
        assert figures.written_per_s == pytest.approx(100, rel=0.1)
        assert figures.lag_per_s == pytest.approx(10, rel=0.1)

    kept(sight, script)


def test_a_look_that_fails_is_a_gap() -> None:
    sight = ScriptedSight(*seen_partitions(1))

    async def script(keeper: HistoryKeeper) -> None:
        await asyncio.sleep(3)
        sight.failing = Disconnected("the catalog is closed")
        await asyncio.sleep(2)
        sight.failing = None
        await asyncio.sleep(3)
        rows = keeper.history.hour.points(0, 7, 1)
        assert [len(each) for each in rows] == [1, 1, 1, 0, 0, 1, 1, 1]

    kept(sight, script)


def test_looks_are_in_the_middle_of_their_steps() -> None:
    assert [next_look_s(now_s, 1) for now_s in (0.0, 0.49, 0.5, 0.99, 7.6)] == [0.5, 0.5, 1.5, 1.5, 8.5]
    assert [next_look_s(now_s, 5) for now_s in (0.0, 2.5, 8.0)] == [2.5, 7.5, 12.5]
