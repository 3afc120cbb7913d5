"""Connections and the server itself: names, lists, ends, information, a cluster of one."""

from __future__ import annotations

import socket

from kit.resp.raw_client import Raw, RawError, Status, packed
from kit.resp.server_thread import ServerThread

OK = Status("OK")


def test_hello(server: ServerThread) -> None:
    with server.connect() as raw:
        two = raw.call("HELLO")
        assert dict(zip(two[::2], two[1::2], strict=True))[b"proto"] == 2
        three = raw.call("HELLO", "3", "SETNAME", "me")
        assert three[b"proto"] == 3
        assert three[b"server"] == b"duramen"
        assert raw.call("CLIENT", "GETNAME") == b"me"
        assert raw.call("GET", "absent") is None
        assert raw.call("RESET") == Status("RESET")
        assert raw.call("CLIENT", "GETNAME") is None


def test_client_list(server: ServerThread, raw: Raw) -> None:
    number = raw.call("CLIENT", "ID")
    raw.call("CLIENT", "SETNAME", "lister")
    raw.call("CLIENT", "SETINFO", "LIB-NAME", "raw")
    line = raw.call("CLIENT", "INFO").decode()
    assert f"id={number} " in line
    assert " name=lister " in line
    assert " lib-name=raw " in line
    assert line in raw.call("CLIENT", "LIST").decode()
    assert raw.call("CLIENT", "LIST", "ID", number).decode() == line
    assert raw.call("CLIENT", "LIST", "TYPE", "pubsub") == b""


def test_a_list_of_chosen_clients(server: ServerThread, raw: Raw) -> None:
    with server.connect() as other:
        numbers = [b"%d" % raw.call("CLIENT", "ID"), b"%d" % other.call("CLIENT", "ID")]
        assert raw.call("CLIENT", "LIST", "ID", *numbers * 30).count(b"\n") == 2, "each is listed once"
    refused = raw.call("CLIENT", "LIST", "ID", *numbers * 5000)
    assert refused == RawError("ERR CLIENT LIST takes at most 9999 ids, not 10000")


def test_a_list_of_clients_is_not_in_a_transaction(raw: Raw) -> None:
    assert raw.call("MULTI") == OK
    assert raw.call("CLIENT", "ID") == Status("QUEUED")
    assert raw.call("CLIENT", "LIST") == RawError("ERR client list cannot be used in a transaction here")
    assert raw.call("EXEC").text.startswith("EXECABORT")


def test_names_that_are_refused(raw: Raw) -> None:
    assert raw.call("CLIENT", "SETNAME", b"x" * 256) == OK
    too_long = raw.call("CLIENT", "SETNAME", b"x" * 257)
    assert too_long == RawError("ERR Client names have at most 256 bytes here")
    spaced = raw.call("CLIENT", "SETNAME", b"a b")
    assert spaced == RawError("ERR Client names cannot contain spaces, newlines or special characters.")
    assert raw.call("CLIENT", "GETNAME") == b"x" * 256


def test_info_counts_channels(server: ServerThread, raw: Raw) -> None:
    with server.connect() as listener:
        listener.send(packed("SUBSCRIBE", "__keyspace@0__:a", "__keyspace@0__:b") + packed("PSUBSCRIBE", "__key*"))
        assert [listener.reply()[0] for _ in range(3)] == [b"subscribe", b"subscribe", b"psubscribe"]
        report = raw.call("INFO", "stats").decode()
        assert "pubsub_channels:2\r\n" in report
        assert "pubsub_patterns:1\r\n" in report


def test_quit_answers_what_was_before(server: ServerThread, key: str) -> None:
    with server.connect() as raw:
        raw.send(packed("SET", key, "1") + packed("INCR", key) + packed("QUIT") + packed("SET", key, "lost"))
        assert [raw.reply() for _ in range(3)] == [OK, 2, OK]
        assert raw.ended()
    with server.connect() as raw:
        assert raw.call("GET", key) == b"2"


def test_half_closed(server: ServerThread, key: str) -> None:
    """`printf … | nc`: the client ends its half, and gets every answer."""
    with server.connect() as raw:
        raw.send(b"set %b 5\r\nincr %b\r\nping\r\n" % (key.encode(), key.encode()))
        raw.socket.shutdown(socket.SHUT_WR)
        assert [raw.reply() for _ in range(3)] == [OK, 6, Status("PONG")]
        assert raw.ended()


def test_info(raw: Raw, key: str) -> None:
    raw.call("SET", key, "1")
    text = raw.call("INFO").decode()
    for line in ("redis_version:7.0.0", "server_name:duramen", "role:master", "cluster_enabled:0", "db0:keys="):
        assert line in text
    assert raw.call("INFO", "clients").startswith(b"# Clients\r\nconnected_clients:")
    assert raw.call("INFO", "nothing") == b""


def test_commands_about_commands(raw: Raw) -> None:
    count = raw.call("COMMAND", "COUNT")
    assert count == len(raw.call("COMMAND")) == len(raw.call("COMMAND", "LIST"))
    (get, missing) = raw.call("COMMAND", "INFO", "get", "lpush")
    assert get[:2] == [b"get", 2]
    assert get[3:6] == [1, 1, 1]
    assert missing is None
    docs = raw.call("COMMAND", "DOCS", "set")
    assert docs[0] == b"set"
    assert raw.call("COMMAND", "GETKEYS", "MSET", "a", "1", "b", "2") == [b"a", b"b"]


def test_every_command_has_words_for_people(raw: Raw) -> None:
    docs = raw.call("COMMAND", "DOCS")
    assert all(dict(zip(each[::2], each[1::2], strict=True))[b"summary"] for each in docs[1::2])


def test_a_cluster_of_one(server: ServerThread, raw: Raw) -> None:
    host, port = server.address
    ((first, last, node),) = raw.call("CLUSTER", "SLOTS")
    assert (first, last) == (0, 16383)
    assert node[:2] == [host.encode(), port]
    assert raw.call("CLUSTER", "MYID") == node[2]
    assert raw.call("CLUSTER", "KEYSLOT", "{user1}x") == raw.call("CLUSTER", "KEYSLOT", "user1")
    assert raw.call("CLUSTER", "KEYSLOT", "foo") == 12182  # as the documentation of Redis Cluster has it
    assert b"cluster_state:ok" in raw.call("CLUSTER", "INFO")
    assert b"myself,master" in raw.call("CLUSTER", "NODES")
    assert len(raw.call("CLUSTER", "SHARDS")) == 1
    for words in (("READONLY",), ("READWRITE",), ("ASKING",)):
        assert raw.call(*words) == OK
    assert raw.call("WAIT", "0", "100") == 0
