"""No turn of the event loop takes more than 10 ms of the processor, whatever a client sends.

The limit is on processor time, measured on the loop's thread; `TURN_MAX_S` is the product's promise. Processor time
depends on the machine, so these are measurements of the campaign; the suite counts work by the turn, in
`test_long_pipelines.py` and `test_large_commands.py`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
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
    yield server
    server.close()


@pytest.fixture
def raw(busy: ServerThread) -> Iterator[Raw]:
    with busy.connect() as connection:
        yield connection


WORDS: Final = [b"word:%06d" % number for number in range(250_000)]


def test_a_list_of_many_clients(busy: ServerThread, raw: Raw) -> None:
    with ExitStack() as stack:
        others = [stack.enter_context(busy.connect()) for _ in range(300)]
        for other in others:
            assert other.call("CLIENT", "SETNAME", b"x" * 200).text == "OK"
        numbers = [b"%d" % other.call("CLIENT", "ID") for other in others]

        def listed() -> None:
            assert raw.call("CLIENT", "LIST").count(b"\n") >= 300
            assert raw.call("CLIENT", "LIST", "ID", *numbers * 30).count(b"\n") == 300, "each is listed once"
            refused = raw.call("CLIENT", "LIST", "ID", *numbers * 400)
            assert refused == RawError("ERR CLIENT LIST takes at most 9999 ids, not 120000")

        assert shortest_of(TRIES, busy, listed) <= TURN_MAX_S


def test_a_long_name(busy: ServerThread, raw: Raw) -> None:
    def named() -> None:
        refused = raw.call("CLIENT", "SETNAME", b"x" * 1_000_000)
        assert refused == RawError("ERR Client names have at most 256 bytes here")
        assert raw.call("CLIENT", "SETNAME", b"a b") == RawError(
            "ERR Client names cannot contain spaces, newlines or special characters."
        )

    assert shortest_of(TRIES, busy, named) <= TURN_MAX_S


def test_a_long_reply_about_a_command(busy: ServerThread, raw: Raw) -> None:
    def asked() -> None:
        assert len(raw.call("COMMAND", "GETKEYS", "MGET", *WORDS)) == len(WORDS)

    assert shortest_of(TRIES, busy, asked) <= TURN_MAX_S


PAIRS: Final = [word for key in WORDS[:50_000] for word in (key, b"value")]


def test_many_pairs(busy: ServerThread, raw: Raw) -> None:
    def written() -> None:
        assert raw.call("MSET", *PAIRS).text == "OK"
        assert raw.call("MSETNX", *PAIRS) == 0

    assert shortest_of(TRIES, busy, written) <= TURN_MAX_S


def test_many_new_pairs(busy: ServerThread, raw: Raw) -> None:
    generations = iter(range(TRIES))

    def written() -> None:
        tag = b"new%d:" % next(generations)
        assert raw.call("MSETNX", *[tag + word for word in PAIRS]) == 1

    assert shortest_of(TRIES, busy, written) <= TURN_MAX_S


def test_more_pairs_than_a_batch_holds(busy: ServerThread, raw: Raw) -> None:
    def refused() -> None:
        reply = raw.call("MSET", *[word for key in WORDS[:100_000] for word in (key, b"v")])
        assert reply.text.startswith("ERR 100000 records of ")

    assert shortest_of(TRIES, busy, refused) <= TURN_MAX_S


DEAR: Final = {
    "sums of long numbers": packed("INCRBYFLOAT", "number", "1e-3999"),
    "COMMAND": packed("COMMAND"),
    "reads of a large value": packed("STRLEN", "large"),
    "times of a large value": packed("TTL", "large"),
}


@pytest.mark.parametrize("name", DEAR)
def test_many_commands_that_cost_much(busy: ServerThread, raw: Raw, name: str) -> None:
    assert raw.call("SET", "large", b"x" * 1_000_000).text == "OK"

    def piped() -> None:
        raw.send(DEAR[name] * 200)
        assert not [reply for reply in (raw.reply() for _ in range(200)) if isinstance(reply, RawError)]

    assert shortest_of(TRIES, busy, piped) <= TURN_MAX_S
