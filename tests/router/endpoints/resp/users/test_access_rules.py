"""Every command and subcommand, sent by nobody and by users with different grants: the matrix of who may do what.

What each command needs is written here once more, in words of its own; a command that is missing here fails.
"""

from __future__ import annotations

import pytest
from kit.resp.raw_client import Raw, RawError, packed
from kit.resp.server_thread import ServerThread

from log_tier.model.batch import Columns, encode_batch
from router.endpoints.resp.commands.command_table import COMMANDS
from router.endpoints.resp.commands.users.access_rules import KEY_RULES, OTHER_RULES

KEY = "eu:1"

GRANTS: dict[str, tuple[str, ...]] = {
    "nothing": (),
    "elsewhere": ("read,write default --key us:", "admin other"),
    "reader": ("read default --key eu:",),
    "writer": ("write default --key eu:",),
    "both": ("read,write default --key eu:",),
    "whole-reader": ("read default",),
    "whole-writer": ("write default",),
    "clearer": ("admin default",),
    "superuser": ("admin *",),
    "owner": ("admin *", "read,write *"),
}
"""The users, and what each was granted."""

READERS = frozenset({"reader", "both", "whole-reader", "owner"})
WRITERS = frozenset({"writer", "both", "whole-writer", "owner"})
ALLOWED: dict[str, frozenset[str]] = {
    "read": READERS,
    "write": WRITERS,
    "read and write": READERS & WRITERS,
    "read all": frozenset({"whole-reader", "owner"}),
    "read all tables": frozenset({"owner"}),
    "see": frozenset(GRANTS) - {"nothing"},
    "clear": frozenset({"clearer", "superuser", "owner"}),
    "manage": frozenset({"superuser", "owner"}),
    "any": frozenset(GRANTS),
}
"""Who may do what."""

