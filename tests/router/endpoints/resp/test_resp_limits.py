"""Clients that send too much, read too little, or send nonsense: an error or a closed connection, and nobody minds."""

from __future__ import annotations

import os
import resource
import socket
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.deadlines import patience_s, wait_until
from kit.resp.raw_client import Raw, RawError, Status, packed
from kit.resp.server_thread import ServerThread

from router.endpoints.resp.data import served_tables
from router.endpoints.resp.data.cursors import Cursors
from router.endpoints.resp.data.shared_writer import RESP_RULES
from router.endpoints.resp.server import resp_server as server_module
from router.endpoints.resp.wire import limits

OK = Status("OK")
CAMPAIGN = bool(os.environ.get("DURAMEN_CAMPAIGN"))


def memory_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_a_long_pipeline(server: ServerThread, key: str) -> None:
    """More commands at once than are ever queued; nobody reads while they are sent."""
    blocks = 334 if CAMPAIGN else 30
    block = packed("SET", key, "x" * 20) * 1000 + packed("GET", key) * 1000 + packed("PING") * 1000
    expected = (b"+OK\r\n" + b"$20\r\n" + b"x" * 20 + b"\r\n" + b"+PONG\r\n") * 1000
    before = memory_bytes()
    with server.connect() as raw, server.connect() as other:
        raw.socket.settimeout(patience_s(120))
        sender = threading.Thread(target=raw.send, args=(block * blocks,))
        sender.start()
        left = len(expected) * blocks
        answers = 0
        while left:
            data = raw.socket.recv(1 << 16)
            assert data
            left -= len(data)
            answers += 1
            if answers % 50 == 0:
                assert other.call("PING") == Status("PONG"), "others are served in between"
        sender.join()
    assert memory_bytes() - before < 400 << 20


def test_who_does_not_read_is_not_read_and_then_dropped(impatient: ServerThread, key: str) -> None:
    server = impatient
    value = b"v" * 1_000_000
    before = memory_bytes()
    with server.connect() as raw, server.connect() as slow:
        raw.call("SET", key, value)
        slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.send(packed("CLIENT", "ID"))
        number = slow.reply()
        slow.socket.settimeout(0.5)
        try:
            for _ in range(100_000):
                slow.send(packed("GET", key) * 100)
        except OSError:
            pass  # the kernel takes no more, or the connection is gone
        assert raw.call("GET", key) == value
        wait_until(lambda: number not in server.server.clients, "the slow reader is still there")
    assert memory_bytes() - before < 300 << 20


def test_a_reply_has_a_limit(server: ServerThread, key: str) -> None:
    with server.connect() as raw:
        raw.call("SET", key, b"v" * 4_000_000)
        report = raw.call("MGET", *[key] * 9)
        assert report.text.startswith("ERR the values of these")
        assert raw.call("MGET", *[key] * 8) == [b"v" * 4_000_000] * 8
        # As many GETs are as many replies, and each may leave before the next is read.
        raw.send(packed("GET", key) * 100)
        before = memory_bytes()
        assert all(raw.reply() == b"v" * 4_000_000 for _ in range(100))
        assert memory_bytes() - before < 200 << 20


def test_a_transaction_whose_reply_nobody_could_hold(server: ServerThread, key: str) -> None:
    with server.connect() as raw, server.connect() as other:
        raw.call("SET", key, b"v" * 4_000_000)
        raw.call("MULTI")
        for _ in range(20):
            raw.call("GET", key)
        raw.send(packed("EXEC"))
        assert raw.ended()
        assert other.call("STRLEN", key) == 4_000_000


def test_a_queue_has_a_limit_in_bytes(server: ServerThread, key: str) -> None:
    """Behind a command that waits, a client may not fill this process."""
    with server.connect() as raw, server.connect() as other:
        raw.send(packed("SET", key, "1") + packed("WAIT", "1", "700"))
        data = packed("ECHO", b"x" * 4_000_000) * 60
        before = memory_bytes()
        raw.socket.settimeout(patience_s(60))
        sender = threading.Thread(target=raw.send, args=(data,))
        sender.start()
        assert raw.reply() == OK
        assert other.call("PING") == Status("PONG")
        assert raw.reply() == 0
        assert memory_bytes() - before < 150 << 20, "240 MB were sent"
        assert all(len(raw.reply()) == 4_000_000 for _ in range(60))
        sender.join()


def test_so_many_connections(server: ServerThread, monkeypatch: pytest.MonkeyPatch) -> None:
    wait_until(lambda: not server.server.clients, "earlier connections")
    monkeypatch.setattr(server_module, "CONNECTIONS_MAX", 3)
    many = [server.connect() for _ in range(3)]
    assert all(each.call("PING") == Status("PONG") for each in many)
    with server.connect() as refused:
        assert refused.reply() == RawError("ERR max number of clients reached")
        assert refused.ended()
    for _ in range(20):
        with server.connect() as refused:
            # Closing a socket with unread bytes sends a reset, which overtakes the refusal.
            refused.send(packed("PING") * 5000)
            assert refused.reply() == RawError("ERR max number of clients reached")
            assert refused.ended()
    many.pop().close()
    wait_until(lambda: len(server.server.clients) == 2, "one has gone")
    with server.connect() as again:
        assert again.call("PING") == Status("PONG")
    for each in many:
        each.close()


