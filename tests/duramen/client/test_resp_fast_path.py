"""Blocking callers at a server's RESP endpoint: the same answers as by gRPC, and nothing lost or done twice."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import redis
from kit.client.server_process import ServerProcess
from kit.deadlines import patience_s, wait_until

import duramen
from duramen.blocking import Database, Table
from duramen.client.model.results import Done
from duramen.client.transport.loop_thread import LoopThread
from duramen.client.transport.resp_fast_path import Lost, RespFastPath, _Line
from duramen.server.roles.all_in_one import SingleServer as Server
from router.data.seam import NOT_FRESH
from router.endpoints.resp.server.sockets import RespSettings
from router.remote.resp_place import NOWHERE
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.replica import apply

DEADLINE_S = 20


@pytest.fixture
def database(served_fast: Server) -> Iterator[Database]:
    with duramen.connect(f"127.0.0.1:{served_fast.port}") as connected:
        yield connected


@pytest.fixture
def flights(database: Database) -> Table:
    """A table that was found, so that the fast path is open."""
    table = database.create_table("flights", partitions=4)
    table.put(b"first", b"1")
    return table


def server_of(database: Database) -> RespFastPath:
    assert database._inner.context.fast_path is not None
    return database._inner.context.fast_path


def changes_of(table: Table, count: int) -> list[tuple[bytes, bytes | None]]:
    found: list[tuple[bytes, bytes | None]] = []
    for change in table.watch(start="earliest"):
        found.append((change.key, change.value))
        if len(found) == count:
            break
    return found


def test_gets_and_puts_go_by_the_resp_endpoint(flights: Table) -> None:
    fast_path = flights._fast_path
    assert fast_path is not None
    assert isinstance(fast_path.put(b"k", b"v"), Done)
    assert fast_path.get(b"k") == b"v"
    assert fast_path.get(b"absent") is None
    assert flights.put(b"k", b"w").offset > 0
    assert flights.get(b"k") == b"w"


def test_what_has_options_goes_by_grpc_and_meets_the_rest(flights: Table) -> None:
    first = flights.put(b"k", b"1")
    with pytest.raises(duramen.ConditionFailed):
        flights.put(b"k", b"2", if_absent=True)
    assert flights.put(b"k", b"2", if_version=first.offset).offset > first.offset
    assert flights.get(b"k") == b"2"
    assert flights.update(b"k", add=5).value == 7
    assert flights.get(b"k") == b"7"
    assert flights.get_many([b"k", b"absent"]) == [b"7", None]
    flights.delete(b"k")
    assert flights.get(b"k") is None
    flights.put(b"brief", b"x", ttl=1000)
    assert flights.get(b"brief") == b"x"
    assert flights.get(b"brief", level="strong") == b"x"


@pytest.mark.parametrize(
    "call",
    [
        lambda table: table.put(b"", b"v"),
        lambda table: table.put(b"k" * 512, b"v"),
        lambda table: table.put("k", b"v"),
        lambda table: table.put(b"k", "v"),
        lambda table: table.put(b"k", None),
        lambda table: table.put(b"k", b"v" * (5 << 20)),
        lambda table: table.get(b""),
        lambda table: table.get(b"k" * 512),
        lambda table: table.get("k"),
        lambda table: table.get(None),
    ],
)
def test_wrong_calls_are_refused_alike(flights: Table, served_fast: Server, call: Callable[[Table], object]) -> None:
    with duramen.connect(f"127.0.0.1:{served_fast.port}", direct=False) as other:
        assert other._inner.context.fast_path is None
        with pytest.raises((duramen.DuramenError, TypeError)) as by_grpc:
            call(other.table("flights"))
        with pytest.raises(type(by_grpc.value)) as by_resp:
            call(flights)
    assert str(by_resp.value) == str(by_grpc.value)
    assert flights.get(b"first") == b"1"


def test_the_session_is_one(served_fast: Server, database: Database, flights: Table) -> None:
    target = f"127.0.0.1:{served_fast.port}"
    with duramen.connect(target) as other:
        theirs = other.table("flights")
        done = theirs.put(b"k", b"theirs")
        while flights.get(b"k") != b"theirs":
            pass
        seen = duramen.Token.parse(database.token()).offsets(done.table_id)
        assert seen[done.partition] >= done.offset, "what was read is in the token"
        mine = flights.put(b"k", b"mine")
        assert duramen.Token.parse(database.token()).offsets(done.table_id)[mine.partition] >= mine.offset
        assert theirs.get(b"k", after=mine.token) == b"mine"
        assert dict(flights.scan())[b"k"] == b"mine"


def test_what_is_read_while_it_is_being_committed_is_in_the_token(
    served_fast: Server, database: Database, flights: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers see a commit before the thread that made it has noted its offset."""
    assert flights.get(b"first", level="strong") == b"1", "what came before is committed"
    committed, goes_on = threading.Event(), threading.Event()
    inner = LmdbIndex._commit

    def held(self: LmdbIndex, *arguments: Any) -> None:
        committed.set()
        assert goes_on.wait(patience_s(DEADLINE_S))
        inner(self, *arguments)

    monkeypatch.setattr(apply, "SMALL_BYTES_MAX", -1)  # by the thread: the loop must not be held up
    monkeypatch.setattr(LmdbIndex, "_commit", held)
    try:
        with duramen.connect(f"127.0.0.1:{served_fast.port}") as other:
            done = other.table("flights").put(b"k", b"theirs")
            assert committed.wait(patience_s(DEADLINE_S))
            assert flights._fast_path is not None
            assert flights._fast_path.get(b"k") == b"theirs"
            assert duramen.Token.parse(database.token()).offsets(done.table_id)[done.partition] >= done.offset
    finally:
        goes_on.set()


