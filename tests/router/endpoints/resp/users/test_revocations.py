"""What a change of users, grants, passwords or tokens ends, and how soon."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from kit.deadlines import patience_s
from kit.resp.raw_client import Raw, RawError, Status, packed
from kit.resp.server_thread import ServerThread

from log_tier.access.passwords import hash_password
from log_tier.catalog.commands import Command
from log_tier.model.identifiers import Offset
from log_tier.trust.trust_commands import (
    GrantRights,
    RemoveUser,
    RevokeRights,
    RevokeToken,
    SetPassword,
)
from router.endpoints.resp.server.sockets import RespSettings

PASSWORD = "correct horse battery"
OK = Status("OK")
Change = Callable[[str, str], Callable[[Offset], Command]]
"""By the user's name and its token's id."""

LAPSES: dict[str, tuple[Change, str]] = {
    "the user is removed": (lambda name, _: lambda seen: RemoveUser(name, seen), "User {name} is no user"),
    "the token is revoked": (lambda name, token: lambda seen: RevokeToken(name, seen, token), "The token {token} of"),
}


def token_id(server: ServerThread, name: str) -> str:
    return server.tokens[name].id


@pytest.mark.parametrize("what", LAPSES)
def test_the_next_command_is_refused_and_says_why(guarded: ServerThread, name: str, what: str) -> None:
    change, why = LAPSES[what]
    guarded.add_user(name, "read,write default")
    with guarded.connect_as(name) as raw, guarded.connect_as(name) as busy:
        assert raw.call("SET", f"{name}:k", "v") == OK
        assert raw.call("GET", f"{name}:k") == b"v"
        assert busy.call("GET", f"{name}:k") == b"v"
        assert busy.call("MULTI") == OK
        assert busy.call("GET", f"{name}:k") == Status("QUEUED")
        guarded.submit(change(name, token_id(guarded, name)))
        for _ in range(2):
            reply = raw.call("GET", f"{name}:k")
            assert reply.text.startswith("NOAUTH Authentication required. ")
            assert why.format(name=name, token=token_id(guarded, name)) in reply.text
        assert raw.call("SET", f"{name}:k", "w").text.startswith("NOAUTH ")
        assert busy.call("EXEC").text.startswith("NOAUTH ")
        assert raw.call("AUTH", "alice", PASSWORD) == OK, "the connection itself goes on"
        assert raw.call("GET", "eu:absent") is None


def test_another_password_ends_what_the_old_one_proved(guarded: ServerThread, name: str) -> None:
    guarded.add_user(name, "read default", password=PASSWORD)
    with guarded.connect() as raw, guarded.connect_as(name) as by_token:
        assert raw.call("AUTH", name, PASSWORD) == OK
        new = hash_password("another one again")
        guarded.submit(lambda seen: SetPassword(name, seen, new))
        assert raw.call("GET", name).text == (
            f"NOAUTH Authentication required. The password of user {name} was changed: give the new one"
        )
        assert raw.call("AUTH", name, PASSWORD).text.startswith("WRONGPASS")
        assert raw.call("AUTH", name, "another one again") == OK
        assert raw.call("GET", name) is None
        assert by_token.call("GET", name) is None


def test_a_grant_comes_and_goes_with_the_next_command(guarded: ServerThread, name: str) -> None:
    guarded.add_user(name)
    with guarded.connect_as(name) as raw:
        for _ in range(3):
            assert raw.call("GET", name).text.startswith("NOPERM")
            guarded.submit(lambda seen: GrantRights(name, seen, "read default"))
            assert raw.call("GET", name) is None
            assert raw.call("MGET", name, name) == [None, None]
            guarded.submit(lambda seen: RevokeRights(name, seen, "read default"))


def test_a_transaction_is_judged_when_it_runs(guarded: ServerThread, name: str) -> None:
    guarded.add_user(name, "read,write default", "read orders")
    with guarded.connect_as(name) as raw:
        for revoked, left in (("read default", "write default"), ("write default", "read default")):
            assert raw.call("WATCH", name) == OK
            assert raw.call("MULTI") == OK
            assert raw.call("INCR", name) == Status("QUEUED")
            guarded.submit(
                lambda seen: RevokeRights(name, seen, "read,write default"),
                lambda seen, left=left: GrantRights(name, seen, left),  # type: ignore[misc]
            )
            assert raw.call("EXEC").text == (
                "EXECABORT Transaction discarded, nothing was done: NOPERM User "
                f"{name} has no permissions to run the 'incr' command here: it lacks '{revoked} --key {name}'"
            )
            assert raw.call("MULTI") == OK
            assert raw.call("INCR", name).text.startswith("NOPERM ")
            assert raw.call("EXEC").text.startswith("EXECABORT ")
            guarded.submit(
                lambda seen, left=left: RevokeRights(name, seen, left),  # type: ignore[misc]
                lambda seen: GrantRights(name, seen, "read,write default"),
            )
        assert raw.call("MULTI") == OK
        assert raw.call("INCR", name) == Status("QUEUED")
        assert raw.call("EXEC") == [1], "nothing was done before"
        assert raw.call("WATCH", name) == OK
        assert raw.call("MULTI") == OK
        assert raw.call("PING") == Status("QUEUED")
        guarded.submit(lambda seen: RevokeRights(name, seen, "read,write default"))
        assert raw.call("EXEC").text.startswith("EXECABORT "), "it would say whether the watched key has changed"


def test_a_token_expires(guarded: ServerThread, name: str) -> None:
    guarded.add_user(name, "read default", expires_ms=int(time.time() * 1000) + 400)
    with guarded.connect_as(name) as raw, guarded.connect_as(name) as listening:
        listening.call("SUBSCRIBE", f"__keyspace@0__:{name}")
        deadline = time.monotonic() + patience_s(10)
        while (reply := raw.call("GET", name)) is None:
            assert time.monotonic() < deadline, "the token does not expire"
        assert "has expired" in reply.text
        assert "has expired" in listening.reply().text
        assert listening.ended()


def test_subscriptions_end_with_the_right_to_them(guarded: ServerThread, name: str) -> None:
    guarded.add_user(name, "read default")
    for protocol in (2, 3):
        with guarded.connect_as(name) as channel, guarded.connect_as(name) as pattern, guarded.connect() as root:
            listening = {
                channel: ("SUBSCRIBE", f"__keyspace@0__:{name}"),
                pattern: ("PSUBSCRIBE", f"__keyspace@0__:*{name}"),
            }
            for raw, words in listening.items():
                raw.call("HELLO", protocol)
                raw.call(*words)
            assert root.call("AUTH", "root", PASSWORD) == OK
            root.call("SET", name, "v")
            assert channel.reply()[-1] == b"set"
            assert pattern.reply()[-1] == b"set"
            guarded.submit(lambda seen: RevokeRights(name, seen, "read default"))
            root.call("SET", name, "w")
            for raw in (channel, pattern):
                assert raw.reply().text.startswith(f"NOPERM User {name} ")
                assert raw.ended(), "and nothing of what came after"
            guarded.submit(lambda seen: GrantRights(name, seen, "read default"))
    with guarded.connect_as(name) as raw:
        raw.call("SUBSCRIBE", f"__keyspace@0__:{name}")
        guarded.submit(lambda seen: RemoveUser(name, seen))
        assert raw.reply().text.startswith("NOAUTH ")
        assert raw.ended()


def test_a_command_that_waits_ends_with_its_user(guarded: ServerThread, name: str) -> None:
    guarded.add_user(name, "read default")
    with guarded.connect_as(name) as raw:
        raw.send(packed("WAIT", 5, 0) + packed("GET", name))
        with guarded.connect_as("root") as root:
            deadline = time.monotonic() + patience_s(10)
            while b"cmd=wait" not in root.call("CLIENT", "LIST"):
                assert time.monotonic() < deadline, "nobody waits"
        began_s = time.monotonic()
        guarded.submit(lambda seen: RemoveUser(name, seen))
        assert raw.reply().text.startswith("NOAUTH ")
        assert raw.ended()
        assert time.monotonic() - began_s < patience_s(5), "and not when WAIT has waited enough"


def test_what_was_sent_before_a_revocation_and_has_not_begun_is_refused(guarded: ServerThread, name: str) -> None:
    """Commands wait behind one that waits; those were parsed, and perhaps judged, while they were allowed.

    On a busy machine WAIT may be over before anybody has seen it, so it is seen again, with a longer one.
    """
    guarded.add_user(name, "read,write default")
    with guarded.connect_as(name) as raw, guarded.connect_as("root") as root:
        for wait_s in (0.5, 2.0, 8.0, 16.0):
            began_s = time.monotonic()
            raw.send(packed("WAIT", 5, int(wait_s * 1000)) + b"".join(packed("INCR", f"{name}:n") for _ in range(300)))
            while b"cmd=wait" not in root.call("CLIENT", "LIST") and time.monotonic() - began_s < wait_s:
                pass
            guarded.submit(lambda seen: RevokeRights(name, seen, "read,write default"))
            is_in_time = time.monotonic() - began_s < wait_s / 2
            waited, *replies = [raw.reply() for _ in range(1 + 300)]
            assert waited == 0
            if is_in_time:
                break
            guarded.submit(lambda seen: GrantRights(name, seen, "read,write default"))
            root.call("DEL", f"{name}:n")
        assert is_in_time, f"to take the rights away took more than {wait_s / 2:g} s"
        assert {reply.text[:7] for reply in replies} == {"NOPERM "}
        assert root.call("GET", f"{name}:n") is None


def test_a_change_stops_a_pipeline_under_way(guarded: ServerThread, name: str) -> None:
    """Everything that is answered after the revocation's offset is refused, but for what had begun."""
    guarded.add_user(name, "read,write default")
    with guarded.connect_as(name) as raw, guarded.connect_as("root") as root:
        for _ in range(20):
            raw.send(b"".join(packed("INCR", f"{name}:n") for _ in range(500)))
        guarded.submit(lambda seen: RevokeRights(name, seen, "read,write default"))
        replies = [raw.reply() for _ in range(20 * 500)]
        numbers = [reply for reply in replies if isinstance(reply, int)]
        assert numbers == list(range(1, len(numbers) + 1))
        assert {reply.text[:7] for reply in replies[len(numbers) :]} <= {"NOPERM "}
        assert root.call("GET", f"{name}:n") == (b"%d" % len(numbers) if numbers else None)
        assert raw.call("INCR", f"{name}:n").text.startswith("NOPERM ")