@pytest.mark.parametrize(
    ("last", "reply"),
    [
        (b"*x\r\n", RawError("ERR Protocol error: invalid multibulk length")),
        (b"*1\r\n$99999999999\r\n", RawError("ERR Protocol error: invalid bulk length")),
        (packed("QUIT"), OK),
    ],
)
def test_a_last_reply_arrives_whatever_was_sent_behind_it(server: ServerThread, last: bytes, reply: Status) -> None:
    for _ in range(5):
        with server.connect() as raw:
            sender = threading.Thread(target=_send_all, args=(raw, last + packed("ECHO", "x" * 1000) * 4000))
            sender.start()
            sender.join(patience_s(20))
            assert not sender.is_alive(), "what it sends is read, and not answered"
            assert raw.reply() == reply
            assert raw.ended()


def _send_all(raw: Raw, data: bytes) -> None:
    raw.send(data)


def test_two_thousand_idle_connections(server: ServerThread, key: str) -> None:
    count = 2000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2 * count + 500:
        pytest.skip(f"this user may have {hard} files open, and both ends of {count} connections are here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * count + 500), hard))
    idle: list[socket.socket] = []
    try:
        before = memory_bytes()
        for _ in range(count):
            idle.append(socket.create_connection(server.address, timeout=patience_s(20)))  # noqa: PERF401 - closed below, however many
        wait_until(lambda: len(server.server.clients) >= count, "all of them are in")
        assert (memory_bytes() - before) / count < 64 << 10, "bytes for each"
        with server.connect() as raw:
            assert raw.call("SET", key, "1") == OK
            assert raw.call("GET", key) == b"1"
            for each in idle[::100]:
                each.sendall(packed("GET", key))
                assert each.recv(100) == b"$1\r\n1\r\n"
    finally:
        for each in idle:
            each.close()
        wait_until(lambda: len(server.server.clients) < 10, "they have gone")
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@settings(max_examples=100, deadline=None)
@given(garbage=st.binary(min_size=1, max_size=200))
def test_garbage_harms_nobody(server: ServerThread, garbage: bytes) -> None:
    with server.connect() as healthy, server.connect() as raw:
        raw.send(garbage)
        raw.socket.shutdown(socket.SHUT_WR)
        raw.socket.settimeout(patience_s(20))
        while True:
            try:
                if not raw.socket.recv(1 << 16):
                    break
            except ConnectionResetError:
                break
        assert healthy.call("PING") == Status("PONG")


def test_every_cut(server: ServerThread, key: str) -> None:
    data = packed("SET", key, "value") + packed("GET", key) + b"APPEND %b x\r\n" % key.encode() + packed("STRLEN", key)
    for cut in range(1, len(data)):
        with server.connect() as raw:
            raw.send(data[:cut])
            raw.send(data[cut:])
            assert [raw.reply() for _ in range(4)] == [OK, b"value", 6, 6]


def test_writes_that_the_log_does_not_take(
    server: ServerThread, raw: Raw, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server.server.writer._rounds, "_rules", replace(RESP_RULES, pending_bytes_max=100))
    assert raw.call("SET", key, "small") == OK
    for words in (("SET", key, "x" * 200), ("SET", key, "x" * 200, "EX", "100"), ("APPEND", key, "x" * 200)):
        assert raw.call(*words).text.startswith("TRYAGAIN "), words
    assert raw.call("GET", key) == b"small"


def test_cursors_are_remembered_so_far(raw: Raw, server: ServerThread, monkeypatch: pytest.MonkeyPatch) -> None:
    raw.call("SELECT", "9")
    raw.call("MSET", *(word for number in range(20) for word in (f"k{number}", "v")))
    monkeypatch.setattr(server.server, "cursors", Cursors(limit=2))
    first, _ = raw.call("SCAN", "0", "COUNT", "2")
    for _ in range(3):
        raw.call("SCAN", "0", "COUNT", "2")
    assert raw.call("SCAN", first).text.startswith("ERR invalid cursor")


def test_the_limits_fit_together() -> None:
    assert limits.BULK_BYTES_MAX < limits.COMMAND_BYTES_MAX <= limits.OUTPUT_BYTES_MAX
    assert limits.OUTPUT_PAUSE_BYTES < limits.OUTPUT_BYTES_MAX
    assert served_tables.NUMBERS == 16


def test_keys_answers_with_so_many_bytes(server: ServerThread, key: str) -> None:
    """Half a gigabyte of long keys would be gathered for one reply."""
    count = limits.KEYS_BYTES_MAX // 500 + 2000
    names = [f"{key}:{number:06d}".ljust(500, "x") for number in range(count)]
    with server.connect() as raw:
        for at in range(0, count, 2000):
            words = [word for name in names[at : at + 2000] for word in (name, "")]
            assert raw.call("MSET", *words) == OK
        refused = RawError(f"ERR the keys that match have more than {limits.KEYS_BYTES_MAX} bytes: use SCAN")
        assert raw.call("KEYS", f"{key}:*") == refused
        assert len(raw.call("KEYS", f"{key}:0000*")) == 100
        for at in range(0, count, 2000):
            assert raw.call("DEL", *names[at : at + 2000]) == len(names[at : at + 2000])
