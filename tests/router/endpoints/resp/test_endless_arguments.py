"""Arguments that are too many or too long to mean anything are refused in Redis' words."""

from __future__ import annotations

import pytest
from kit.resp.raw_client import Raw, RawError, Status

from log_tier.model.identifiers import Offset, Partition, table_id_from_bytes
from log_tier.model.tokens import Token
from router.endpoints.resp.data.key_views import PendingVersion, with_versions

SYNTAX = RawError("ERR syntax error")


@pytest.mark.parametrize(
    "words",
    [
        ("SET", "k", "v", *["XX"] * 65),
        ("GETEX", "k", *["PERSIST"] * 65),
        ("EXPIRE", "k", "10", *["NX"] * 65),
        ("SCAN", "0", *["COUNT", "10"] * 33),
        ("HELLO", "2", *["SETNAME", "x"] * 33),
        ("INFO", *["server"] * 65),
    ],
    ids=lambda words: words[0],
)
def test_endless_options(raw: Raw, words: tuple[str, ...]) -> None:
    assert raw.call(*words) == SYNTAX
    assert raw.call("PING") == Status("PONG")


def test_options_that_are_said_twice(raw: Raw, key: str) -> None:
    assert raw.call("SET", key, "v", *["NX"] * 64) == Status("OK")


@pytest.mark.parametrize("number", ["16", "-1", "1" * 5000, "-" + "1" * 5000])
def test_a_database_that_nobody_has(raw: Raw, number: str) -> None:
    assert raw.call("SELECT", number) == RawError("ERR DB index is out of range")


@pytest.mark.parametrize("name", ["--5", "²", "db" + "1" * 100])
def test_what_is_no_number_is_a_name(raw: Raw, name: str) -> None:
    refused = raw.call("SELECT", name)
    assert isinstance(refused, RawError)
    assert refused != RawError("ERR internal error")


@pytest.mark.parametrize("kind", ["SUBSCRIBE", "PSUBSCRIBE"])
def test_too_many_channels(raw: Raw, kind: str) -> None:
    refused = raw.call(kind, *[b"__keyspace@0__:%d" % number for number in range(1001)])
    assert refused == RawError("ERR a connection listens to at most 1000 channels and patterns")


def test_versions_are_found_at_every_depth() -> None:
    pending = PendingVersion(2)
    assert with_versions([b"a", [b"b", pending], 7], 10) == [b"a", [b"b", 12], 7]
    assert with_versions([[[pending]], pending], 10) == [[[12]], 12]
    plain = [b"a", [b"b", None], [1, [2]]]
    assert with_versions(plain, 10) == plain


def test_a_channel_with_a_long_name(raw: Raw) -> None:
    refused = raw.call("SUBSCRIBE", b"__keyspace@0__:" + b"k" * 2000)
    assert refused == RawError("ERR a channel's name has at most 1024 bytes, this one has 2015")


def test_tokens_without_an_end(raw: Raw) -> None:
    """A token may name any tables; what a connection keeps of all of them together has a limit."""
    assert raw.call("SET", "k", "v") == Status("OK")
    own = Token.parse(raw.call("DURAMEN.TOKEN").decode())
    replies = []
    for number in range(80):
        table = table_id_from_bytes(number.to_bytes(16, "big"))
        token = own.merge(Token({table: {Partition(each): Offset(each) for each in range(1000)}}))
        replies.append(raw.call("DURAMEN.AFTER", str(token)))
    refused = RawError("ERR the tokens of a connection name at most 65536 partitions: use a new connection for it")
    assert replies == [Status("OK")] * 65 + [refused] * 15
    assert raw.call("GET", "k") == b"v"
