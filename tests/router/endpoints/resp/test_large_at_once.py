"""Two at once, where one of them is a command on very many keys, which is worked on in many turns of the event loop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Final

import pytest
from kit.resp.raw_client import Raw, Status, packed
from kit.resp.server_thread import ServerThread

from router.endpoints.resp.server.sockets import RespSettings

COUNT: Final = 20_000
KEYS: Final = [b"{many}:%05d" % number for number in range(COUNT)]
ENDS: Final = (KEYS[0], KEYS[COUNT // 2], KEYS[-1])
ROUNDS: Final = 6


def pairs(value: bytes) -> list[bytes]:
    return [word for key in KEYS for word in (key, value)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerThread]:
    opened = ServerThread(tmp_path_factory.mktemp("at once"), RespSettings(port=0, table_partitions=1)).start()
    yield opened
    opened.close()


def together(*works: Callable[[], None]) -> None:
    """Run all of them, each in a thread, and raise what one of them raised."""
    errors: list[BaseException] = []

    def caught(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    threads = [threading.Thread(target=caught, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in errors:
        raise error


def test_two_that_want_the_same_keys_to_be_new(server: ServerThread) -> None:
    """Exactly one gets them, whole; a concurrent reader sees none of them or all."""
    with server.connect() as left, server.connect() as right, server.connect() as reader:
        for _ in range(ROUNDS):
            granted: dict[bytes, int] = {}
            ended = threading.Event()
            seen: list[list[bytes | None]] = []

            def take(connection: Raw, value: bytes, granted: dict[bytes, int] = granted) -> None:
                granted[value] = connection.call("MSETNX", *pairs(value))

            def both(ended: threading.Event = ended, take: Callable[[Raw, bytes], None] = take) -> None:
                try:
                    together(lambda: take(left, b"left"), lambda: take(right, b"right"))
                finally:
                    ended.set()

            def look(ended: threading.Event = ended, seen: list[list[bytes | None]] = seen) -> None:
                while not ended.is_set():
                    seen.append(reader.call("MGET", *ENDS))

            together(both, look)
            assert sorted(granted.values()) == [0, 1]
            (winner,) = [value for value, reply in granted.items() if reply]
            assert set(reader.call("MGET", *KEYS)) == {winner}
            assert {tuple(values) for values in seen} <= {(None,) * 3, (winner,) * 3}
            assert reader.call("DEL", *KEYS) == COUNT


def test_a_watched_key_among_them(server: ServerThread) -> None:
    """Whether EXEC is granted or not, the MSET that began after WATCH is not lost."""
    with server.connect() as writer, server.connect() as watcher:
        outcomes = []
        for number in range(ROUNDS):
            value = b"many %d" % number
            assert watcher.call("SET", ENDS[1], b"before") == Status("OK")
            assert watcher.call("WATCH", ENDS[1]) == Status("OK")

            def write(value: bytes = value) -> None:
                assert writer.call("MSET", *pairs(value)) == Status("OK")

            def execute() -> None:
                watcher.send(packed("MULTI") + packed("SET", ENDS[1], b"exec") + packed("EXEC"))
                assert watcher.reply() == Status("OK")
                assert watcher.reply() == Status("QUEUED")
                outcomes.append(watcher.reply())

            together(write, execute)
            assert outcomes[-1] in (None, [Status("OK")])
            assert watcher.call("MGET", *ENDS) == [value] * 3


def test_a_watched_key_that_was_written_first(server: ServerThread) -> None:
    with server.connect() as writer, server.connect() as watcher:
        assert watcher.call("WATCH", ENDS[1]) == Status("OK")
        assert writer.call("MSET", *pairs(b"later")) == Status("OK")
        assert watcher.call("MULTI") == Status("OK")
        assert watcher.call("SET", ENDS[1], b"exec") == Status("QUEUED")
        assert watcher.call("EXEC") is None
        assert watcher.call("GET", ENDS[1]) == b"later"


def test_counters_during_a_large_command(server: ServerThread) -> None:
    """An INCR of one of its keys is before the whole of an MSET, or after it."""
    with server.connect() as writer, server.connect() as counter:
        for _ in range(ROUNDS):
            assert counter.call("SET", ENDS[2], b"5") == Status("OK")
            sums: list[int] = []

            def write() -> None:
                assert writer.call("MSET", *pairs(b"100")) == Status("OK")

            def count(sums: list[int] = sums) -> None:
                sums.extend(counter.call("INCR", ENDS[2]) for _ in range(50))

            together(write, count)
            low = [each for each in sums if each <= 100]
            assert low == list(range(6, 6 + len(low)))
            assert sums[len(low) :] == list(range(101, 101 + 50 - len(low)))
            assert counter.call("GET", ENDS[2]) == b"%d" % (100 + 50 - len(low))
