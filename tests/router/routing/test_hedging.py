"""Two answers to one question."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from log_tier.model.errors import Disconnected, Overloaded
from router.routing.hedging import overtaken


class Question:
    """A question whose answer the test gives."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.asked = asyncio.Event()
        self.cancelled = False

    async def __call__(self) -> str:
        self.asked.set()
        try:
            return await self.answer
        except asyncio.CancelledError:
            self.cancelled = True
            raise


@pytest.fixture
async def first() -> Question:
    return Question()


@pytest.fixture
async def second() -> Question:
    return Question()


def nobody() -> Coroutine[Any, Any, str] | None:
    return None


async def test_an_answer_in_time_asks_nobody_else(first: Question, second: Question) -> None:
    first.answer.set_result("first")
    assert await overtaken(first(), 60.0, second) == "first"
    assert not second.asked.is_set()


async def test_the_second_overtakes_the_first(first: Question, second: Question) -> None:
    second.answer.set_result("second")
    assert await overtaken(first(), 0.0, second) == "second"
    assert first.cancelled
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0, "the cancellation was taken back"
    await asyncio.sleep(0)  # and nothing of it is left


async def test_the_first_comes_before_the_second(first: Question, second: Question) -> None:
    waiting = asyncio.create_task(overtaken(first(), 0.0, second))
    await second.asked.wait()
    first.answer.set_result("first")
    assert await waiting == "first"
    await asyncio.sleep(0)
    assert second.cancelled


async def test_both_replies_come_at_once(first: Question, second: Question) -> None:
    waiting = asyncio.create_task(overtaken(first(), 0.0, second))
    await second.asked.wait()
    first.answer.set_result("first")
    second.answer.set_result("second")
    assert await waiting in ("first", "second")


async def test_a_first_that_fails_waits_for_the_second(first: Question, second: Question) -> None:
    waiting = asyncio.create_task(overtaken(first(), 0.0, second))
    await second.asked.wait()
    first.answer.set_exception(Disconnected("lost"))
    await asyncio.sleep(0)
    assert not waiting.done()
    second.answer.set_result("second")
    assert await waiting == "second"


async def test_a_second_that_fails_is_nothing(first: Question, second: Question) -> None:
    waiting = asyncio.create_task(overtaken(first(), 0.0, second))
    await second.asked.wait()
    second.answer.set_exception(Overloaded("full"))
    await asyncio.sleep(0)
    assert not waiting.done()
    first.answer.set_result("first")
    assert await waiting == "first"


@pytest.mark.parametrize("second_first", [False, True])
async def test_both_fail(first: Question, second: Question, second_first: bool) -> None:
    waiting = asyncio.create_task(overtaken(first(), 0.0, second))
    await second.asked.wait()
    for question in (second, first) if second_first else (first, second):
        question.answer.set_exception(Disconnected("the first") if question is first else Overloaded("the second"))
        await asyncio.sleep(0)
    with pytest.raises(Disconnected, match="the first"):
        await waiting


async def test_a_first_that_fails_in_time(first: Question) -> None:
    first.answer.set_exception(Disconnected("lost"))
    with pytest.raises(Disconnected):
        await overtaken(first(), 60.0, nobody)


async def test_nobody_else_can_be_asked(first: Question) -> None:
    waiting = asyncio.create_task(overtaken(first(), 0.0, nobody))
    await first.asked.wait()
    await asyncio.sleep(0.002)
    first.answer.set_result("first")
    assert await waiting == "first"


async def test_another_node_can_be_asked_later(first: Question, second: Question) -> None:
    second.answer.set_result("second")
    answers: list[Coroutine[Any, Any, str] | None] = [None, None, second()]
    assert await overtaken(first(), 0.001, lambda: answers.pop(0)) == "second"
    assert not answers
    assert first.cancelled


async def test_a_cancelled_caller_takes_both_along(first: Question, second: Question) -> None:
    waiting = asyncio.create_task(overtaken(first(), 0.0, second))
    await second.asked.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.sleep(0)
    assert first.cancelled
    assert second.cancelled


async def test_a_caller_cancelled_while_it_is_overtaken_stays_cancelled(first: Question, second: Question) -> None:
    waiting = asyncio.create_task(overtaken(first(), 0.0, second))
    await second.asked.wait()
    second.answer.set_result("second")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_under_a_timeout(first: Question, second: Question) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await overtaken(first(), 0.001, second)
    await asyncio.sleep(0)
    assert first.cancelled
    assert second.cancelled
