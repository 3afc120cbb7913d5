"""SLOWLOG, compared with a real Redis server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kit.resp.raw_client import Raw, Status
from kit.resp.real_redis import RealRedis
from kit.resp.server_thread import ServerThread

from router.endpoints.resp.commands.command_table import COMMANDS

Pair = tuple[Raw, Raw]


@pytest.fixture(scope="module", params=[2, 3], ids=["RESP2", "RESP3"])
def pair(server: ServerThread, redis_server: RealRedis, request: pytest.FixtureRequest) -> Iterator[Pair]:
    with server.connect() as ours, Raw(redis_server.address) as theirs:
        for side in (ours, theirs):
            side.call("HELLO", request.param)
        yield ours, theirs


@pytest.mark.parametrize(
    "text",
    [
        *("SLOWLOG RESET", "SLOWLOG LEN", "slowlog get", "SLOWLOG GET -1", "SLOWLOG GET 0", "SLOWLOG GET 5"),
        *("SLOWLOG", "SLOWLOG NOPE", "SLOWLOG LEN x", "SLOWLOG RESET x", "SLOWLOG HELP x", "SLOWLOG GET 1 2"),
        *("SLOWLOG GET -2", "SLOWLOG GET x", "SLOWLOG GET 1.5", "SLOWLOG GET 99999999999999999999"),
    ],
)
def test_the_reply_is_that_of_redis(pair: Pair, text: str) -> None:
    pair[1].call("CONFIG", "SET", "slowlog-log-slower-than", "-1")
    for side in pair:
        side.call("SLOWLOG", "RESET")
    ours, theirs = (side.call(*text.split()) for side in pair)
    assert ours == theirs


def test_help_names_what_is_here(pair: Pair) -> None:
    ours, theirs = (side.call("SLOWLOG", "HELP") for side in pair)
    assert all(isinstance(line, Status) for line in ours)
    named = {line.text.split()[0] for line in ours[1:-1] if not line.text.startswith(" ")}
    assert named == set(COMMANDS["slowlog"].subcommands or ())
    assert named == {line.text.split()[0] for line in theirs[1:] if not line.text.startswith(" ")}


def test_an_entry_has_the_form_that_it_has_in_redis(pair: Pair) -> None:
    """Of ours all that is known without a slow call; its words are in `test_slow_commands.py`."""
    _, theirs = pair
    theirs.call("CONFIG", "SET", "slowlog-log-slower-than", "0")
    theirs.call("SET", "k", "v")
    entry = next(each for each in theirs.call("SLOWLOG", "GET") if each[3][0].lower() == b"set")
    assert [type(part) for part in entry] == [int, int, int, list, bytes, bytes]
