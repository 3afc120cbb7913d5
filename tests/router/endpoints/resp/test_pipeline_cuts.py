"""A mixed pipeline, cut in two at every byte: the same replies as in one piece, and the same keys afterwards."""

from __future__ import annotations

from typing import Final

from kit.resp.raw_client import RawError, Status, packed
from kit.resp.server_thread import ServerThread

OK: Final = Status("OK")
QUEUED: Final = Status("QUEUED")

COMMANDS: Final = (
    packed("SET", "k", "5"),
    packed("INCR", "k"),
    b"APPEND k x\r\n",
    packed("INCR", "k"),
    packed("MSET", "a", "1", "b", "\r\n$2"),
    packed("MGET", "a", "b", "k"),
    packed("MULTI"),
    packed("GETDEL", "k"),
    packed("EXEC"),
    packed("DEL", "a", "b", "k"),
)
REPLIES: Final = [
    OK,
    6,
    2,
    RawError("ERR value is not an integer or out of range"),
    OK,
    [b"1", b"\r\n$2", b"6x"],
    OK,
    QUEUED,
    [b"6x"],
    2,
]


def test_every_boundary_of_a_mixed_pipeline(server: ServerThread) -> None:
    data = b"".join(COMMANDS)
    assert 200 <= len(data) <= 300
    with server.connect() as raw:
        for cut in range(1, len(data)):
            raw.send(data[:cut])
            raw.send(data[cut:])
            assert [raw.reply() for _ in COMMANDS] == REPLIES, f"cut at byte {cut}"


def test_one_byte_at_a_time(server: ServerThread) -> None:
    data = b"".join(COMMANDS)
    with server.connect() as raw:
        for at in range(len(data)):
            raw.send(data[at : at + 1])
        assert [raw.reply() for _ in COMMANDS] == REPLIES
