"""The bound of a user's connections at the Redis protocol: counted from the proof to the end of the connection."""

from __future__ import annotations

import socket
import struct
from contextlib import ExitStack
from typing import Any

from kit.deadlines import wait_until
from kit.resp.raw_client import Raw, RawError, Status, packed
from kit.resp.server_thread import ServerThread

from log_tier.access.passwords import hash_password
from log_tier.trust.trust_commands import RevokeToken, SetPassword, SetQuota
from router.endpoints.resp.connection.client import Client

OK = Status("OK")
PASSWORD = "correct horse battery"


def is_over(reply: object, name: str, bound: int) -> bool:
    text = f"TRYAGAIN user:{name} has a quota of {bound} open connections at this server"
    return isinstance(reply, RawError) and reply.text.startswith(text)


def log_in(server: ServerThread, raw: Raw, name: str) -> Any:
    return raw.call("AUTH", name, server.tokens[name].text)


def count(server: ServerThread, name: str) -> int:
    async def counted() -> int:
        return server.server.quotas.connections.count(name)

    return server.run(counted)


def is_checking(server: ServerThread) -> bool:
    """Does a command of any connection run?"""

    async def running() -> bool:
        return any(each.task is not None for each in server.server.clients.values() if isinstance(each, Client))

    return server.run(running)


def bounded(server: ServerThread, name: str, bound: int) -> None:
    server.add_user(name, "read,write default")
    server.submit(lambda seen: SetQuota(f"user:{name}", seen, connections=bound))


def test_over_the_bound_a_connection_stays_unproved(guarded: ServerThread, name: str) -> None:
    bounded(guarded, name, 2)
    guarded.add_user(f"{name}b", "read default")
    with guarded.connect_as(name) as first, guarded.connect_as(name), guarded.connect() as third:
        reply = log_in(guarded, third, name)
        assert is_over(reply, name, 2), reply
        assert "end one of them" in reply.text
        assert is_over(third.call("HELLO", 3, "AUTH", name, guarded.tokens[name].text), name, 2)
        assert third.call("GET", "k") == RawError("NOAUTH Authentication required.")
        assert third.call("PING") == RawError("NOAUTH Authentication required.")
        assert first.call("SET", name, "v") == OK, "those that are there go on"
        assert log_in(guarded, third, f"{name}b") == OK, "another user has no bound"
        assert is_over(log_in(guarded, third, name), name, 2)
        assert third.call("ACL", "WHOAMI") == f"{name}b".encode(), "a proof that is refused changes nothing"
    wait_until(lambda: count(guarded, name) == 0 == count(guarded, f"{name}b"))


def test_a_connection_that_ends_gives_its_place_back(guarded: ServerThread, name: str) -> None:
    bounded(guarded, name, 1)
    with guarded.connect() as waiting:
        for end in ("QUIT", "RESET", "another user", "close"):
            with guarded.connect_as(name) as raw:
                assert is_over(log_in(guarded, waiting, name), name, 1)
                if end == "another user":
                    assert log_in(guarded, raw, "alice") == OK
                elif end != "close":
                    raw.call(end)
                if end in ("another user", "RESET"):
                    assert count(guarded, name) == 0
            wait_until(lambda: count(guarded, name) == 0)
        assert log_in(guarded, waiting, name) == OK
        assert log_in(guarded, waiting, name) == OK, "the same connection is counted once"
        assert count(guarded, name) == 1


def test_a_flood_of_reconnects(guarded: ServerThread, name: str) -> None:
    """Each connection is closed at once, with commands that nobody waits for; none of them is kept."""
    bounded(guarded, name, 3)
    token = guarded.tokens[name].text
    for number in range(100):
        with guarded.connect() as raw:
            raw.send(packed("AUTH", name, token) + packed("INCR", name) * (number % 5))
            if number % 3 == 0:
                raw.reply()
    wait_until(lambda: count(guarded, name) == 0)
    with ExitStack() as connections:
        every = [connections.enter_context(guarded.connect()) for _ in range(20)]
        for raw in every:
            raw.send(packed("AUTH", name, token))
        replies = [raw.reply() for raw in every]
        assert replies.count(OK) == 3
        assert sum(is_over(reply, name, 3) for reply in replies) == 17


def test_a_password_that_is_checked_when_its_connection_has_ended(guarded: ServerThread, name: str) -> None:
    bounded(guarded, name, 2)
    hashed = hash_password(PASSWORD)
    guarded.submit(lambda seen: SetPassword(name, seen, hashed))
    for _ in range(4):
        with guarded.connect() as raw:
            raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            raw.send(packed("AUTH", name, PASSWORD))
            wait_until(lambda: is_checking(guarded))
        # It was reset: the server learns at once that nobody is there any more.
    with guarded.connect() as raw:
        wait_until(lambda: raw.call("AUTH", name, PASSWORD) == OK)
        wait_until(lambda: count(guarded, name) == 1)
        assert raw.call("GET", name) is None


def test_a_quota_that_changes_ends_no_connection(guarded: ServerThread, name: str) -> None:
    guarded.add_user(name, "read,write default")
    with ExitStack() as connections:
        every = [connections.enter_context(guarded.connect_as(name)) for _ in range(4)]
        guarded.submit(lambda seen: SetQuota(f"user:{name}", seen, connections=2))
        assert [raw.call("GET", name) for raw in every] == [None] * 4
        with guarded.connect() as another:
            assert is_over(log_in(guarded, another, name), name, 2)
            assert log_in(guarded, every[0], name) == OK, "it is one of those that are there"
            for raw in every[:3]:
                raw.close()
            wait_until(lambda: count(guarded, name) == 1)
            assert log_in(guarded, another, name) == OK
            guarded.submit(lambda seen: SetQuota(f"user:{name}", seen))
            assert log_in(guarded, connections.enter_context(guarded.connect()), name) == OK


def test_a_proof_that_counts_no_more_gives_its_place_back(guarded: ServerThread, name: str) -> None:
    bounded(guarded, name, 1)
    first = guarded.tokens[name].id
    with guarded.connect_as(name) as raw:
        guarded.submit(lambda seen: RevokeToken(name, seen, first))
        assert raw.call("GET", name).text.startswith("NOAUTH")
        assert count(guarded, name) == 0
