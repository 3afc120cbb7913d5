"""Reader processes: reads are answered there, everything else at the server, and no client sees a difference."""

from __future__ import annotations

import os
import random
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from kit.deadlines import patience_s, wait_until
from kit.resp.raw_client import Raw, RawError, Status, packed
from kit.resp.server_thread import ServerThread

from log_tier.model.errors import InvalidRequest, PortInUse
from router.endpoints.resp.server.sockets import RespSettings, RespSockets

DEADLINE_S = 20
READERS = 2


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerThread]:
    """For tests that leave nothing but keys, and expect none but their own: each reader is a cold start."""
    running = ServerThread(tmp_path_factory.mktemp("lasting"), RespSettings(port=0, readers=READERS)).start()
    yield running
    running.close()


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerThread]:
    """One of this test's own: some of them break it."""
    running = ServerThread(tmp_path_factory.mktemp("resp"), RespSettings(port=0, readers=READERS)).start()
    yield running
    running.close()


def tally(server: ServerThread) -> int:
    assert server.server.pages is not None
    return server.server.pages.tally.total()


def settled(server: ServerThread, connection: Raw, *keys: str) -> None:
    """Return when reads of these keys are answered by the reader."""

    def here() -> bool:
        before = tally(server)
        for key in keys:
            connection.call("GET", key)
        return tally(server) == before + len(keys)

    wait_until(here)


def test_reads_are_answered_by_reader_processes(server: ServerThread) -> None:
    with server.connect() as connection:
        connection.call("MSET", "a", "1", "b", "2")
        connection.call("SET", "brief", "3", "EX", "1000")
        settled(server, connection, "a", "b", "brief", "absent")
        before, at_server = (
            tally(server),
            server.server.commands_done + sum(c.commands for c in server.server.clients.values()),
        )
        for _ in range(50):
            assert connection.call("GET", "a") == b"1"
        assert connection.call("get", "absent") is None
        assert connection.call("MGET", "a", "absent", "b") == [b"1", None, b"2"]
        assert connection.call("EXISTS", "a", "b", "absent") == 2
        assert connection.call("STRLEN", "a") == 1
        assert 998 <= connection.call("TTL", "brief") <= 1000
        assert connection.call("DURAMEN.GETV", "a")[0] == b"1"
        connection.send(packed("GET", "a") * 100 + packed("MGET", "a", "b"))
        assert [connection.reply() for _ in range(101)] == [b"1"] * 100 + [[b"1", b"2"]]
        assert tally(server) == before + 50 + 6 + 101
        assert sum(c.commands for c in server.server.clients.values()) + server.server.commands_done == at_server
        stats = connection.call("INFO", "stats").decode()
        assert f"total_commands_processed:{at_server + 1 + tally(server)}" in stats


def test_wrong_calls_are_refused_alike(lasting: ServerThread) -> None:
    with lasting.connect() as connection:
        connection.call("SET", "a", "1")
        settled(lasting, connection, "a")
        assert connection.call("GET") == RawError("ERR wrong number of arguments for 'get' command")
        assert connection.call("GET", "") == RawError("ERR keys have 1 to 511 bytes here")
        assert connection.call("GETRANGE", "a", "x", "1") == RawError("ERR value is not an integer or out of range")
        assert connection.call("FROB", "a").text.startswith("ERR unknown command 'FROB'")
        assert connection.call("DURAMEN.STATE").text.startswith("ERR unknown command")
        assert connection.call("GET", "a") == b"1"


def test_what_the_connection_is_decides(server: ServerThread) -> None:
    """After each of these the reader knows that it may not answer, or how."""
    with server.connect() as connection, server.connect() as other:
        connection.call("SET", "a", "1")
        settled(server, connection, "a", "absent")
        assert connection.call("HELLO", "3")[b"proto"] == 3
        before = tally(server)
        connection.send(packed("GET", "absent"))
        assert connection.socket.recv(100) == b"_\r\n", "RESP3's null"
        assert tally(server) == before + 1
        assert connection.call("MULTI") == Status("OK")
        assert connection.call("GET", "a") == Status("QUEUED")
        assert connection.call("INCR", "a") == Status("QUEUED")
        assert connection.call("EXEC") == [b"1", 2]
        assert connection.call("GET", "a") == b"2"
        assert connection.call("SELECT", "5") == Status("OK")
        assert connection.call("GET", "a") is None
        connection.call("SET", "a", "five")
        settled(server, connection, "a")
        assert connection.call("GET", "a") == b"five"
        assert other.call("GET", "a") == b"2"
        assert connection.call("DURAMEN.LEVEL", "strong") == Status("OK")
        before = tally(server)
        assert connection.call("GET", "a") == b"five"
        assert tally(server) == before, "the log is asked, which only the server does"
        assert connection.call("RESET") == Status("RESET")
        assert connection.call("GET", "a") == b"2"


