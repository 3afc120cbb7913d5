"""COMMAND, command by command, compared with a real Redis server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kit.resp.raw_client import Raw, RawError
from kit.resp.real_redis import RealRedis
from kit.resp.server_thread import ServerThread

from router.endpoints.resp.command_descriptions import DESCRIPTIONS
from router.endpoints.resp.commands.command_table import COMMANDS

OWN = sorted(name for name in COMMANDS if name.startswith("duramen."))

# Subcommands that Redis 7.0 has not; clients of later versions send them, and Redis' own descriptions of 7.2 are used.
LATER = {"client|setinfo", "client|no-touch"}

WORDS = sorted(set(DESCRIPTIONS) - set(OWN) - LATER)


@pytest.fixture(scope="module", params=["2", "3"], ids=["RESP2", "RESP3"])
def pair(server: ServerThread, redis_server: RealRedis, request: pytest.FixtureRequest) -> Iterator[tuple[Raw, Raw]]:
    with server.connect() as ours, Raw(redis_server.address) as theirs:
        version = info(theirs.call("INFO", "server"))["redis_version"]
        if not version.startswith("7.0."):
            pytest.skip(f"descriptions are those of Redis 7.0, and this is {version}")
        for side in (ours, theirs):
            side.call("HELLO", request.param)
        yield ours, theirs


def info(reply: bytes) -> dict[str, str]:
    lines = (line.partition(":") for line in reply.decode().splitlines())
    return {name: value for name, _, value in lines}


def test_what_redis_has_later_is_described_too() -> None:
    assert set(DESCRIPTIONS) >= LATER
    assert set(COMMANDS) <= set(DESCRIPTIONS)


def unordered(reply: Any) -> Any:
    """An entry without the order of what is a set: flags, categories, and the flags of keys."""
    name, arity, flags, first, last, step, categories, tips, keys, _subcommands = reply
    return [name, arity, set(flags), first, last, step, set(categories), tips, [_key(each) for each in keys]]


def _key(specification: Any) -> Any:
    if isinstance(specification, dict):
        return {**specification, b"flags": set(specification[b"flags"])}
    at = specification.index(b"flags") + 1
    return [*specification[:at], set(specification[at]), *specification[at + 1 :]]


@pytest.mark.parametrize("word", WORDS)
def test_a_command_is_described_as_redis_does(pair: tuple[Raw, Raw], word: str) -> None:
    ours, theirs = (side.call("COMMAND", "INFO", word) for side in pair)
    assert len(ours) == len(theirs) == 1
    assert unordered(ours[0]) == unordered(theirs[0])


def test_all_commands_and_their_subcommands_are_described(pair: tuple[Raw, Raw]) -> None:
    ours, theirs = (
        {each[0].decode(): {sub[0].decode() for sub in each[9]} for each in side.call("COMMAND")} for side in pair
    )
    assert set(ours) == set(COMMANDS)
    assert set(ours) - set(theirs) == set(OWN)
    for name in set(ours) - set(OWN):
        assert ours[name] - LATER <= theirs[name]
        assert ours[name] == {f"{name}|{word.lower()}" for word in COMMANDS[name].subcommands or ()}


def test_groups_and_versions_are_those_of_redis(pair: tuple[Raw, Raw]) -> None:
    ours, theirs = pair
    for name in sorted(set(COMMANDS) - set(OWN)):
        one, other = (as_map(as_map(side.call("COMMAND", "DOCS", name))[name.encode()]) for side in (ours, theirs))
        assert (one[b"since"], one[b"group"]) == (other[b"since"], other[b"group"]), name


def as_map(reply: Any) -> dict[bytes, Any]:
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=True))


def test_what_is_no_command(pair: tuple[Raw, Raw]) -> None:
    for words in (("nope", "client|nope", "get|x", "get"), ("client|list|x",)):
        ours, theirs = ([each is None for each in side.call("COMMAND", "INFO", *words)] for side in pair)
        assert ours == theirs


def test_names_have_a_limit(server: ServerThread) -> None:
    with server.connect() as raw:
        assert raw.call("COMMAND", "INFO", *["get"] * 300) == RawError(
            "ERR COMMAND INFO takes at most 256 names, not 300"
        )
        assert raw.call("COMMAND", "GETKEYS", "MGET", *["k"] * 300) == [b"k"] * 300
