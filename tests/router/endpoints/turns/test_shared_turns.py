"""The turns of all connections of an endpoint, by a clock that the test sets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from router.endpoints.turns.fair_line import SHARE_S
from router.endpoints.turns.shared_turns import CALL_S, SHORT_TURN_S, TURN_S, SharedTurns

LONG = 100_000


class Loop:
    """A loop whose turns the test makes."""

    def __init__(self) -> None:
        self.now_s = 10.0
        self.ready: list[Callable[[], None]] = []
        self.later: list[tuple[float, Callable[[], None]]] = []

    def call_soon(self, callback: Callable[[], None], /) -> object:
        self.ready.append(callback)
        return None

    def call_later(self, delay: float, callback: Callable[..., None], /, *arguments: object) -> object:
        self.later.append((self.now_s + delay, partial(callback, *arguments)))
        return None

    def turn(self) -> None:
        due = [callback for at_s, callback in self.later if at_s <= self.now_s]
        self.later = [(at_s, callback) for at_s, callback in self.later if at_s > self.now_s]
        ready, self.ready = [*due, *self.ready], []
        for callback in ready:
            callback()


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def turns(loop: Loop) -> SharedTurns:
    return SharedTurns(loop, lambda: loop.now_s)


def test_a_turn_is_over_for_all_connections(loop: Loop, turns: SharedTurns) -> None:
    over = []
    for _ in range(10):
        over.append(turns.is_over(LONG, "alice"))
        loop.now_s += TURN_S / 3.5
    assert over == [False] * 4 + [True] * 6
    loop.turn()
    assert not turns.is_over(LONG, "alice")
    assert not any(turns.is_over(LONG, "alice") for _ in range(10)), "no time goes by"
    assert len(loop.ready) == 1


def test_who_waits_for_each_reply_costs_the_loop_nothing(loop: Loop, turns: SharedTurns) -> None:
    for _ in range(10):
        assert not turns.is_over(40, "alice")
        loop.now_s += 0.001
    assert not loop.ready
    for _ in range(100):
        turns.is_over(40, "alice")
        loop.now_s += 0.0001
    assert turns.is_over(40, "alice"), "a hundred of them at once do"


def test_those_who_wait_are_called_in_their_order_some_in_each_turn(loop: Loop, turns: SharedTurns) -> None:
    called: list[int] = []

    def work(number: int) -> Callable[[], None]:
        def call() -> None:
            called.append(number)
            loop.now_s += TURN_S / 2.5

        return call

    for number in range(7):
        turns.wait(work(number), number)
    loop.turn()
    assert called == [0, 1, 2]
    turns.wait(work(7), 7)
    loop.turn()
    loop.turn()
    assert called == list(range(8))
    assert not loop.ready, "nobody waits"
    turns.wait(work(8), 8)
    loop.turn()
    assert called[-1] == 8


def test_one_who_has_more_waits_behind_the_others(loop: Loop, turns: SharedTurns) -> None:
    called: list[str] = []

    def again() -> None:
        called.append("again")
        loop.now_s += SHARE_S * 1.5
        if called.count("again") < 3:
            turns.wait(again, "alice")

    turns.wait(again, "alice")
    turns.wait(lambda: called.append("other"), "bob")
    for _ in range(3):
        loop.turn()
    assert called == ["again", "other", "again", "again"]
    assert not loop.ready


def test_a_bug_of_one_does_not_stop_the_others(loop: Loop, turns: SharedTurns) -> None:
    called: list[str] = []

    def fail() -> None:
        raise ValueError("a bug")

    turns.wait(fail, "alice")
    turns.wait(lambda: called.append("other"), "bob")
    with pytest.raises(ValueError, match="a bug"):
        loop.turn()
    loop.turn()
    assert called == ["other"]


def test_who_sits_out_joins_those_who_wait_when_its_time_is_over(loop: Loop, turns: SharedTurns) -> None:
    called: list[str] = []
    turns.wait(lambda: called.append("sits out"), "alice", 0.5)
    loop.turn()
    loop.now_s += 0.4
    loop.turn()
    assert called == []
    loop.now_s += 0.2
    turns.wait(lambda: called.append("waits"), "alice")
    loop.turn()
    loop.turn()
    assert called == ["waits", "sits out"]


def test_a_thousand_connections_of_one_user_get_what_one_of_another_gets(loop: Loop, turns: SharedTurns) -> None:
    """Each connection has more to do whenever it was called; a flood from one that was slow begins anew at once."""
    called = {"mallory": 0, "alice": 0}
    until_s = loop.now_s + 1

    def connection(user: str) -> Callable[[], None]:
        def call() -> None:
            called[user] += 1
            loop.now_s += SHARE_S / 2
            if loop.now_s < until_s:
                turns.wait(call, user)

        return call

    for _ in range(1000):
        turns.wait(connection("mallory"), "mallory")
    turns.wait(connection("alice"), "alice")
    while loop.now_s < until_s:
        loop.turn()
    assert abs(called["mallory"] - called["alice"]) <= 2, called
    assert called["alice"] >= 990


def test_what_comes_for_a_user_with_a_connection_in_the_line_waits(loop: Loop, turns: SharedTurns) -> None:
    turns.wait(lambda: None, "mallory")
    assert turns.is_over(40, "mallory"), "its other connections do not pass by the line"
    assert not turns.is_over(40, "alice")
    loop.turn()
    assert not turns.is_over(40, "mallory")


async def test_who_floods_by_two_protocols_gets_one_share(loop: Loop, turns: SharedTurns) -> None:
    """Calls of gRPC that were let in take their time later: it is their user's as well."""
    until_s = loop.now_s + 1
    spent_s = {"mallory": 0.0, "alice": 0.0}

    def connection(user: str) -> Callable[[], None]:
        def call() -> None:
            spent_s[user] += SHARE_S / 2
            loop.now_s += SHARE_S / 2
            turns.wait(call, user)

        return call

    async def calls() -> None:
        while True:
            await turns.take_turn("mallory")
            spent_s["mallory"] += CALL_S
            loop.now_s += CALL_S

    for _ in range(10):
        turns.wait(connection("mallory"), "mallory")
    turns.wait(connection("alice"), "alice")
    callers = [asyncio.create_task(calls()) for _ in range(50)]
    while loop.now_s < until_s:
        await asyncio.sleep(0)
        loop.turn()
    for caller in callers:
        caller.cancel()
    assert spent_s["mallory"] == pytest.approx(spent_s["alice"], rel=0.05), spent_s