EXAMPLES: dict[str, list[tuple[str, str]]] = {
    # what it needs: by the command's name, a command that needs it
    "read": [
        ("get", f"GET {KEY}"),
        ("mget", f"MGET {KEY} eu:2 {KEY}"),
        ("strlen", f"STRLEN {KEY}"),
        ("getrange", f"GETRANGE {KEY} 0 1"),
        ("exists", f"EXISTS {KEY}"),
        ("touch", f"TOUCH {KEY}"),
        ("type", f"TYPE {KEY}"),
        ("ttl", f"TTL {KEY}"),
        ("pttl", f"PTTL {KEY}"),
        ("expiretime", f"EXPIRETIME {KEY}"),
        ("pexpiretime", f"PEXPIRETIME {KEY}"),
        ("getex", f"GETEX {KEY}"),
        ("watch", f"WATCH {KEY}"),
        ("keys", "KEYS eu:*"),
        ("scan", "SCAN 0 MATCH eu:*"),
        ("duramen.getv", f"DURAMEN.GETV {KEY}"),
        ("duramen.read", f"DURAMEN.READ <table> 0 0 {KEY}"),
        ("duramen.fetch", f"DURAMEN.FETCH <table> 0 0 {KEY}"),
    ],
    "write": [
        ("set", f"SET {KEY} v"),
        ("set", f"SET {KEY} v EX 100"),
        ("set", f"SET {KEY} v KEEPTTL"),
        ("setex", f"SETEX {KEY} 100 v"),
        ("psetex", f"PSETEX {KEY} 100000 v"),
        ("mset", f"MSET {KEY} v eu:2 v"),
        ("duramen.write", "DURAMEN.WRITE <table> 0 <batch>"),
    ],
    "read and write": [
        ("set", f"SET {KEY} v NX"),
        ("set", f"SET {KEY} v xx"),
        ("set", f"SET {KEY} v EX 100 GET"),
        ("getex", f"GETEX {KEY} EX 100"),
        ("getex", f"GETEX {KEY} PERSIST"),
        ("setnx", f"SETNX {KEY} v"),
        ("msetnx", f"MSETNX {KEY} v"),
        ("getset", f"GETSET {KEY} v"),
        ("getdel", f"GETDEL {KEY}"),
        ("append", f"APPEND {KEY} v"),
        ("setrange", f"SETRANGE {KEY} 0 v"),
        ("incr", "INCR eu:n"),
        ("incrby", "INCRBY eu:n 2"),
        ("decr", "DECR eu:n"),
        ("decrby", "DECRBY eu:n 2"),
        ("incrbyfloat", "INCRBYFLOAT eu:n 1"),
        ("del", f"DEL {KEY}"),
        ("unlink", f"UNLINK {KEY}"),
        ("persist", f"PERSIST {KEY}"),
        ("expire", f"EXPIRE {KEY} 100"),
        ("pexpire", f"PEXPIRE {KEY} 100000"),
        ("expireat", f"EXPIREAT {KEY} 99999999999"),
        ("pexpireat", f"PEXPIREAT {KEY} 99999999999999"),
        ("duramen.setv", f"DURAMEN.SETV {KEY} v -1"),
    ],
    "read all": [
        ("dbsize", "DBSIZE"),
        ("randomkey", "RANDOMKEY"),
        ("keys", "KEYS *"),
        ("keys", "KEYS e[uv]:*"),
        ("scan", "SCAN 0"),
        ("scan", "SCAN 0 COUNT 10 MATCH e*"),
        ("scan", "SCAN 0 MATCH eu:* MATCH *"),
        ("subscribe", "SUBSCRIBE __keyspace@0__:eu:1"),
        ("psubscribe", "PSUBSCRIBE __keyevent@0__:*"),
    ],
    "read all tables": [("psubscribe", "PSUBSCRIBE *"), ("subscribe", "SUBSCRIBE __keyspace@0__:x __keyspace@3__:x")],
    "see": [
        ("select", "SELECT 0"),
        ("wait", "WAIT 0 1"),
        ("duramen.token", "DURAMEN.TOKEN"),
        ("duramen.await", "DURAMEN.AWAIT <table> 0 0"),
    ],
    "clear": [("flushdb", "FLUSHDB")],
    "manage": [
        ("client|list", "CLIENT LIST"),
        ("client|list", "CLIENT LIST TYPE normal"),
        ("acl|list", "ACL LIST"),
        ("acl|users", "ACL USERS"),
        ("acl|getuser", "ACL GETUSER alice"),
        ("acl|getuser", "ACL GETUSER nobody"),
        ("acl|setuser", "ACL SETUSER alice on"),
        ("acl|deluser", "ACL DELUSER alice"),
        ("acl|load", "ACL LOAD"),
        ("acl|save", "ACL SAVE"),
        ("slowlog|reset", "SLOWLOG RESET"),
    ],
    "any": [
        ("ping", "PING"),
        ("echo", "ECHO x"),
        ("time", "TIME"),
        ("info", "INFO"),
        ("slowlog|get", "SLOWLOG GET"),
        ("slowlog|len", "SLOWLOG LEN"),
        ("slowlog|help", "SLOWLOG HELP"),
        ("command", "COMMAND"),
        ("command|count", "COMMAND COUNT"),
        ("command|info", "COMMAND INFO get"),
        ("command|docs", "COMMAND DOCS get"),
        ("command|list", "COMMAND LIST"),
        ("command|getkeys", "COMMAND GETKEYS GET k"),
        ("cluster|slots", "CLUSTER SLOTS"),
        ("cluster|shards", "CLUSTER SHARDS"),
        ("cluster|nodes", "CLUSTER NODES"),
        ("cluster|info", "CLUSTER INFO"),
        ("cluster|myid", "CLUSTER MYID"),
        ("cluster|keyslot", "CLUSTER KEYSLOT k"),
        ("acl|whoami", "ACL WHOAMI"),
        ("acl|cat", "ACL CAT"),
        ("acl|help", "ACL HELP"),
        ("acl|getuser", "ACL GETUSER <user>"),
        ("client|id", "CLIENT ID"),
        ("client|setname", "CLIENT SETNAME n"),
        ("client|getname", "CLIENT GETNAME"),
        ("client|info", "CLIENT INFO"),
        ("client|list", "CLIENT LIST ID <id>"),
        ("client|setinfo", "CLIENT SETINFO lib-name x"),
        ("client|no-evict", "CLIENT NO-EVICT on"),
        ("client|no-touch", "CLIENT NO-TOUCH on"),
        ("readonly", "READONLY"),
        ("readwrite", "READWRITE"),
        ("asking", "ASKING"),
        ("multi", "MULTI"),
        ("exec", "EXEC"),
        ("discard", "DISCARD"),
        ("unwatch", "UNWATCH"),
        ("unsubscribe", "UNSUBSCRIBE"),
        ("punsubscribe", "PUNSUBSCRIBE"),
        ("duramen.after", "DURAMEN.AFTER x"),
        ("duramen.level", "DURAMEN.LEVEL"),
    ],
}

PROOFS = {"auth", "hello", "quit", "reset"}
"""What is answered to everybody; `test_proofs.py` is about those."""

ALL = [(needs, name, text) for needs, examples in EXAMPLES.items() for name, text in examples]


