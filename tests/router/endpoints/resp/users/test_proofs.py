"""Who gets in: AUTH and HELLO with passwords and tokens, in pipelines and next to each other."""

from __future__ import annotations

import socket
import time

import pytest
import redis
from kit.deadlines import patience_s
from kit.resp.raw_client import Raw, RawError, Status, packed
from kit.resp.server_thread import ServerThread
from redis.backoff import NoBackoff
from redis.retry import Retry

ONCE = Retry(NoBackoff(), 0)
"""redis-py takes a wrong password for a broken connection, and tries again."""
PASSWORD = "correct horse battery"
OK = Status("OK")
NOAUTH = RawError("NOAUTH Authentication required.")
WRONGPASS = RawError("WRONGPASS invalid username-password pair or user is disabled.")
NO_DEFAULT = RawError(
    "WRONGPASS invalid username-password pair or user is disabled. This database has users: give AUTH <user> <password "
    "or token>, or AUTH <token>"
)


def test_nobody_may_do_anything_but_prove_who_it_is(guarded: ServerThread) -> None:
    with guarded.connect() as raw:
        for words in (("GET", "k"), ("SET", "k", "v"), ("PING",), ("INFO",), ("MULTI",), ("SUBSCRIBE", "x")):
            assert raw.call(*words) == NOAUTH, words
        assert raw.call("HELLO", 3).text.startswith("NOAUTH HELLO must be called")
        assert raw.call("RESET") == Status("RESET")
        assert raw.call("AUTH", "alice", PASSWORD) == OK
        assert raw.call("PING") == Status("PONG")
        assert raw.call("RESET") == Status("RESET")
        assert raw.call("PING") == NOAUTH
        assert raw.call("QUIT") == OK


def test_a_pipeline_that_proves_itself_is_answered_in_order(guarded: ServerThread) -> None:
    with guarded.connect() as raw:
        words: list[tuple[str | int, ...]] = [
            ("GET", "eu:p"),
            ("AUTH", "alice", PASSWORD),
            ("SET", "eu:p", 1),
            ("GET", "eu:p"),
            ("GET", "us:p"),
            ("INCR", "eu:p"),
            ("AUTH", "alice", "wrong"),
            ("INCR", "eu:p"),
            ("RESET",),
            ("INCR", "eu:p"),
        ]
        raw.send(b"".join(packed(*each) for each in words))
        raw.socket.shutdown(socket.SHUT_WR)
        missing = RawError(
            "NOPERM User alice has no permissions to run the 'get' command here: it lacks 'read default --key us:p'"
        )
        wanted = [NOAUTH, OK, OK, b"1", missing, 2, WRONGPASS, 3, Status("RESET"), NOAUTH]
        assert [raw.reply() for _ in words] == wanted


@pytest.mark.parametrize(
    ("words", "reply"),
    [
        (("AUTH", "alice", PASSWORD), OK),
        (("AUTH", "alice", "wrong"), WRONGPASS),
        (("AUTH", "nobody", PASSWORD), WRONGPASS),
        (("AUTH", "alice", ""), WRONGPASS),
        (("AUTH", b"\xff\xfe", b"\xff"), WRONGPASS),
        (("AUTH", "alice", "x" * 100_000), WRONGPASS),
        (("AUTH", PASSWORD), NO_DEFAULT),
        (("AUTH", "default", PASSWORD), NO_DEFAULT),
        (("AUTH", "dt1_000000000000_" + "0" * 64 + "_alice"), NO_DEFAULT),
        (("AUTH", "alice", "dt1_000000000000_" + "0" * 64 + "_alice"), WRONGPASS),
        (("AUTH", "alice", PASSWORD, "x"), RawError("ERR syntax error")),
        (("AUTH",), RawError("ERR wrong number of arguments for 'auth' command")),
    ],
)
def test_what_proves_a_user_and_what_does_not(guarded: ServerThread, words: tuple[str, ...], reply: object) -> None:
    with guarded.connect() as raw:
        found = raw.call(*words)
        # After the failures of others here.
        while isinstance(found, RawError) and found.text.startswith("TRYAGAIN"):
            time.sleep(0.01)
            found = raw.call(*words)
        assert found == reply
        assert raw.call("GET", "eu:x") == (None if reply == OK else NOAUTH)