def test_a_revocation_is_in_force_within_100_ms(guarded: ServerThread, name: str) -> None:
    guarded.add_user(name)
    late: list[float] = []
    with guarded.connect_as(name) as raw:
        for _ in range(20):
            guarded.submit(lambda seen: GrantRights(name, seen, "read default"))
            assert raw.call("GET", name) is None
            guarded.submit(lambda seen: RevokeRights(name, seen, "read default"))
            began_s = time.monotonic()
            while raw.call("GET", name) is None:
                pass
            late.append(time.monotonic() - began_s)
    assert max(late) < patience_s(0.1), late


@pytest.mark.parametrize("readers", [0, 2])
def test_the_first_user_closes_an_endpoint_that_is_in_use(
    tmp_path_factory: pytest.TempPathFactory, readers: int
) -> None:
    settings = RespSettings(port=0, readers=readers, password="the one")
    server = ServerThread(tmp_path_factory.mktemp("first"), settings).start()
    try:
        with server.connect() as raw, server.connect() as listening, server.connect() as queued:
            for each in (raw, listening, queued):
                assert each.call("AUTH", "the one") == OK
            assert raw.call("SET", "k", "v") == OK
            assert raw.call("GET", "k") == b"v"
            assert queued.call("MULTI") == OK
            assert queued.call("INCR", "n") == Status("QUEUED")
            listening.call("SUBSCRIBE", "__keyspace@0__:k")
            server.add_user("root", "admin *", "read,write *", password=PASSWORD)
            for words in (("GET", "k"), ("SET", "k", "w"), ("MGET", "k"), ("PING",)):
                assert raw.call(*words) == RawError("NOAUTH Authentication required."), words
            assert queued.call("EXEC") == RawError("NOAUTH Authentication required.")
            assert listening.reply() == RawError("NOAUTH Authentication required.")
            assert listening.ended()
            assert raw.call("AUTH", "the one").text.startswith("WRONGPASS")
            assert raw.call("AUTH", "root", PASSWORD) == OK
            assert raw.call("MGET", "k", "n") == [b"v", None]
            _is_answered_by_readers(server, raw, readers)
    finally:
        server.close()


def _is_answered_by_readers(server: ServerThread, raw: Raw, readers: int) -> None:
    """Who may read the whole table is served by the reader process itself."""

    async def done() -> int:
        return sum(client.commands for client in server.server.clients.values())

    raw.call("GET", "k")
    before = server.run(done)
    for _ in range(50):
        assert raw.call("GET", "k") == b"v"
    assert (server.run(done) - before < 5) == (readers > 0)