def test_subscribers_are_handed_over(server: ServerThread) -> None:
    with server.connect() as listener, server.connect() as other:
        listener.send(packed("SET", "a", "1") + packed("GET", "a") + packed("SUBSCRIBE", "__keyevent@0__:set"))
        assert [listener.reply() for _ in range(3)] == [Status("OK"), b"1", [b"subscribe", b"__keyevent@0__:set", 1]]
        other.call("SET", "b", "2")
        assert listener.reply() == [b"message", b"__keyevent@0__:set", b"b"]
        assert listener.call("PING") == [b"pong", b""]
        assert listener.call("UNSUBSCRIBE") == [b"unsubscribe", b"__keyevent@0__:set", 0]
        assert listener.call("GET", "b") == b"2"


def test_clients_are_known_by_their_own_address(lasting: ServerThread) -> None:
    with lasting.connect() as connection:
        host, port = connection.socket.getsockname()
        assert f"addr={host}:{port} " in connection.call("CLIENT", "LIST").decode()


@pytest.mark.parametrize("seed", range(6))
def test_random_pipelines_against_a_dict(server: ServerThread, seed: int) -> None:
    """Reads, writes and others in one stream, cut anywhere: each reply as if they had run one after the other."""
    chance = random.Random(seed)
    keys = [f"k{number}" for number in range(5)]
    values: dict[str, str] = {}
    with server.connect() as connection:
        for _ in range(60):
            stream = b""
            expected: list[Any] = []
            for _ in range(chance.randrange(1, 12)):
                key, value = chance.choice(keys), str(chance.randrange(100))
                known = values.get(key)
                match chance.choice(["get", "get", "get", "mget", "set", "getset", "incr", "del", "exists", "echo"]):
                    case "get":
                        stream += packed("GET", key)
                        expected.append(None if known is None else known.encode())
                    case "mget":
                        stream += packed("MGET", *keys)
                        expected.append([values[k].encode() if k in values else None for k in keys])
                    case "set":
                        stream += packed("SET", key, value)
                        expected.append(Status("OK"))
                        values[key] = value
                    case "getset":
                        stream += packed("SET", key, value, "GET")
                        expected.append(None if known is None else known.encode())
                        values[key] = value
                    case "incr":
                        stream += packed("INCR", key)
                        values[key] = str(int(known or "0") + 1)
                        expected.append(int(values[key]))
                    case "del":
                        stream += packed("DEL", key)
                        expected.append(int(values.pop(key, None) is not None))
                    case "exists":
                        stream += packed("EXISTS", key)
                        expected.append(int(key in values))
                    case "echo":
                        stream += packed("ECHO", value)
                        expected.append(value.encode())
            while stream:
                cut = chance.choice([1, 5, 20, len(stream)])
                connection.send(stream[:cut])
                stream = stream[cut:]
            assert [connection.reply() for _ in expected] == expected
        assert tally(server) > 0


def test_a_read_sees_every_write_that_was_acknowledged(lasting: ServerThread) -> None:
    """Whichever reader it comes to; and nobody sees less than somebody has seen before."""
    before = tally(lasting)
    stop, enough = threading.Event(), time.monotonic() + DEADLINE_S
    acknowledged = seen = 0
    with lasting.connect() as first:
        first.call("SET", "n", "0")

    def write() -> None:
        nonlocal acknowledged
        with lasting.connect() as connection:
            for number in range(1, 1000):
                assert connection.call("SET", "n", number) == Status("OK")
                acknowledged = number
                # A busy machine may end earlier, with fewer writes.
                if stop.is_set() or (number >= 100 and time.monotonic() > enough):
                    break
        stop.set()

    def read() -> int:
        nonlocal seen
        reads = 0
        with lasting.connect() as connection:
            while not stop.is_set():
                floor = max(acknowledged, seen)
                found = int(connection.call("GET", "n"))
                assert found >= floor
                seen = max(seen, found)
                reads += 1
        return reads

    with ThreadPoolExecutor(7) as threads:
        readers = [threads.submit(read) for _ in range(6)]
        threads.submit(write).result(patience_s(DEADLINE_S * 3))
        assert all(reader.result(patience_s(DEADLINE_S)) > 0 for reader in readers)
    assert tally(lasting) > before


