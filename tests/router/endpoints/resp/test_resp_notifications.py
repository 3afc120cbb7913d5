"""Keyspace notifications, in both protocols."""

from __future__ import annotations

import pytest
from kit.resp.loop_turns import LoopTurns
from kit.resp.raw_client import Raw, Status, packed
from kit.resp.server_thread import ServerThread

from log_tier.concurrency.persistent_map import PersistentMap
from router.endpoints.resp.wire.patterns import Glob


def test_what_happens_to_keys(server: ServerThread, raw: Raw, key: str) -> None:
    with server.connect() as listener:
        space, event = f"__keyspace@0__:{key}", "__keyevent@0__:del"
        assert listener.call("SUBSCRIBE", space) == [b"subscribe", space.encode(), 1]
        assert listener.call("PSUBSCRIBE", "__keyevent@0__:d*") == [b"psubscribe", b"__keyevent@0__:d*", 2]
        refused = listener.call("GET", key)
        assert refused.text.startswith("ERR Can't execute 'get': only (P|S)SUBSCRIBE")
        assert listener.call("PING") == [b"pong", b""]
        raw.call("SET", key, "1", "EX", "100")
        raw.call("INCR", key)
        raw.call("SET", f"{key}-other", "1")
        raw.call("SET", key, "1", "NX")  # changes nothing, so nothing is sent
        raw.call("DEL", key)
        expected = [b"set", b"expire", b"set", b"expire", b"del"]
        for name in expected:
            assert listener.reply() == [b"message", space.encode(), name]
        assert listener.reply() == [b"pmessage", b"__keyevent@0__:d*", event.encode(), key.encode()]
        assert listener.call("UNSUBSCRIBE") == [b"unsubscribe", space.encode(), 1]
        assert listener.call("PUNSUBSCRIBE") == [b"punsubscribe", b"__keyevent@0__:d*", 0]
        assert listener.call("UNSUBSCRIBE") == [b"unsubscribe", None, 0]
        assert listener.call("GET", key) is None


def test_other_channels_are_refused(raw: Raw) -> None:
    assert raw.call("SUBSCRIBE", "news").text.startswith("ERR only keyspace notifications are here")
    assert raw.call("PUBLISH", "news", "x").text.startswith("ERR unknown command 'PUBLISH'")


def test_pushes_of_resp3_come_between_replies(server: ServerThread, raw: Raw, key: str) -> None:
    with server.connect() as listener:
        listener.call("HELLO", "3")
        channel = f"__keyspace@0__:{key}"
        assert listener.call("SUBSCRIBE", channel) == [b"subscribe", channel.encode(), 1]
        raw.call("SET", key, "1")
        assert listener.reply() == [b"message", channel.encode(), b"set"]
        assert listener.call("GET", key) == b"1", "by RESP3 a listener may ask, too"


def test_many_patterns_look_at_the_tables_once(
    server: ServerThread, raw: Raw, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each pattern that names no table was looked for among all tables: 57 ms of one turn for a thousand patterns."""
    patterns = [b"__key*__:%d*" % number for number in range(999)]
    with server.connect() as listener, LoopTurns(server, monkeypatch, PersistentMap, "values") as counted:
        listener.send(packed("PSUBSCRIBE", *patterns, f"__key*__:{key}"))
        assert [listener.reply()[1] for _ in patterns] == patterns
        listener.reply()
        raw.call("SET", key, "1")
        assert listener.reply()[3] == b"set"
    assert counted.calls <= len(patterns) / 4


def test_others_get_their_turn_between_comparisons_with_patterns(
    server: ServerThread, raw: Raw, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A comparison costs a microsecond, however short pattern and channel are: 8,000 of them were 35 ms of one turn."""
    patterns = [f"__key*__:{key}-{number}*" for number in range(999)]
    keys = [f"{key}:{number}" for number in range(20)]
    with server.connect() as listener, LoopTurns(server, monkeypatch, Glob, "matches") as counted:
        listener.send(packed("PSUBSCRIBE", *patterns, f"__keyspace@0__:{key}:*"))
        assert [listener.reply()[0] for _ in range(1000)] == [b"psubscribe"] * 1000
        raw.send(b"".join(packed("SET", name, "1") for name in keys))
        assert [raw.reply() for _ in keys] == [Status("OK")] * len(keys)
        assert [listener.reply()[2] for _ in keys] == [f"__keyspace@0__:{name}".encode() for name in keys]
    assert counted.calls >= 19 * 2 * 1000, "each change has two channels"
    assert counted.most_in_one_turn <= 3000
