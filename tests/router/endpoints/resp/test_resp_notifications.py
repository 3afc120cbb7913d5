"""Keyspace notifications, in both protocols."""

from __future__ import annotations

import pytest
from kit.resp.loop_turns import LoopTurns
from kit.resp.raw_client import Raw, packed
from kit.resp.server_thread import ServerThread

from log_tier.concurrency.persistent_map import PersistentMap


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