def test_a_table_that_is_cleared_is_cleared_for_all(server: ServerThread) -> None:
    connections = [server.connect() for _ in range(6)]
    try:
        for number in range(3):
            connections[0].call("SET", "k", number)
            for connection in connections:
                assert connection.call("GET", "k") == b"%d" % number
            settled(server, connections[1], "k")
            assert connections[2].call("DEL", "k") == 1
            assert [connection.call("GET", "k") for connection in connections] == [None] * 6
    finally:
        for connection in connections:
            connection.close()


def test_another_index_is_read_when_a_replica_is_replaced(server: ServerThread) -> None:
    """A replica that stops takes its index with it: the server answers until another one is there."""
    with server.connect() as connection:
        connection.call("SET", "k", "1")
        settled(server, connection, "k")
        (table,) = server.server.tables.served()
        (replica,) = table.replicas
        assert replica is not None
        before = tally(server)

        async def leave() -> None:
            replica._leave()

        server.run(leave)
        assert connection.call("GET", "k") == b"1"
        settled(server, connection, "k")
        assert tally(server) > before


def test_a_table_that_is_dropped_is_read_no_more(server: ServerThread) -> None:
    with server.connect() as connection, server.connect() as other:
        connection.call("SET", "k", "1")
        settled(server, connection, "k")
        settled(server, other, "k")
        server.run(lambda: server.data_plane.drop_table("default", timeout=DEADLINE_S))
        assert "it was dropped" in connection.call("GET", "k").text
        assert connection.call("GET", "k") is None, "it is made again at first use"
        assert connection.call("SET", "k", "2") == Status("OK")
        assert other.call("GET", "k") == b"2"
        settled(server, connection, "k")
        settled(server, other, "k")


def test_a_reader_that_is_killed_is_replaced(server: ServerThread) -> None:
    connections = [server.connect() for _ in range(12)]
    for connection in connections:
        connection.call("SET", "k", "1")
    victim, other = server.readers.pids
    os.kill(victim, signal.SIGKILL)
    gone = 0
    for connection in connections:
        try:
            assert connection.call("GET", "k") == b"1"
        except (ConnectionError, OSError):
            gone += 1
        connection.close()
    assert 0 < gone < len(connections), "the kernel spreads them over both"
    wait_until(lambda: len(server.readers.pids) == READERS and victim not in server.readers.pids)
    assert other in server.readers.pids
    for _ in range(12):
        with server.connect() as connection:
            assert connection.call("GET", "k") == b"1"
    wait_until(lambda: len(server.server.clients) == 0)


def test_readers_end_with_the_server(server: ServerThread) -> None:
    pids = server.readers.pids
    assert server.server.pages is not None
    folder = server.server.pages.folder
    with server.connect() as connection:
        connection.call("SET", "k", "1")
        server.close()
        assert connection.ended()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert not folder.exists()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(server.address, timeout=patience_s(5))


def test_the_port_is_not_shared_with_another_server(lasting: ServerThread) -> None:
    for readers in (0, 2):
        with pytest.raises(PortInUse, match="another server may have it"):
            RespSockets.take(RespSettings(port=lasting.server.port, readers=readers))
    with pytest.raises(InvalidRequest, match="--resp-port with --resp-readers"):
        RespSockets.take(RespSettings(readers=2))


def test_a_client_that_does_not_read_is_waited_for(lasting: ServerThread) -> None:
    """Its replies wait in the kernel and here up to a limit; others go on; then it gets all of them."""
    value = "v" * 100_000
    with lasting.connect() as slow, lasting.connect() as other:
        slow.call("SET", "large", value)
        settled(lasting, slow, "large")
        count = 400
        sending = threading.Thread(target=slow.send, args=[packed("GET", "large") * count])
        sending.start()
        for _ in range(100):
            assert other.call("GET", "large") == value.encode()
        for _ in range(count):
            assert slow.reply() == value.encode()
        sending.join(patience_s(DEADLINE_S))
        assert not sending.is_alive()


def test_what_a_client_sent_before_it_left_takes_effect(lasting: ServerThread) -> None:
    with lasting.connect() as other:
        for number in range(20):
            with lasting.connect() as connection:
                assert connection.call("PING") == Status("PONG")
                connection.send(packed("SET", "last", number) + packed("GET", "last") * 3)
            wait_until(lambda number=number: other.call("GET", "last") == b"%d" % number)  # type: ignore[misc]


def test_a_client_that_has_said_all_gets_its_answers(server: ServerThread) -> None:
    with server.connect() as connection:
        connection.send(packed("SET", "a", "1") + packed("GET", "a") + packed("DBSIZE"))
        connection.socket.shutdown(socket.SHUT_WR)
        assert [connection.reply() for _ in range(3)] == [Status("OK"), b"1", 1]
        assert connection.ended()
