"""Changes: whose round is next, whose commands wait, and what a bug in one command leaves to the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from kit.cluster.one_machine import one_machine
from kit.deadlines import patience_s, within
from kit.set_clock import SetClock

from log_tier.concurrency.clocks import SYSTEM_CLOCK
from log_tier.model.errors import ShuttingDown, WriteUnknown
from log_tier.model.identifiers import Partition
from log_tier.rows.table_spec import TableSpec
from router.data.local_data import LocalData
from router.endpoints.resp.commands.counters import incr
from router.endpoints.resp.data.key_views import View
from router.endpoints.resp.data.reads import Reads
from router.endpoints.resp.data.rounds import queued_commands
from router.endpoints.resp.data.rounds.command_rounds import CommandRounds
from router.endpoints.resp.data.rounds.queued_commands import EXECUTION_S, Group, Work, groups_of
from router.endpoints.resp.data.served_tables import ServedTable
from router.endpoints.resp.data.shared_writer import SharedWriter
from router.endpoints.resp.data.value_cache import CacheBudget
from router.endpoints.resp.wire.limits import AT_ONCE_KEYS_MAX

ZERO, ONE = Partition(0), Partition(1)


class StallingSender:
    """An owner of commands."""

    def __init__(self) -> None:
        self.stalled = False


class Endpoint:
    """The changes of one endpoint, and a table with two partitions."""

    def __init__(self, data_plane: LocalData, table: ServedTable) -> None:
        self.now_s: Callable[[], float] = SYSTEM_CLOCK.monotonic_s
        clock = SetClock(monotonic=lambda: self.now_s())
        self.table = table
        self.writer = SharedWriter(data_plane)
        self.changes = CommandRounds(Reads(data_plane, SYSTEM_CLOCK.wall_ms), self.writer, clock)
        self.keys = [next(key for n in range(99) if table.partition_of(key := b"%d" % n) == each) for each in (0, 1)]

    def incr(self, owner: StallingSender, partition: Partition = ZERO) -> asyncio.Task[Any]:
        keys = (self.keys[partition],)
        return asyncio.ensure_future(self.changes.run(owner, self.table, partition, keys, incr, keys))


@pytest.fixture
async def endpoint(tmp_path: Path) -> AsyncIterator[Endpoint]:
    async with one_machine(tmp_path) as data_plane:
        ref = await data_plane.create_table(TableSpec("t", partitions=2), timeout=patience_s(10))
        opened = Endpoint(data_plane, ServedTable(ref, data_plane.node, CacheBudget(0)))
        yield opened
        await opened.changes.close()
        await opened.writer.close()


def broken(view: View, args: Sequence[bytes]) -> Any:
    """A command with a bug."""
    raise ZeroDivisionError("a bug")


async def test_a_round_has_its_time_behind_the_grouping(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow a machine groups commands, a round runs many of them: else n commands are grouped n times."""
    grouped: list[int] = []

    def slowly(jobs: Sequence[Work]) -> list[Group]:
        grouped.append(len(jobs))
        return groups_of(jobs)

    monkeypatch.setattr(queued_commands, "groups_of", slowly)
    # A clock that only a grouping advances.
    endpoint.now_s = lambda: float(len(grouped))
    owners = [StallingSender() for _ in range(5)]
    async with within(20):
        replies = await asyncio.gather(*(endpoint.incr(owner) for _ in range(8) for owner in owners))
    assert sorted(replies) == list(range(1, 41))
    assert len(grouped) < 10, grouped


async def test_what_a_round_takes_follows_what_the_last_one_managed(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where each command takes a whole round's time, no round groups hundreds to run one and put back the rest."""
    grouped: list[int] = []
    now_s = 0.0

    def counted(works: Sequence[Work]) -> list[Group]:
        grouped.append(len(works))
        return groups_of(works)

    def long(view: View, args: Sequence[bytes]) -> Any:
        nonlocal now_s
        now_s += 2 * EXECUTION_S
        return incr(view, args)

    monkeypatch.setattr(queued_commands, "groups_of", counted)
    endpoint.now_s = lambda: now_s
    keys, owners, count = (endpoint.keys[ZERO],), [StallingSender() for _ in range(4)], 40
    async with within(20):
        replies = await asyncio.gather(
            *(endpoint.changes.run(owners[n % 4], endpoint.table, ZERO, keys, long, keys) for n in range(count))
        )
    assert sorted(replies) == list(range(1, count + 1))
    assert sum(grouped) <= 4 * count, grouped
    async with within(20):
        await asyncio.gather(*(endpoint.incr(owner) for _ in range(50) for owner in owners))
    assert grouped[-1] >= 32, "it grows again with commands that are short"


async def test_a_bug_ends_the_commands_of_its_round_and_no_others(
    endpoint: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    elsewhere = endpoint.incr(StallingSender(), ONE)
    bug = asyncio.ensure_future(
        endpoint.changes.run(StallingSender(), endpoint.table, ZERO, (endpoint.keys[ZERO],), broken)
    )
    async with within(20):
        with pytest.raises(WriteUnknown):
            await bug
        assert await elsewhere == 1, "another partition's round of the same turn"
        assert [await endpoint.incr(StallingSender()) for _ in range(2)] == [1, 2], "the executor goes on"
    assert "the commands on t/0 end" in caplog.text


async def test_commands_of_an_owner_who_does_not_read_wait_until_it_does(endpoint: Endpoint) -> None:
    stalled, other = StallingSender(), StallingSender()
    stalled.stalled = True
    waiting = endpoint.incr(stalled)
    async with within(20):
        assert await endpoint.incr(other) == 1
        assert not waiting.done()
        endpoint.changes.resume()
        assert await endpoint.incr(other) == 2, "it still does not read"
        stalled.stalled = False
        endpoint.changes.resume()
        assert await waiting == 3


async def test_the_rounds_of_a_turn_work_on_a_bounded_number_of_keys(endpoint: Endpoint) -> None:
    ran: list[int] = []
    turn = 0

    def step(view: View, args: Sequence[bytes]) -> int:
        ran.append(turn)
        return len(args)

    half = [b"k%d" % number for number in range(AT_ONCE_KEYS_MAX // 2 + 1)]
    runs = [
        asyncio.ensure_future(
            endpoint.changes.run(StallingSender(), endpoint.table, each, half, step, half, reads=False)
        )
        for each in (ZERO, ONE)
    ]
    while len(ran) < 2:
        turn += 1
        await asyncio.sleep(0)
    async with within(20):
        await asyncio.gather(*runs)
    assert ran[1] == ran[0] + 1, "each has more than half of what one turn works on"


async def test_commands_that_wait_when_the_endpoint_closes_get_an_error(endpoint: Endpoint) -> None:
    running, stalled = StallingSender(), StallingSender()
    stalled.stalled = True
    waiting, begun = endpoint.incr(stalled), endpoint.incr(running)
    await asyncio.sleep(0)
    await endpoint.changes.close()
    async with within(20):
        with pytest.raises(ShuttingDown):
            await waiting
        with pytest.raises((WriteUnknown, ShuttingDown)):
            await begun
        with pytest.raises(ShuttingDown):
            await endpoint.incr(running)
