"""What a write returned is its key's version, although its server was killed while it was under way."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path

from kit.client.server_process import ServerProcess
from kit.deadlines import patience_s, wait_until

import duramen

CLIENTS = 4
KILLS = 4
PUTS_BETWEEN = 40


class Putter(threading.Thread):
    """Puts and updates one key after the other, and keeps what each call returned."""

    def __init__(self, number: int, target: str, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.done: list[tuple[bytes, int]] = []
        self.failure: BaseException | None = None
        self._number, self._target, self._stopped = number, target, stop

    def run(self) -> None:
        try:
            with duramen.connect(self._target, timeout=60) as database:
                table = database.table("t")
                while not self._stopped.is_set():
                    key = b"%d.%d" % (self._number, len(self.done))
                    done = table.put(key, b"1") if len(self.done) % 2 else table.update(key, add=1)
                    self.done.append((key, done.offset))
        except BaseException as error:  # noqa: BLE001 - raised by the test
            self.failure = error


def reached(goals: list[tuple[Putter, int]]) -> bool:
    return all(len(putter.done) >= goal or putter.failure for putter, goal in goals)


def test_offsets_are_versions_after_kills(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", log=tmp_path / "server.log", arguments=["--resp-port", "0"])
    try:
        with duramen.connect(server.target) as database:
            database.create_table("t", partitions=2)
        stop = threading.Event()
        putters = [Putter(number, server.target, stop) for number in range(CLIENTS)]
        for putter in putters:
            putter.start()
        for _ in range(KILLS):
            goals = [(putter, len(putter.done) + PUTS_BETWEEN) for putter in putters]
            wait_until(partial(reached, goals), seconds=60, what="everybody has written between two kills")
            server.restart()
        stop.set()
        for putter in putters:
            putter.join(patience_s(60))
            assert putter.failure is None
        with duramen.connect(server.target) as database:
            table = database.table("t")
            for putter in putters:
                assert len(putter.done) > KILLS * PUTS_BETWEEN
                for key, offset in putter.done:
                    entry = table.get_entry(key)
                    assert entry is not None
                    assert entry.version == offset
                # The last one's version is right for the next condition.
                key, offset = putter.done[-1]
                assert table.put(key, b"2", if_version=offset).offset > offset
    finally:
        server.close()