def test_every_command_and_subcommand_has_one_rule_and_an_example_here() -> None:
    names = set()
    for spec in COMMANDS.values():
        if spec.subcommands is None or spec.name == "command":  # which may come without one
            names.add(spec.name)
        names |= {f"{spec.name}|{word.lower()}" for word in spec.subcommands or ()}
    assert not KEY_RULES.keys() & OTHER_RULES.keys()
    assert names == KEY_RULES.keys() | OTHER_RULES.keys(), "commands without a rule, or rules without a command"
    assert names - PROOFS == {name for _, name, _ in ALL}


@pytest.fixture(scope="module")
def users(guarded: ServerThread) -> ServerThread:
    for name, grants in GRANTS.items():
        guarded.add_user(name, *grants)
    with guarded.connect_as("owner") as raw:
        raw.call("SET", "us:n", 1)
    return guarded


def sent(server: ServerThread, raw: Raw, text: str) -> object:
    words: list[bytes | str | int] = []
    for word in text.split():
        if word == "<table>":
            words.append(str(server.catalog.map.named("default").id))  # type: ignore[union-attr]
        elif word == "<batch>":
            words.append(encode_batch(Columns([KEY.encode()], [b"v"])))
        elif word == "<user>":
            words.append(raw.call("ACL", "WHOAMI"))
        elif word == "<id>":
            words.append(int(raw.call("CLIENT", "ID")))
        else:
            words.append(word)
    return raw.call(*words)


@pytest.mark.parametrize(("needs", "name", "text"), ALL, ids=[text for _, _, text in ALL])
def test_who_may_do_it(users: ServerThread, needs: str, name: str, text: str) -> None:
    for user in GRANTS:
        with users.connect_as(user) as raw:
            reply = sent(users, raw, text)
            is_refused = isinstance(reply, RawError) and reply.text.startswith("NOPERM ")
            assert is_refused == (user not in ALLOWED[needs]), (user, reply)
            if is_refused:
                assert f"User {user} has no permissions to run the '{name.split('|')[0]}' command" in str(reply)
                assert raw.call("PING").text == "PONG", "nothing else is refused with it"


@pytest.mark.parametrize("proof", ["nothing", "a wrong password"])
def test_nobody_may_do_any_of_it(users: ServerThread, proof: str) -> None:
    for needs, _, text in ALL:
        with users.connect() as raw:
            if proof != "nothing":
                raw.call("AUTH", "nobody", "wrong")
            if "<id>" not in text and "<user>" not in text:
                assert sent(users, raw, text) == RawError("NOAUTH Authentication required."), (needs, text)


def test_a_refusal_names_the_grant_that_would_do(users: ServerThread) -> None:
    with users.connect_as("nothing") as raw:
        for text, grant in {
            "GET eu:1": "read default --key eu:1",
            "GET \xff": "read default --key base64:w78=",
            "MGET a b": "read default --key a",
            "SET a b": "write default --key a",
            "INCR a": "read default --key a",
            "KEYS a*": "read default --key a",
            "DBSIZE": "read default",
            "FLUSHDB": "admin default",
            "CLIENT LIST": "admin *",
            "SELECT orders": "read orders",
            "SELECT absent": "read absent",
            "SELECT 7": "read db7",
        }.items():
            reply = raw.call(*text.split())
            assert reply.text.endswith(f" command here: it lacks '{grant}'"), reply
        long = raw.call("GET", "k" * 100_000)
        assert len(long.text) < 400, "a refusal is short, whatever was sent"


def test_one_that_is_forbidden_fails_alone_in_a_pipeline(users: ServerThread) -> None:
    """In a run of reads, in a run of writes, and where both mix, at the beginning, in the middle and at the end."""
    with users.connect_as("both") as raw:
        for kind in ("GET", "SET", "INCR", "mixed"):
            for at in (0, 1, 700, 1499):
                commands = []
                for number in range(1500):
                    key = "us:x" if number == at else f"eu:pipe{number % 100}"
                    name = kind if kind != "mixed" else ("GET", "INCR", "SET")[number % 3]
                    commands.append((name, key, "1") if name == "SET" else (name, key))
                raw.send(b"".join(packed(*each) for each in commands))
                replies = [raw.reply() for _ in commands]
                refused = [place for place, reply in enumerate(replies) if isinstance(reply, RawError)]
                assert refused == [at], (kind, replies[refused[0]] if refused else None)
    with users.connect_as("owner") as raw:
        assert raw.call("GET", "us:x") is None
