"""ACL, where the catalog has users: what it shows of them, to whom, and in which shape."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from kit.deadlines import patience_s
from kit.resp.raw_client import Raw, RawError, Status, packed
from kit.resp.real_redis import RealRedis
from kit.resp.server_thread import ServerThread

from log_tier.access.passwords import hash_password
from log_tier.catalog.commands import Command
from log_tier.model.identifiers import Offset
from log_tier.trust.trust_commands import AddRole, AddUser, AssignRole

PASSWORD = "correct horse battery"
REFUSED = "changes nothing here: use 'duramen user' and 'duramen grant', for all endpoints"


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRedis]:
    running = RealRedis(tmp_path_factory.mktemp("redis"))
    yield running
    running.close()


def as_map(reply: Any) -> dict[bytes, Any]:
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=True))


@pytest.mark.parametrize("protocol", [2, 3])
def test_a_user_learns_who_it_is_and_what_it_may_do(guarded: ServerThread, name: str, protocol: int) -> None:
    guarded.add_user(name, "read,write default --key eu:*[x]", "read orders", "write db*", password=PASSWORD)
    with guarded.connect_as(name) as raw:
        raw.call("HELLO", protocol)
        assert raw.call("ACL", "WHOAMI") == name.encode()
        entry = as_map(raw.call("acl", "getuser", name))
        assert entry[b"flags"] == [b"on"]
        assert entry[b"passwords"] == [], "no hash is shown"
        assert entry[b"commands"] == b"-@all +@connection"
        assert [as_map(each) for each in entry[b"selectors"]] == [
            {
                b"commands": b"-@all +@read +@write",
                b"keys": rb"~eu:\*\[x\]*",
                b"channels": b"",
                b"table": b"default",
            },
            {b"commands": b"-@all +@read", b"keys": b"%R~*", b"channels": b"", b"table": b"orders"},
            {b"commands": b"-@all +@write", b"keys": b"%W~*", b"channels": b"", b"table": b"db*"},
        ]
        assert entry[b"grants"] == [b"read,write default --key eu:*[x]", b"read orders", b"write db*"]


def test_the_channels_are_those_of_tables_whose_every_key_may_be_read(guarded: ServerThread, name: str) -> None:
    grants = ("read default", "read db3", "read db1*", "read *", "read orders", "admin *", "admin orders")
    guarded.add_user(name, *grants)
    with guarded.connect_as(name) as raw:
        selectors = [as_map(each) for each in as_map(raw.call("ACL", "GETUSER", name))[b"selectors"]]
        ones = b" ".join(b"&__key*@%d__:*" % number for number in (1, 10, 11, 12, 13, 14, 15))
        assert [each[b"channels"] for each in selectors] == [
            *(b"&__key*@0__:*", b"&__key*@3__:*", ones, b"&*", b"", b"", b""),
        ]
        assert [each[b"commands"] for each in selectors[5:]] == [b"-@all +@admin +flushdb", b"-@all +flushdb"]
        assert selectors[5][b"keys"] == b""


def test_roles_and_changes_are_shown_at_once(guarded: ServerThread, name: str) -> None:
    guarded.add_user(name)
    with guarded.connect_as(name) as raw:
        assert as_map(raw.call("ACL", "GETUSER", name))[b"grants"] == []
        guarded.submit(
            lambda seen: AddRole(f"r{name}", seen, ("read orders",)), lambda seen: AssignRole(name, seen, f"r{name}")
        )
        assert as_map(raw.call("ACL", "GETUSER", name))[b"grants"] == [b"read orders"]


@pytest.mark.parametrize("protocol", [2, 3])
def test_a_superuser_sees_all_users_and_no_hash(guarded: ServerThread, name: str, protocol: int) -> None:
    token = guarded.add_user(name, "read orders", "read,write orders --key eu:", password=PASSWORD)
    user = guarded.run(lambda: _user(guarded, name))
    with guarded.connect_as("root") as raw:
        raw.call("HELLO", protocol)
        names = raw.call("ACL", "USERS")
        assert names == sorted(names)
        assert {b"alice", b"root", name.encode()} <= set(names)
        lines = raw.call("ACL", "LIST")
        assert [line.split()[1] for line in lines] == names
        assert lines[names.index(name.encode())] == (
            b"user %b on resetchannels -@all +@connection (table=orders %%R~* resetchannels -@all +@read) "
            b"(table=orders ~eu:* resetchannels -@all +@read +@write)" % name.encode()
        )
        seen = repr(lines) + repr([raw.call("ACL", "GETUSER", each) for each in names])
        for secret in (token, token.split("_")[2], user.tokens[0].sha256, user.password, "argon2"):
            assert secret not in seen
        assert raw.call("ACL", "GETUSER", "nobody") is None
        for words in (("SETUSER", "x", ">secret"), ("DELUSER", "alice"), ("LOAD",), ("SAVE",)):
            assert raw.call("ACL", *words) == RawError(f"ERR ACL {words[0]} {REFUSED}")
        assert raw.call("ACL", "USERS") == names


async def _user(server: ServerThread, name: str) -> Any:
    return server.catalog.map.trust.users[name]


def test_others_are_shown_to_superusers_alone(guarded: ServerThread, name: str) -> None:
    """Also whether there is a user of that name."""
    guarded.add_user(name, "read,write *", "admin orders")
    missing = RawError(f"NOPERM User {name} has no permissions to run the 'acl' command here: it lacks 'admin *'")
    with guarded.connect_as(name) as raw:
        for words in (("GETUSER", "alice"), ("GETUSER", "nobody"), ("LIST",), ("USERS",), ("SETUSER", name, "+@all")):
            assert raw.call("ACL", *words) == missing, words


def test_the_entry_has_the_shape_that_redis_gives_it(guarded: ServerThread, redis_server: RealRedis, name: str) -> None:
    guarded.add_user(name, "read,write default --key eu:", "read default")
    rules = ("on", "+@connection", "(~eu:* +@read +@write)", "(%R~* &__key*@0__:* +@read)")
    with guarded.connect_as(name) as ours, Raw(redis_server.address) as theirs:
        theirs.call("ACL", "SETUSER", name, *rules)
        for protocol in (2, 3):
            entries = []
            for side in (ours, theirs):
                side.call("HELLO", protocol)
                reply = side.call("ACL", "GETUSER", name)
                assert isinstance(reply, dict) == (protocol == 3)
                entries.append(as_map(reply))
            mine, other = entries
            assert mine.pop(b"grants")
            selectors, theirs_too = ([as_map(each) for each in entry.pop(b"selectors")] for entry in entries)
            assert [each.pop(b"table") for each in selectors] == [b"default"] * 2
            for each in (*selectors, *theirs_too):
                each[b"commands"] = sorted(each[b"commands"].split())  # Redis has an order of its own
            assert selectors == theirs_too
            assert mine == other


def test_redis_py_reads_what_acl_says(guarded: ServerThread, name: str) -> None:
    guarded.add_user(name, "admin *", "read default", password=PASSWORD)
    host, port = guarded.address
    for protocol in (2, 3):
        with redis.Redis(host=host, port=port, username=name, password=PASSWORD, protocol=protocol) as client:
            assert client.acl_whoami() in (name, name.encode())
            assert client.acl_getuser(name)["flags"] == ["on"]
            assert client.acl_getuser("nobody") is None
            assert len(client.acl_list()) == len(client.acl_users())
            assert client.acl_cat("string")
            with pytest.raises(redis.ResponseError, match="duramen user"):
                client.acl_setuser("bob", enabled=True)


def test_commands_around_it_are_answered_in_order(guarded: ServerThread) -> None:
    with guarded.connect_as("root") as raw:
        words = [("SET", "acl:k", "1"), ("ACL", "USERS"), ("INCR", "acl:k"), ("ACL", "WHOAMI"), ("GET", "acl:k")]
        raw.send(b"".join(packed(*each) for each in words))
        replies = [raw.reply() for _ in words]
        assert (replies[0], replies[2:]) == (Status("OK"), [2, b"root", b"2"])
        assert b"alice" in replies[1]
        raw.call("MULTI")
        assert raw.call("ACL", "WHOAMI") == Status("QUEUED")
        assert raw.call("EXEC") == [b"root"]


def test_many_users_with_many_grants_hold_up_nobody(guarded: ServerThread, name: str) -> None:
    """Lists of some MB are made in a thread. Others are answered meanwhile."""
    grants = tuple(f"read,write {name}_{number}" for number in range(400))

    def one(number: int) -> Any:
        def command(seen: Offset) -> Command:
            return AddUser(f"{name}_{number}", seen, hash_password("x") if number < 0 else "", grants)

        return command

    guarded.submit(*(one(number) for number in range(25)))
    with guarded.connect_as("root") as slow, guarded.connect_as("alice") as quick:
        longest_s, rounds = 0.0, 5
        slow.send(packed("ACL", "LIST") * rounds)
        for _ in range(200):
            began = time.monotonic()
            assert quick.call("GET", "eu:acl") is None
            longest_s = max(longest_s, time.monotonic() - began)
        for _ in range(rounds):
            lines = slow.reply()
            assert sum(f"(table={name}_399 ".encode() in line for line in lines) == 25
        assert longest_s < patience_s(0.25)