def test_turns_are_short_while_one_calls_who_has_nothing_in_the_line(loop: Loop, turns: SharedTurns) -> None:
    def again() -> None:
        loop.now_s += SHORT_TURN_S / 2
        turns.wait(again, "mallory")

    assert not turns.must_wait("alice"), "nobody waits"
    turns.wait(again, "mallory")
    assert turns.must_wait("mallory")
    assert turns.turn_s == TURN_S, "its own calls do not shorten them"
    assert not turns.must_wait("alice")
    assert turns.turn_s == SHORT_TURN_S
    for _ in range(50):
        loop.turn()
    assert turns.turn_s == SHORT_TURN_S
    while turns.turn_s == SHORT_TURN_S:
        loop.turn()
    assert loop.now_s == pytest.approx(10.1, abs=0.01), "a tenth of a second after the call"


def test_turns_are_as_long_as_before_when_the_line_is_empty(loop: Loop, turns: SharedTurns) -> None:
    turns.wait(lambda: None, "mallory")
    turns.must_wait("alice")
    assert turns.turn_s == SHORT_TURN_S
    loop.turn()
    assert turns.turn_s == TURN_S


def test_turns_are_short_while_work_passes_of_one_who_has_nothing_in_the_line(loop: Loop, turns: SharedTurns) -> None:
    turns.passes("alice")
    assert turns.turn_s == TURN_S, "nobody waits"
    turns.wait(lambda: None, "mallory")
    turns.passes("mallory")
    assert turns.turn_s == TURN_S, "its own work does not shorten them"
    turns.passes("alice")
    assert turns.turn_s == SHORT_TURN_S
    loop.turn()
    assert turns.turn_s == TURN_S
