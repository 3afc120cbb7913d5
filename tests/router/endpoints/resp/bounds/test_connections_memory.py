"""What all connections hold together is bounded: those that hold most end, with a message, and the others go on."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.deadlines import wait_until
from kit.resp.raw_client import Raw, RawError, Status, packed
from kit.resp.server_thread import ServerThread
from kit.virtual_loop import run_virtually

from router.endpoints.resp.bounds.connections_memory import ConnectionsMemory
from router.endpoints.resp.server.sockets import RespSettings

LIMIT: Final = 16
"""MiB."""
MIB: Final = 1 << 20
OK: Final = Status("OK")


@pytest.fixture(scope="module", params=[0, 1], ids=["one process", "a reader"])
def small(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[ServerThread]:
    settings = RespSettings(port=0, clients_mebibytes=LIMIT, readers=request.param)
    running = ServerThread(tmp_path_factory.mktemp("small"), settings).start()
    yield running
    running.close()


def half_a_command(raw: Raw, mebibytes: int) -> None:
    """The beginning of an MSET, which waits for its end."""
    raw.send(b"*17\r\n$4\r\nMSET\r\n" + (b"$1\r\nk\r\n$%d\r\n" % MIB + b"x" * MIB + b"\r\n") * mebibytes)


def ended(raw: Raw) -> bool:
    """Has the server ended the connection? Waits for nothing."""
    raw.socket.setblocking(False)
    try:
        return not raw.socket.recv(1 << 16)
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def test_those_that_hold_most_end_and_the_others_go_on(small: ServerThread) -> None:
    with small.connect() as modest, small.connect() as other:
        half_a_command(modest, 2)
        greedy = [small.connect() for _ in range(4)]
        try:
            for each in greedy:
                half_a_command(each, 7)
            wait_until(lambda: sum(map(ended, greedy)) >= 2, "four times 7 MiB and 2 MiB are more than 16 MiB")
            assert sum(map(ended, greedy)) <= 3, "as many as needed"
            assert other.call("SET", "mine", "1") == OK
            modest.send(b"$4\r\nmore\r\n" * 12)
            assert modest.reply() == OK, "the command is complete, and runs"
        finally:
            for each in greedy:
                each.socket.close()


def test_replies_that_nobody_reads_count(small: ServerThread) -> None:
    """The kernel takes some MiB of each connection's replies; what is behind is the server's."""
    with small.connect() as raw:
        assert raw.call("SET", "large", b"x" * MIB) == OK
        unread = [small.connect() for _ in range(24)]
        try:
            wait_until(lambda: len(small.server.clients) == 25, "all are there")
            for each in unread:
                each.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                each.send(packed("MGET", *["large"] * 8) * 5)
            wait_until(lambda: len(small.server.clients) < 16, "some of them are ended")
            assert len(small.server.clients) > 1, "the one that reads, and those that hold little"
            assert raw.call("GET", "large") == b"x" * MIB
        finally:
            for each in unread:
                each.socket.close()


def test_the_one_that_reads_is_answered_why(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    running = ServerThread(tmp_path, RespSettings(port=0, clients_mebibytes=2)).start()
    try:
        with caplog.at_level(logging.WARNING), running.connect() as raw:
            half_a_command(raw, 4)
            reply = raw.reply()
            assert isinstance(reply, RawError)
            assert f"more than {2 * MIB}, and this one has" in reply.text
            assert "send less at once, and read the replies" in reply.text
            assert raw.ended()
        assert "is evicted" in caplog.text
        wait_until(lambda: running.server.memory.evicted == 1)
    finally:
        running.close()


class HeldSize:
    """A connection of so many bytes."""

    def __init__(self, size: int, connections: list[HeldSize]) -> None:
        self.size = size
        self._connections = connections
        connections.append(self)

    @property
    def held_bytes_max(self) -> int:
        return self.size + 1

    def held_bytes(self) -> int:
        return self.size

    def evict(self, reason: str) -> None:
        assert f"has {self.size} of them" in reason
        self._connections.remove(self)


@given(sizes=st.lists(st.integers(0, 100), min_size=1, max_size=12), bytes_max=st.integers(0, 300))
def test_the_largest_end_and_no_more_than_needed(sizes: list[int], bytes_max: int) -> None:
    connections: list[HeldSize] = []

    async def looked_at() -> None:
        memory = ConnectionsMemory(bytes_max, lambda: connections, asyncio.get_running_loop().time)
        for size in sizes:
            HeldSize(size, connections)
            memory.joined()
        await asyncio.sleep(1)
        await memory.close()

    run_virtually(looked_at())
    left = sorted(each.size for each in connections)
    assert left == sorted(sizes)[: len(left)], "the largest have ended"
    assert sum(left) <= bytes_max
    assert len(left) == len(sizes) or sum(sorted(sizes)[: len(left) + 1]) > bytes_max, "no more than needed"
