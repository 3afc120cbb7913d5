"""Tables by name and number, and what their keys and values may be."""

from __future__ import annotations

from kit.deadlines import patience_s
from kit.resp.raw_client import Raw, RawError, Status
from kit.resp.server_thread import ServerThread

from log_tier.rows.table_spec import TableSpec

OK = Status("OK")


def test_tables_by_name_and_number(server: ServerThread, raw: Raw, key: str) -> None:
    server.run(lambda: server.data_plane.create_table(TableSpec(f"named-{key}", 2), timeout=patience_s(10)))
    assert raw.call("SET", key, "default") == OK
    assert raw.call("SELECT", f"named-{key}") == OK
    assert raw.call("GET", key) is None
    assert raw.call("SET", key, "named") == OK
    assert raw.call("SELECT", "3") == OK
    assert raw.call("SET", key, "three") == OK
    assert raw.call("SELECT", "0") == OK
    assert raw.call("GET", key) == b"default"
    assert raw.call("SELECT", "db3") == OK
    assert raw.call("GET", key) == b"three"
    missing = raw.call("SELECT", "nothing-of-that-name")
    assert missing.text.startswith("ERR there is no table 'nothing-of-that-name'")
    assert raw.call("GET", key) == b"three", "a SELECT that failed has changed nothing"
    assert raw.call("SELECT", "16") == RawError("ERR DB index is out of range")
    assert raw.call("SELECT", "-1") == RawError("ERR DB index is out of range")
    assert raw.call("SELECT", "no table!").text.startswith("ERR ")


def test_a_table_that_was_dropped_is_made_again(server: ServerThread, raw: Raw, key: str) -> None:
    raw.call("SELECT", "7")
    assert raw.call("SET", key, "1") == OK
    server.run(lambda: server.data_plane.drop_table("db7", timeout=patience_s(10)))
    answers = [raw.call("GET", key) for _ in range(3)]
    assert answers[-1] is None
    assert raw.call("SET", key, "2") == OK
    assert raw.call("GET", key) == b"2"


def test_keys_and_values_have_limits(raw: Raw, key: str) -> None:
    too_long = RawError("ERR keys have 1 to 511 bytes here")
    for name in ("", "k" * 512):
        for words in (
            ("GET", name),
            ("SET", name, "v"),
            ("SET", name, "v", "EX", "9"),
            ("INCR", name),
            ("MGET", key, name),
        ):
            assert raw.call(*words) == too_long
    assert raw.call("SET", "k" * 511, "v") == OK
    assert raw.call("GET", "k" * 511) == b"v"
    raw.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4194305\r\n")
    assert raw.reply() == RawError("ERR Protocol error: invalid bulk length")
    assert raw.ended()


def test_the_largest_value(raw: Raw, key: str) -> None:
    value = bytes(range(256)) * (4 * 1024 * 4)
    assert raw.call("SET", key, value) == OK
    assert raw.call("GET", key) == value
    assert raw.call("STRLEN", key) == len(value)
    assert raw.call("APPEND", key, "x").text.startswith("ERR string exceeds maximum allowed size")
    assert raw.call("GETRANGE", key, "-2", "-1") == b"\xfe\xff"
