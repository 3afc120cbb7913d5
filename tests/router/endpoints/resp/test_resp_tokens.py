"""Tokens, levels and versions, as far as a client of Redis sees them."""

from __future__ import annotations

from typing import Any

import pytest
from kit.cluster.one_machine import held, puts, write
from kit.deadlines import wait_until
from kit.resp.raw_client import Raw, RawError, Status
from kit.resp.server_thread import ServerThread

from log_tier.model.errors import WriteUnknown
from log_tier.model.identifiers import Offset, Partition, PartitionId
from log_tier.model.tokens import Token

OK = Status("OK")


def test_a_write_is_there_for_every_connection(server: ServerThread, key: str) -> None:
    with server.connect() as one, server.connect() as other:
        for number in range(200):
            assert one.call("SET", key, number) == OK
            assert other.call("GET", key) == b"%d" % number


def test_reads_wait_for_what_was_acknowledged(server: ServerThread, raw: Raw, key: str) -> None:
    assert raw.call("SET", key, "old") == OK
    assert raw.call("SET", f"{key}-other", "1") == OK
    assert raw.call("MGET", key, f"{key}-other") == [b"old", b"1"]
    table = server.run(lambda: server.server.tables.open("default"))
    replica = server.data_plane.node.replica(PartitionId(table.ref.id, Partition(0)))
    with server.connect() as reader:
        with held(replica):
            assert raw.call("SET", key, "new") == OK
            assert reader.call("GET", f"{key}-other") == b"1", "other keys need not wait"
            reader.send(b"GET %b\r\n" % key.encode())
        assert reader.reply() == b"new"


def test_a_token_travels(server: ServerThread, raw: Raw, key: str) -> None:
    raw.call("SET", key, "1")
    text = raw.call("DURAMEN.TOKEN")
    with server.connect() as other:
        assert other.call("DURAMEN.AFTER", text) == OK
        assert other.call("GET", key) == b"1"
        assert other.call("DURAMEN.AFTER", "d1.nonsense").text.startswith("ERR ")
        assert other.call("DURAMEN.AFTER", text + b"x").text.startswith("ERR ")


@pytest.mark.parametrize("words", [("DURAMEN.AFTER",), ("DURAMEN.LEVEL", "strong")], ids=" ".join)
def test_what_the_server_acknowledged_by_grpc_is_read_with_its_token(
    server: ServerThread, raw: Raw, key: str, words: tuple[str, ...]
) -> None:
    """An endpoint's floors hold what it acknowledged itself; a write that came another way is like another server's."""
    assert raw.call("SET", key, "old") == OK
    assert raw.call("GET", key) == b"old"
    table = server.run(lambda: server.server.tables.open("default"))
    replica = server.data_plane.node.replica(PartitionId(table.ref.id, Partition(0)))
    with server.connect() as patient:
        with held(replica):
            batch = puts((key.encode(), b"new"))
            result = server.run(lambda: write(server.data_plane, table.ref, 0, batch))
            assert raw.call("GET", key) == b"old", "no token was given, and nothing was shown: it need not wait"
            if words == ("DURAMEN.AFTER",):
                words = (*words, str(Token.of(table.ref.id, Partition(0), result.base_offset)))
            assert patient.call(*words) == OK
            patient.send(b"GET %b\r\n" % key.encode())
            for number in range(10):
                assert raw.call("ECHO", number) == b"%d" % number, "a read that did not wait has its answer by now"
        assert patient.reply() == b"new"


def test_a_token_of_the_future_is_refused(server: ServerThread, raw: Raw, key: str) -> None:
    raw.call("SET", key, "1")
    table = server.run(lambda: server.server.tables.open("default"))
    ahead = str(Token.of(table.ref.id, Partition(0), Offset(1 << 40)))
    assert raw.call("DURAMEN.AFTER", ahead) == OK
    assert "the log ends at" in raw.call("GET", key).text
    with server.connect() as other:
        assert other.call("GET", key) == b"1", "nobody else is kept waiting"


@pytest.mark.parametrize("level", ["session", "eventual", "strong"])
def test_levels(raw: Raw, key: str, level: str) -> None:
    assert raw.call("DURAMEN.LEVEL", level) == OK
    assert raw.call("DURAMEN.LEVEL") == level.encode()
    assert raw.call("SET", key, "1") == OK
    assert raw.call("INCR", key) == 2
    if level == "eventual":  # whatever the index has
        wait_until(lambda: raw.call("GET", key) == b"2", "the index has it")
    assert raw.call("GET", key) == b"2"
    assert raw.call("EXISTS", key) == 1
    assert raw.call("DURAMEN.LEVEL", "linear").text.startswith("ERR the level is one of session")


def test_versions(raw: Raw, key: str) -> None:
    assert raw.call("DURAMEN.GETV", key) is None
    first = raw.call("DURAMEN.SETV", key, "a", "-1")
    assert raw.call("DURAMEN.GETV", key) == [b"a", first]
    assert raw.call("DURAMEN.SETV", key, "b", "-1") is None
    second = raw.call("DURAMEN.SETV", key, "b", first, "EX", "100")
    assert second > first
    assert raw.call("TTL", key) == 100
    assert raw.call("DURAMEN.SETV", key, "c", first) is None
    assert raw.call("GET", key) == b"b"
    assert raw.call("DURAMEN.SETV", key, "c", second, "NX") == RawError("ERR syntax error")
    assert raw.call("DURAMEN.SETV", key, "c", "-2").text.startswith("ERR a version is an offset")


def test_a_version_after_a_lost_reply_fits_the_next_condition(wide: ServerThread, key: str) -> None:
    """The log has the first copy and its answer is lost: what is returned is that copy's place, not the second
    one's.
    """
    log = wide.data_plane.log
    inner = log.append_many
    lose: list[bool] = []

    async def lossy(parts: Any, **how: Any) -> Any:
        results = await inner(parts, **how)
        return [WriteUnknown("no reply came")] * len(results) if lose and lose.pop() else results

    log.append_many = lossy  # type: ignore[method-assign]
    try:
        with wide.connect() as raw:
            version = -1
            for number in range(5):
                lose.append(True)
                version = raw.call("DURAMEN.SETV", key, f"v{number}", version)
                assert raw.call("DURAMEN.GETV", key) == [b"v%d" % number, version]
            for words, value in ((("SET", key, "5"), b"5"), (("INCR", key), b"6"), (("APPEND", key, "7"), b"67")):
                lose.append(True)
                raw.call(*words)
                found, version = raw.call("DURAMEN.GETV", key)
                assert found == value
                assert raw.call("DURAMEN.SETV", key, value, version) > version
            assert not lose
    finally:
        del log.append_many
