"""A user's connections share its turns: how much of a user's work is done while another one's is."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

import pytest
from kit.deadlines import patience_s, within
from kit.resp.raw_client import Raw, Status, packed
from kit.resp.server_thread import ServerThread

from router.endpoints.resp.connection.client import Client
from router.endpoints.resp.server.sockets import RespSettings

COMMANDS: Final = 3000
"""Of each connection, in one piece: several turns of it."""

CONNECTIONS: Final = 24

PONG: Final = Status("PONG")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerThread]:
    running = ServerThread(tmp_path_factory.mktemp("shares"), RespSettings(port=0)).start()
    running.add_user("root", "admin *")
    for name in ("alice", "mallory"):
        running.add_user(name, "read,write default")
    yield running
    running.close()


def done_by(server: ServerThread, user: str) -> int:
    """Commands that the connections of a user have begun with."""
    return sum(
        each.commands
        for each in server.server.clients.values()
        if isinstance(each, Client) and each.caller.name == user
    )


def done_when_one_has_all(server: ServerThread, first: list[Raw], last: Raw, names: tuple[str, str]) -> tuple[int, int]:
    """Send each connection's commands, those of `last` last, while the server's loop stands still, and let it go. What
    the users of `first` and of `last` have done in the loop's turn in which `last` has done half of its own.
    """
    sent, stands = threading.Event(), threading.Event()

    async def count() -> tuple[int, int]:
        before = [done_by(server, name) for name in names]
        stands.set()
        sent.wait(patience_s(20.0))
        async with within(30):
            while done_by(server, names[1]) - before[1] < COMMANDS // 2:  # noqa: ASYNC110
                await asyncio.sleep(0)
        return done_by(server, names[0]) - before[0], done_by(server, names[1]) - before[1]

    counted = asyncio.run_coroutine_threadsafe(count(), server.loop)
    assert stands.wait(patience_s(20.0))
    for raw in (*first, last):
        raw.send(packed("PING") * COMMANDS)
    sent.set()
    result = counted.result(patience_s(60.0))
    for raw in (*first, last):
        assert [raw.reply() for _ in range(COMMANDS)] == [PONG] * COMMANDS
    return result


def test_many_connections_of_one_user_get_no_more_than_one_of_another(server: ServerThread) -> None:
    with ExitStack() as opened:
        flood = [opened.enter_context(server.connect_as("mallory")) for _ in range(CONNECTIONS)]
        one = opened.enter_context(server.connect_as("alice"))
        many, few = done_when_one_has_all(server, flood, one, ("mallory", "alice"))
        assert few >= COMMANDS // 2
        assert many <= 4 * few, f"24 connections did {many} commands, and one of another user {few}"


def test_connections_that_prove_nothing_are_one_user_together(server: ServerThread) -> None:
    """Their commands are refused, one by one, and nobody's cost more than another user's."""
    with ExitStack() as opened:
        flood = [opened.enter_context(server.connect()) for _ in range(CONNECTIONS)]
        one = opened.enter_context(server.connect_as("alice"))

        async def lines() -> set[object]:
            return {
                each.line
                for each in server.server.clients.values()
                if isinstance(each, Client) and not each.caller.name
            }

        assert all("NOAUTH" in raw.call("GET", "k").text for raw in flood)
        assert server.run(lines) == {""}
        assert one.call("PING") == PONG


def test_without_users_each_connection_has_its_own_turns(tmp_path_factory: pytest.TempPathFactory) -> None:
    running = ServerThread(tmp_path_factory.mktemp("open"), RespSettings(port=0)).start()
    try:
        with running.connect() as one, running.connect() as other:
            assert one.call("PING") == other.call("PING") == PONG

            async def lines() -> set[object]:
                return {each.line for each in running.server.clients.values() if isinstance(each, Client)}

            assert len(running.run(lines)) == 2
    finally:
        running.close()


@pytest.mark.parametrize("words", [("SET", "k", "v"), ("INCR", "n")], ids=["SET", "INCR"])
def test_turns_are_short_for_a_write_of_a_user_with_nothing_in_the_line(
    server: ServerThread, words: tuple[str, ...]
) -> None:
    """It goes through several turns of the loop, and would wait for each of them."""
    turns = server.server.turns

    async def next_to_work(user: str) -> set[bool]:
        """How turns were while one of alice's commands was answered, and the line had work of `user`."""
        seen, ends = set(), asyncio.Event()

        def work() -> None:
            seen.add(turns.is_short)
            if not ends.is_set():
                turns.wait(work, user)

        turns.wait(work, user)
        async with within(30):
            await asyncio.to_thread(alice.call, *words)
        ends.set()
        return seen

    with server.connect_as("alice") as alice:
        alice.call("DEL", words[1])
        assert server.run(lambda: next_to_work("mallory")) == {False, True}
        assert server.run(lambda: next_to_work("alice")) == {False}
