"""What is opened at the first call: once for callers that come together, again after a failure, never after `close`."""

from __future__ import annotations

import asyncio

import pytest

from log_tier.concurrency.on_demand import OnDemand
from log_tier.model.errors import ShuttingDown, Unavailable


class Thing:
    """What is opened."""

    def __init__(self) -> None:
        self.closed = 0

    async def close(self) -> None:
        self.closed += 1


class Opener:
    """Opens things, each when the test lets it go on."""

    def __init__(self) -> None:
        self.opened: list[Thing] = []
        self.may_go_on = asyncio.Event()
        self.fails = 0

    async def __call__(self) -> Thing:
        await self.may_go_on.wait()
        if self.fails:
            self.fails -= 1
            raise Unavailable("no node answers")
        self.opened.append(Thing())
        return self.opened[-1]


async def test_callers_that_come_together_share_one() -> None:
    opener = Opener()
    on_demand = OnDemand(opener)
    callers = [asyncio.ensure_future(on_demand()) for _ in range(5)]
    await asyncio.sleep(0)
    assert opener.opened == [], "nothing is opened before it is asked for, and it takes its time"
    opener.may_go_on.set()
    assert await asyncio.gather(*callers) == [opener.opened[0]] * 5
    assert await on_demand() is opener.opened[0]
    assert len(opener.opened) == 1


async def test_an_opening_that_fails_is_tried_again_by_the_next_caller() -> None:
    opener = Opener()
    opener.may_go_on.set()
    opener.fails = 1
    on_demand = OnDemand(opener)
    first, second = await asyncio.gather(on_demand(), on_demand(), return_exceptions=True)
    assert isinstance(first, Unavailable)
    assert second is opener.opened[0]


async def test_a_caller_that_gives_up_leaves_the_opening_to_the_next_one() -> None:
    opener = Opener()
    on_demand = OnDemand(opener)
    callers = [asyncio.ensure_future(on_demand()) for _ in range(2)]
    await asyncio.sleep(0)
    callers[0].cancel()
    opener.may_go_on.set()
    assert await callers[1] is opener.opened[0]
    assert callers[0].cancelled()


async def test_close_ends_what_is_being_opened_and_refuses_later_calls() -> None:
    opener = Opener()
    on_demand = OnDemand(opener)
    caller = asyncio.ensure_future(on_demand())
    await asyncio.sleep(0)
    closing = asyncio.ensure_future(on_demand.close())
    opener.may_go_on.set()
    await closing
    assert (await caller).closed == 1
    with pytest.raises(ShuttingDown):
        await on_demand()
    await on_demand.close()
    assert opener.opened[0].closed == 1


async def test_what_nobody_asked_for_is_not_opened_by_close() -> None:
    opener = Opener()
    await OnDemand(opener).close()
    assert opener.opened == []