def test_a_read_waits_for_what_the_session_has_seen(flights: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the replica has not applied it, the endpoint says no, and gRPC waits."""
    place = flights.put(b"k", b"v")
    asked: list[tuple[bytes, ...]] = []
    ask = _Line.ask

    def ahead(self: _Line, *words: bytes) -> Any:
        asked.append(words)
        if words[0] == b"DURAMEN.READ":
            words = (*words[:3], b"%d" % (place.offset + 1000), *words[4:])
        return ask(self, *words)

    monkeypatch.setattr(_Line, "ask", ahead)
    assert flights._fast_path is not None
    assert flights._fast_path.get(b"k") is NOT_FRESH
    assert [words[0] for words in asked] == [b"DURAMEN.READ", b"DURAMEN.AWAIT", b"DURAMEN.READ"]
    assert {words[3] for words in asked} == {b"%d" % place.offset}, "the session's offset goes along"
    assert flights.get(b"k") == b"v"


def test_a_write_is_read_at_once(flights: Table) -> None:
    fast_path = flights._fast_path
    assert fast_path is not None
    for number in range(300):
        flights.put(b"k", b"%d" % number)
        assert fast_path.get(b"k") == b"%d" % number


class Deaf:
    """Between a client and the endpoint: passes on what it gets, until a write; the write's reply is lost."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.lost = 0
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            with client, socket.create_connection(("127.0.0.1", self._target)) as server:
                while data := client.recv(65536):
                    server.sendall(data)
                    answer = server.recv(65536)
                    if b"DURAMEN.WRITE" in data:
                        self.lost += 1
                        break
                    client.sendall(answer)

    def close(self) -> None:
        self._listening.close()


def test_a_put_whose_reply_is_lost_takes_effect_once(served_fast: Server, database: Database, flights: Table) -> None:
    proxy = Deaf(served_fast.resp_port)
    fast_path = server_of(database)
    lines = set(fast_path._lines)
    for line in lines:
        fast_path.drop(line)
    fast_path.place = fast_path.place._replace(port=proxy.port)
    done = [flights.put(b"k", b"%d" % number) for number in range(3)]
    assert proxy.lost == 3
    proxy.close()
    assert [each.offset for each in done] == sorted({each.offset for each in done})
    assert flights.get(b"k") == b"2"
    assert sorted(changes_of(flights, 4)) == [(b"first", b"1"), *((b"k", b"%d" % number) for number in range(3))]
    flights.put(b"end", b"x")
    assert len(changes_of(flights, 5)) == 5, "and no second copy is shown"


def test_an_interrupt_leaves_no_reply_for_the_next(flights: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    flights.put(b"a", b"1")
    flights.put(b"b", b"2")

    def interrupted(self: _Line, *words: bytes) -> Any:
        monkeypatch.undo()
        self.socket.sendall(self._pack(words))
        raise KeyboardInterrupt

    for call in (lambda: flights.get(b"a"), lambda: flights.put(b"a", b"3")):
        monkeypatch.setattr(_Line, "ask", interrupted)
        with pytest.raises(KeyboardInterrupt):
            call()
        assert flights.get(b"b") == b"2"


def test_another_process_takes_a_line_of_its_own(database: Database, flights: Table) -> None:
    fast_path = server_of(database)
    line = fast_path.line()
    assert line is not None
    assert line is fast_path.line()
    line.process = -1  # as a fork's child finds it
    other = fast_path.line()
    assert other is not None
    assert other is not line
    assert flights.get(b"first") == b"1"


def test_lines_go_with_their_threads(database: Database, flights: Table) -> None:
    def work(number: int) -> None:
        for count in range(50):
            flights.put(b"n%d" % number, b"%d" % count)
            assert flights.get(b"n%d" % number) == b"%d" % count

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
        assert len(server_of(database)._lines) > 1
    wait_until(lambda: len(server_of(database)._lines) <= 1, what="one line, of this thread")


def test_a_table_that_is_dropped_and_made_again(database: Database, flights: Table) -> None:
    database.drop_table("flights")
    with pytest.raises(duramen.TableNotFound):
        flights.put(b"k", b"v")
    with pytest.raises(duramen.TableNotFound):
        flights.get(b"k")
    again = database.create_table("flights")
    assert again.get(b"first") is None
    flights.put(b"k", b"new")
    assert flights.get(b"k") == again.get(b"k") == b"new"


def test_after_closing_nothing_is_answered(served_fast: Server) -> None:
    database = duramen.connect(f"127.0.0.1:{served_fast.port}")
    table = database.create_table("flights")
    table.put(b"k", b"v")
    assert table.get(b"k") == b"v"
    fast_path = server_of(database)
    (line,) = fast_path._lines
    database.close()
    assert line.socket.fileno() == -1
    for call in (lambda: table.get(b"k"), lambda: table.put(b"k", b"v")):
        with pytest.raises(duramen.DatabaseClosed):
            call()


@pytest.mark.parametrize(
    "settings", [RespSettings(), RespSettings(port=0, password="secret")], ids=["none", "password"]
)
def test_servers_without_an_endpoint_for_us(tmp_path: Path, settings: RespSettings) -> None:
    loop = LoopThread()
    server = loop.run(lambda: Server.open(tmp_path / "served", port=0, resp_endpoint=settings))
    try:
        with duramen.connect(f"127.0.0.1:{server.port}") as database:
            assert server_of(database).place == NOWHERE
            table = database.create_table("flights")
            table.put(b"k", b"v")
            assert table.get(b"k") == b"v"
    finally:
        loop.run(server.close)
        loop.stop()


@pytest.mark.parametrize("readers", [0, 1])
def test_acknowledged_puts_survive_a_kill(tmp_path: Path, readers: int) -> None:
    """Callers go on through the kill; what was acknowledged is there, in its order, and the endpoint is used again."""
    arguments = ["--resp-port", "0", "--resp-readers", str(readers)]
    server = ServerProcess(tmp_path / "data", log=tmp_path / "server.log", arguments=arguments)
    stop = threading.Event()
    counts = [0] * 4
    try:
        with duramen.connect(server.target, timeout=60) as database:
            table = database.create_table("flights")
            table.put(b"first", b"1")

            def write(number: int) -> None:
                while not stop.is_set():
                    table.put(b"w%d" % number, b"%d" % (counts[number] + 1))
                    counts[number] += 1
                    assert table.get(b"w%d" % number) == b"%d" % counts[number]

            with ThreadPoolExecutor(4) as threads:
                writers = [threads.submit(write, number) for number in range(4)]
                for _ in range(2):
                    goal = [count + 30 for count in counts]
                    wait_until(lambda goal=goal: all(map(int.__ge__, counts, goal)), what="writes")  # type: ignore[misc]
                    server.restart()
                goal = [count + 30 for count in counts]
                wait_until(lambda: all(map(int.__ge__, counts, goal)), what="writes after the last kill")
                stop.set()
                for writer in writers:
                    writer.result(patience_s(DEADLINE_S * 3))
            wait_until(
                lambda: table._fast_path is not None and table._fast_path.get(b"w0") is not NOT_FRESH,
                what="the RESP endpoint",
            )
            for number, count in enumerate(counts):
                assert table.get(b"w%d" % number) == b"%d" % count
    finally:
        stop.set()
        server.close()


class TestTheEndpointsSide:
    """What only our own client sends, sent by somebody else."""

    @pytest.mark.parametrize(
        "words",
        [
            ("DURAMEN.READ", "nonsense", "0", "-1", "k"),
            ("DURAMEN.READ", "{id}", "99", "-1", "k"),
            ("DURAMEN.READ", "{id}", "x", "-1", "k"),
            ("DURAMEN.READ", "{id}", "0", "1000000", "k"),
            ("DURAMEN.READ", "{id}", "0", "-1", ""),
            ("DURAMEN.READ", "{id}", "0"),
            ("DURAMEN.FETCH", "nonsense", "0", "-1", "k"),
            ("DURAMEN.FETCH", "{id}", "99", "-1", "k"),
            ("DURAMEN.FETCH", "{id}", "0", "x", "k"),
            ("DURAMEN.FETCH", "{id}", "0", "1000000", "k"),
            ("DURAMEN.FETCH", "{id}", "0", "-1", "k", ""),
            ("DURAMEN.FETCH", "{id}", "0", "-1", *("k",) * 257),
            ("DURAMEN.FETCH", "{id}", "0", "-1"),
            ("DURAMEN.AWAIT", "nonsense", "0", "0"),
            ("DURAMEN.AWAIT", "{id}", "0", "1000000"),
            ("DURAMEN.AWAIT", "{id}", "0", "x"),
            ("DURAMEN.WRITE", "nonsense", "0", "batch"),
            ("DURAMEN.WRITE", "{id}", "99", "batch"),
            ("DURAMEN.WRITE", "{id}", "0", "no batch"),
            ("DURAMEN.WRITE", "{id}", "0", ""),
        ],
    )
    def test_nonsense_is_an_error_and_nothing_more(
        self, served_fast: Server, flights: Table, words: tuple[str, ...]
    ) -> None:
        found = flights._inner.lookup.ref
        assert found is not None
        with redis.Redis(port=served_fast.resp_port) as raw:
            with pytest.raises(redis.ResponseError):
                raw.execute_command(*(word.replace("{id}", found.id) for word in words))
            assert raw.ping()
        assert flights.get(b"first") == b"1"
        assert isinstance(flights._fast_path and flights._fast_path.put(b"k", b"v"), Done)

    def test_a_lost_put_says_all_that_is_needed(self, database: Database, flights: Table) -> None:
        fast_path = server_of(database)
        line = fast_path.line()
        assert line is not None
        line.socket.shutdown(socket.SHUT_RDWR)
        assert flights._fast_path is not None
        lost = flights._fast_path.put(b"k", b"v")
        assert isinstance(lost, Lost)
        assert lost.records.keys == [b"k"]
        assert line not in fast_path._lines
