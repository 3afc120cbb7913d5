"""Transactions: what none takes, and one that writes nothing."""

from __future__ import annotations

import pytest
from kit.resp.raw_client import Raw, RawError, Status

OK = Status("OK")


@pytest.mark.parametrize(
    "words",
    [("SELECT", "1"), ("SCAN", "0"), ("DURAMEN.LEVEL", "strong"), ("DURAMEN.SETV", "k", "v", "-1"), ("SUBSCRIBE", "x")],
    ids=" ".join,
)
def test_what_no_transaction_takes(raw: Raw, key: str, words: tuple[str, ...]) -> None:
    assert raw.call("MULTI") == OK
    assert raw.call("SET", key, "1") == Status("QUEUED")
    refused = raw.call(*words)
    assert refused == RawError(f"ERR {words[0].lower()} cannot be used in a transaction here")
    assert raw.call("EXEC") == RawError("EXECABORT Transaction discarded because of previous errors.")
    assert raw.call("GET", key) is None


def test_a_transaction_of_connection_commands_alone(raw: Raw) -> None:
    raw.call("MULTI")
    for words in (("PING",), ("ECHO", "a"), ("CLIENT", "SETNAME", "b"), ("CLIENT", "GETNAME")):
        assert raw.call(*words) == Status("QUEUED")
    assert raw.call("EXEC") == [Status("PONG"), b"a", OK, b"b"]
