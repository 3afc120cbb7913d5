"""The words of the Redis protocol: what is packed is read back, and an incomplete reply is waited for."""

from __future__ import annotations

import pytest

from duramen.testing.machine.resp_words import RawError, Status, packed, read_reply


@pytest.mark.parametrize(
    ("data", "reply"),
    [
        (b"+OK\r\n", Status("OK")),
        (b"-ERR no\r\n", RawError("ERR no")),
        (b":42\r\n", 42),
        (b"$-1\r\n", None),
        (b"$3\r\na\r\n\r\n"[:9], b"a\r\n"),
        (b"*2\r\n$1\r\na\r\n_\r\n", [b"a", None]),
        (b"%1\r\n+a\r\n#t\r\n", {Status("a"): True}),
        (packed("GET", b"key", 7), [b"GET", b"key", b"7"]),
    ],
)
def test_every_prefix_is_incomplete(data: bytes, reply: object) -> None:
    assert read_reply(data) == (reply, len(data))
    for size in range(len(data)):
        with pytest.raises(IndexError):
            read_reply(data[:size])
