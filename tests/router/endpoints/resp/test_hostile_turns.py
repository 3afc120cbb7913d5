"""No turn of the event loop takes more than 10 ms, whatever is hostile in a command: see `test_turn_times.py`.

Each case is one command, or one transaction, whose cost grows with what a client writes into it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

import pytest
from kit.resp.raw_client import Raw, RawError, packed
from kit.resp.server_thread import ServerThread
from kit.resp.turn_times import TURN_MAX_S, shortest_of

from router.endpoints.resp.server.sockets import RespSettings

pytestmark = [
    pytest.mark.campaign,
    pytest.mark.skipif("DURAMEN_CAMPAIGN" not in os.environ, reason="a limit on time: `make campaign` measures it"),
]

TRIES: Final = 4


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerThread]:
    server = ServerThread(tmp_path_factory.mktemp("turns"), RespSettings(port=0, table_partitions=1)).start()
    with server.connect() as raw:
        for begin in range(0, len(WORDS), 50_000):
            pairs = [word for key in WORDS[begin : begin + 50_000] for word in (key, b"value")]
            assert raw.call("MSET", *pairs).text == "OK"
        for key in (b"a" * 200, b"ab" * 100, b"[" * 200):
            assert raw.call("SET", key, b"x").text == "OK"
    yield server
    server.close()


@pytest.fixture
def raw(busy: ServerThread) -> Iterator[Raw]:
    with busy.connect() as connection:
        yield connection


WORDS: Final = [b"word:%06d" % number for number in range(100_000)]
LARGE: Final = b"x" * 1_000_000

COMMANDS: Final[dict[str, tuple[bytes | str, ...]]] = {
    "mget": ("MGET", *WORDS),
    "exists": ("EXISTS", *WORDS),
    "touch": ("TOUCH", *WORDS),
    "watch": ("WATCH", *WORDS[:10_000]),
    "watch too many": ("WATCH", *WORDS),
    "keys with stars": ("KEYS", b"*" + b"a*" * 500 + b"b"),
    "keys with sets": ("KEYS", b"*" + b"[a-z]*" * 200 + b"0"),
    "keys with one endless set": ("KEYS", b"[" + b"a-zb-y" * 10_000 + b"]*"),
    "keys with question marks": ("KEYS", b"?*" * 30_000),
    "scan": ("SCAN", "0", "MATCH", b"*" + b"a*" * 500 + b"b", "COUNT", "100000"),
    "scan with many options": ("SCAN", "0", *["COUNT", "10"] * 50_000),
    "client list": ("CLIENT", "LIST", "ID", *WORDS),
    "client kill": ("CLIENT", "KILL", *WORDS),
    "client reply": ("CLIENT", *WORDS),
    "command docs": ("COMMAND", "DOCS", *WORDS),
    "command info": ("COMMAND", "INFO", *WORDS),
    "command docs of one": ("COMMAND", "DOCS", *["get"] * 100_000),
    "command info of one": ("COMMAND", "INFO", *["get"] * 100_000),
    "command list": ("COMMAND", "LIST", "FILTERBY", "PATTERN", b"*a" * 30_000),
    "command getkeys": ("COMMAND", "GETKEYS", "MSET", *WORDS),
    "config get": ("CONFIG", "GET", *WORDS),
    "config get patterns": ("CONFIG", "GET", *[b"*a*b*c*"] * 100_000),
    "config set": ("CONFIG", "SET", *WORDS),
    "info": ("INFO", *WORDS),
    "cluster keyslot": ("CLUSTER", "KEYSLOT", LARGE),
    "echo": ("ECHO", LARGE),
    "set": ("SET", "large", LARGE),
    "set with many options": ("SET", "large", "x", *["XX"] * 100_000),
    "getex with many options": ("GETEX", "large", *["PERSIST"] * 100_000),
    "setrange": ("SETRANGE", "large", "999999", "x"),
    "setrange too far": ("SETRANGE", "large", "100000000", "x"),
    "getrange": ("GETRANGE", "large", "0", "-1"),
    "append": ("APPEND", "appended", b"x" * 200_000),
    "incrbyfloat": ("INCRBYFLOAT", "float", "1e-3999"),
    "incrbyfloat of a long number": ("INCRBYFLOAT", "float", b"1" * 1_000_000),
    "incrby of a long number": ("INCRBY", "integer", b"1" * 1_000_000),
    "expire of a long number": ("EXPIRE", "large", b"1" * 1_000_000),
    "expire with many options": ("EXPIRE", "large", "10", *["NX"] * 100_000),
    "hello": ("HELLO", "3", *["SETNAME", "x"] * 50_000),
    "select": ("SELECT", b"1" * 1_000_000),
    "duramen.token": ("DURAMEN.TOKEN",),
    "duramen.after": ("DURAMEN.AFTER", LARGE),
    "duramen.level": ("DURAMEN.LEVEL", *WORDS),
    "duramen.getv": ("DURAMEN.GETV", "large"),
    "duramen.setv": ("DURAMEN.SETV", "large", LARGE, b"1" * 100_000),
    "duramen.read": ("DURAMEN.READ", b"x" * 100_000, b"1" * 100_000, "5", "k"),
    "duramen.await": ("DURAMEN.AWAIT", b"x" * 100_000, b"1" * 4000, "5"),
    "duramen.write": ("DURAMEN.WRITE", b"x" * 100_000, b"0", LARGE),
    "an unknown one": (b"y" * 1_000_000, *WORDS),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_one_command(busy: ServerThread, raw: Raw, name: str) -> None:
    command = packed(*COMMANDS[name])

    def called() -> None:
        raw.send(command)
        raw.reply()
        assert raw.call("UNWATCH").text == "OK"

    assert shortest_of(TRIES, busy, called) <= TURN_MAX_S


def test_many_deleted(busy: ServerThread, raw: Raw) -> None:
    def deleted() -> None:
        pairs = [word for key in WORDS[:50_000] for word in (b"deleted:" + key, b"value")]
        assert raw.call("MSET", *pairs).text == "OK"
        assert raw.call("DEL", *pairs[::2]) == 50_000

    assert shortest_of(TRIES, busy, deleted) <= TURN_MAX_S


@pytest.mark.parametrize("command", ["SUBSCRIBE", "PSUBSCRIBE"])
def test_many_channels(busy: ServerThread, command: str) -> None:
    def listened() -> None:
        with busy.connect() as raw:
            raw.send(packed(command, *[b"__keyspace@0__:" + word for word in WORDS]))
            assert raw.reply() == RawError("ERR a connection listens to at most 1000 channels and patterns")

    assert shortest_of(TRIES, busy, listened) <= TURN_MAX_S


INLINE: Final = {
    "words": b"MGET " + b"a " * 30_000,
    "words in quotes": b"MGET " + b'"" ' * 20_000,
    "different words in quotes": b"MGET " + b"".join(b'"%x" ' % number for number in range(9000)),
    "escapes": b'ECHO "' + b"\\n" * 30_000 + b'"',
    "numbers": b'ECHO "' + b"\\x41" * 15_000 + b'"',
    "quotes in quotes": b"ECHO '" + b"\\'" * 30_000 + b"'",
    "an open quote": b'ECHO "' + b"\\" * 60_001,
}


@pytest.mark.parametrize("name", INLINE)
def test_one_line(busy: ServerThread, name: str) -> None:
    def called() -> None:
        with busy.connect() as raw:
            raw.send(INLINE[name] + b"\r\n")
            raw.reply()

    assert shortest_of(TRIES, busy, called) <= TURN_MAX_S


TRANSACTIONS: Final[dict[str, list[bytes]]] = {
    "sums of long numbers": [packed("INCRBYFLOAT", "sum", "1e-3999")] * 500,
    "reads of a large value": [packed("STRLEN", "read")] * 2000,
    "appends": [packed("APPEND", "appended", b"x" * 400)] * 2000,
    "descriptions": [packed("COMMAND")] * 40,
    "descriptions and a key": [packed("COMMAND")] * 40 + [packed("INCR", "number")],
    "documents and a key": [packed("COMMAND", "DOCS")] * 40 + [packed("INCR", "number")],
    "lists and a key": [packed("COMMAND", "LIST")] * 5000 + [packed("INCR", "number")],
    "many reads of many": [packed("MGET", *WORDS[number * 6 : number * 6 + 6]) for number in range(10_000)],
    "many puts": [packed("SET", word, b"v") for word in WORDS[:10_000]],
}


@pytest.mark.parametrize("name", TRANSACTIONS)
def test_one_transaction(busy: ServerThread, raw: Raw, name: str) -> None:
    assert raw.call("SET", "read", LARGE).text == "OK"
    commands = TRANSACTIONS[name]

    def executed() -> None:
        assert raw.call("DEL", "appended") in (0, 1)
        raw.send(packed("MULTI") + b"".join(commands))
        for _ in range(len(commands) + 1):
            assert not isinstance(raw.reply(), RawError)
        assert len(raw.call("EXEC")) == len(commands)

    assert shortest_of(TRIES, busy, executed) <= TURN_MAX_S
