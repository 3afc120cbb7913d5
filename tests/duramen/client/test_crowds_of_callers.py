"""Many threads at a server's RESP endpoint: few go alone, many together by gRPC, and each gets its answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from kit.deadlines import patience_s, wait_until
from kit.set_clock import HandClock

import duramen
from duramen.blocking import Table
from duramen.client.model.results import Done
from duramen.client.transport.crowd import CROWDED_S, Crowd
from duramen.client.transport.resp_fast_path import FastPathTable, _Line
from duramen.server.roles.all_in_one import SingleServer as Server
from router.data.seam import NOT_FRESH

pytestmark = pytest.mark.embedded_log_only  # what is asked is the client's way, and not where the log is

PUTS_MAX, GETS_MAX, LINES_MAX = 8, 32, 64


def test_a_crowd_goes_together_for_a_second() -> None:
    clock = HandClock()
    crowd = Crowd(2, clock)
    assert not crowd.goes_together()
    crowd.calls.add("first")
    assert not crowd.goes_together()
    crowd.calls.add("second")
    assert crowd.goes_together()
    crowd.calls.clear()
    clock.seconds += CROWDED_S * 0.99
    assert crowd.goes_together(), "though none is under way: all go together"
    clock.seconds += CROWDED_S * 0.02
    assert not crowd.goes_together()
    crowd.calls.update(("first", "second", "third"))
    assert crowd.goes_together(), "and again, if there are as many"


@pytest.fixture
def flights(served_fast: Server) -> Iterator[Table]:
    with duramen.connect(f"127.0.0.1:{served_fast.port}") as database:
        table = database.create_table("flights", partitions=4)
        table.put(b"k", b"1")
        yield table


def path_of(table: Table) -> FastPathTable:
    assert table._fast_path is not None
    return table._fast_path


class HeldReplies:
    """Replies of the endpoint that come when `go_on` is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go_on = threading.Event()
        ask = _Line.ask

        def held(line: _Line, *words: bytes) -> Any:
            reply = ask(line, *words)
            assert self.go_on.wait(patience_s(60))
            return reply

        monkeypatch.setattr(_Line, "ask", held)


def test_more_puts_than_go_alone_are_gathered(flights: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    path = path_of(flights)
    held = HeldReplies(monkeypatch)
    with ThreadPoolExecutor(PUTS_MAX) as threads:
        alone = [threads.submit(path.put, b"a%d" % number, b"v") for number in range(PUTS_MAX)]
        wait_until(lambda: len(path.way.puts.calls) == PUTS_MAX, "the puts are under way")
        assert path.put(b"k", b"2") is None, "not sent: it goes by gRPC"
        assert flights.put(b"k", b"3").offset > 0, "which waits for none of them"
        held.go_on.set()
        assert all(isinstance(each.result(), Done) for each in alone)
    assert not path.way.puts.calls
    assert path.get(b"k") == b"3", "a crowd of puts is none of gets"
    wait_until(lambda: isinstance(path.put(b"k", b"4"), Done), "puts go alone again")
    assert flights.get(b"k") == b"4"


def test_more_gets_than_go_alone_are_gathered(flights: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    path = path_of(flights)
    held = HeldReplies(monkeypatch)
    with ThreadPoolExecutor(GETS_MAX) as threads:
        alone = [threads.submit(path.get, b"k") for _ in range(GETS_MAX)]
        wait_until(lambda: len(path.way.gets.calls) == GETS_MAX, "the gets are under way")
        assert path.get(b"k") is NOT_FRESH
        assert flights.get(b"k") == b"1"
        held.go_on.set()
        assert [each.result() for each in alone] == [b"1"] * GETS_MAX
    assert not path.way.gets.calls
    wait_until(lambda: path.get(b"k") == b"1", "gets go alone again")


def test_an_error_leaves_none_under_way(flights: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    path = path_of(flights)

    def broken(_line: _Line, *_words: bytes) -> Any:
        raise ConnectionError("the server is gone")

    monkeypatch.setattr(_Line, "ask", broken)
    for _ in range(3 * GETS_MAX):
        path.get(b"k")
        path.put(b"k", b"2")
    assert (path.way.gets.calls, path.way.puts.calls) == (set(), set())
    assert not path.way.puts.goes_together()


def test_threads_beyond_the_last_connection_go_by_grpc(flights: Table) -> None:
    path = path_of(flights)
    lets_go = threading.Event()

    def holds_one() -> bool:
        has_line = path.way.line() is not None
        opened.release()
        assert lets_go.wait(patience_s(60))
        return has_line

    opened = threading.Semaphore(0)
    with ThreadPoolExecutor(LINES_MAX + 1) as threads:
        holders = [threads.submit(holds_one) for _ in range(LINES_MAX - 1)]  # this thread has one, too
        for _ in holders:
            assert opened.acquire(timeout=patience_s(60))
        late = threads.submit(lambda: (path.way.line(), flights.put(b"k", b"late").offset, flights.get(b"k")))
        line, offset, value = late.result()
        lets_go.set()
        assert all(each.result() for each in holders)
    assert (line, value) == (None, b"late")
    assert offset > 0
    wait_until(lambda: len(path.way._lines) == 1, "the connections go with their threads")
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(path.way.line).result() is not None
