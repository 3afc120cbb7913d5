"""The applier's thread: order, errors, cancellation, the end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from log_tier.model.errors import DiskFull, ShuttingDown
from serving_tier.replica.applier import Applier


@pytest.fixture
async def applier() -> AsyncIterator[Applier]:
    made = Applier()
    made.start()
    yield made
    await made.stop()


async def test_work_is_done_in_order_in_one_other_thread(applier: Applier) -> None:
    seen: list[tuple[int, int]] = []

    def work(number: int) -> int:
        seen.append((number, threading.get_ident()))
        return number * 2

    async def ask(number: int) -> int:
        return await applier.run(lambda: work(number))

    assert await asyncio.gather(*map(ask, range(100))) == [number * 2 for number in range(100)]
    assert [number for number, _ in seen] == list(range(100))
    assert len({thread for _, thread in seen}) == 1
    assert seen[0][1] != threading.get_ident()


async def test_an_error_goes_to_its_caller_alone(applier: Applier) -> None:
    def full() -> None:
        raise DiskFull("no room")

    results = await asyncio.gather(
        applier.run(lambda: 1), applier.run(full), applier.run(lambda: 3), return_exceptions=True
    )
    assert (results[0], results[2]) == (1, 3)
    assert isinstance(results[1], DiskFull)


async def test_a_cancelled_caller_does_not_undo_its_work(applier: Applier) -> None:
    may_go = threading.Event()
    done: list[str] = []
    first = asyncio.ensure_future(applier.run(may_go.wait))
    second = asyncio.ensure_future(applier.run(lambda: done.append("second")))
    await asyncio.sleep(0)
    second.cancel()
    may_go.set()
    assert await first
    await applier.run(lambda: done.append("third"))
    assert second.cancelled()
    assert done == ["second", "third"]


def applier_threads() -> set[threading.Thread]:
    """Those of this process; servers that other tests share may have some."""
    return {thread for thread in threading.enumerate() if thread.name == "duramen-applier"}


async def test_stopping_finishes_what_was_accepted_and_takes_no_more() -> None:
    before = applier_threads()
    applier = Applier()
    applier.start()
    may_go = threading.Event()
    accepted = [asyncio.ensure_future(applier.run(may_go.wait)) for _ in range(3)]
    await asyncio.sleep(0)
    stopping = asyncio.ensure_future(applier.stop())
    await asyncio.sleep(0)
    with pytest.raises(ShuttingDown, match="read from another one"):
        await applier.run(lambda: None)
    may_go.set()
    assert await asyncio.gather(*accepted) == [True] * 3
    await stopping
    await applier.stop()
    assert applier_threads() <= before


async def test_stopping_one_that_never_started() -> None:
    before = applier_threads()
    applier = Applier()
    await applier.stop()
    assert applier_threads() <= before