def test_a_token_says_itself_whose_it_is(guarded: ServerThread, name: str) -> None:
    token, alices = guarded.add_user(name, "read default"), guarded.tokens["alice"].text
    with guarded.connect() as raw:
        assert raw.call("AUTH", token) == OK
        assert raw.call("AUTH", "default", token) == OK
        assert raw.call("AUTH", name, token) == OK
        assert raw.call("CLIENT", "INFO").split(b"user=")[1].split()[0].decode() == name
        assert raw.call("AUTH", name, alices).text.startswith("WRONGPASS")
        hello = raw.call("HELLO", 3, "AUTH", "default", alices, "SETNAME", "n")
        assert hello[b"proto"] == 3
        assert b" user=alice " in raw.call("CLIENT", "INFO")


def test_redis_py_comes_in_by_password_and_by_token(guarded: ServerThread, name: str) -> None:
    token = guarded.add_user(name, "read,write default", password=PASSWORD)
    host, port = guarded.address
    for protocol in (2, 3):
        for user, secret in ((name, PASSWORD), (name, token), (None, token)):
            with redis.Redis(host=host, port=port, username=user, password=secret, protocol=protocol) as client:
                assert client.set(f"redis-py:{protocol}", "v")
                assert client.get(f"redis-py:{protocol}") == b"v"
        with (
            redis.Redis(host=host, port=port, protocol=protocol, retry=ONCE) as client,
            pytest.raises(redis.AuthenticationError),
        ):
            client.get("k")
        with (
            redis.Redis(host=host, port=port, username=name, password="x", protocol=protocol, retry=ONCE) as client,
            pytest.raises(redis.AuthenticationError),
        ):
            client.get("k")
    with (
        redis.Redis(host=host, port=port, username="alice", password=PASSWORD) as client,
        pytest.raises(redis.exceptions.NoPermissionError),
    ):
        client.get("us:k")


def test_many_failures_slow_the_next_one_down_and_nobody_else(guarded: ServerThread, name: str) -> None:
    guarded.add_user(name, "read default", password=PASSWORD)
    with guarded.connect() as raw, guarded.connect_as("alice") as other:
        raw.send(b"".join(packed("AUTH", name, "wrong") for _ in range(7)))
        replies = [raw.reply() for _ in range(7)]
        assert WRONGPASS in replies
        assert replies[-1].text.startswith("TRYAGAIN ")
        assert "try again in" in replies[-1].text
        assert other.call("GET", "eu:k") is None


def test_who_proves_itself_holds_up_nobody_else(guarded: ServerThread) -> None:
    """A password takes 30 ms of a thread. Others are answered meanwhile, those behind it on its connection after it."""
    slow = [guarded.connect() for _ in range(6)]
    with guarded.connect_as("alice") as quick:
        for raw in slow:
            raw.send(packed("AUTH", "alice", PASSWORD) + packed("GET", "eu:absent"))
        answered = 0
        deadline = time.monotonic() + patience_s(20)
        while not _readable(slow[-1]):
            assert quick.call("GET", "eu:absent") is None
            answered += 1
            assert time.monotonic() < deadline, "the last password was not checked"
        assert answered > 20, "three rounds of 30 ms have time for many"
    for raw in slow:
        assert [raw.reply(), raw.reply()] == [OK, None]
        raw.close()


def _readable(raw: Raw) -> bool:
    raw.socket.setblocking(False)
    try:
        return bool(raw.socket.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False
    finally:
        raw.socket.settimeout(patience_s(20))


def test_users_next_to_each_other_get_what_is_theirs(guarded: ServerThread, name: str) -> None:
    """Their commands come in the same turns and share rounds, commits and read transactions."""
    guarded.add_user(name, "read,write default --key us:")
    theirs = [("alice", b"eu:", b"us:"), (name, b"us:", b"eu:")] * 4
    pairs = [(guarded.connect_as(user), mine, other) for user, mine, other in theirs]
    rounds = 40
    for raw, mine, other in pairs:
        words = []
        for number in range(rounds):
            key = b"pair%d" % number
            words += [("INCR", mine + key), ("INCR", other + key), ("GET", other + key), ("EXISTS", mine + key)]
        raw.send(b"".join(packed(*each) for each in words))
    for raw, _, _ in pairs:
        for _ in range(rounds):
            mine, incr, get, exists = raw.reply(), raw.reply(), raw.reply(), raw.reply()
            assert isinstance(mine, int)
            assert incr.text.startswith("NOPERM")
            assert get.text.startswith("NOPERM")
            assert exists == 1
    with guarded.connect_as("root") as root:
        for prefix in (b"eu:", b"us:"):
            assert root.call("MGET", *(prefix + b"pair%d" % number for number in range(rounds))) == [b"4"] * rounds
    for raw, _, _ in pairs:
        raw.close()
