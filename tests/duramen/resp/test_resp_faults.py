"""`kill -9` of a server under load by redis-py: what was acknowledged is there, and no counter has lost one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
from kit.client.command_line import run_here
from kit.client.server_process import ServerProcess
from kit.deadlines import wait_until
from kit.resp.reader_counts import NONE_AND_TWO
from redis.backoff import NoBackoff
from redis.retry import Retry

WRITERS = 6
KILLS = 2


@pytest.fixture(params=NONE_AND_TWO)
def server(tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    readers = ["--resp-readers", str(request.param)]
    running = ServerProcess(tmp_path / "data", log=tmp_path / "server.log", arguments=["--resp-port", "0", *readers])
    yield running
    running.close()


class RespWriter(threading.Thread):
    """Writes keys of its own, and counts on a shared key, until `stop` is set."""

    def __init__(self, number: int, port: int, stop: threading.Event) -> None:
        super().__init__(name=f"writer {number}")
        self.number = number
        self.acknowledged: dict[str, str] = {}
        """The last value of each key that was acknowledged."""
        self.doubtful: dict[str, set[str]] = {}
        """Values whose fate is unknown, since the last one that was acknowledged."""
        self.counted = 0
        self.uncertain = 0
        self.failure: BaseException | None = None
        self._port = port
        self._stop_event = stop

    def run(self) -> None:
        client = redis.Redis(port=self._port, socket_timeout=20, retry=Retry(NoBackoff(), 0))
        sequence = 0
        while not self._stop_event.is_set():
            sequence += 1
            name, value = f"w{self.number}:{sequence % 50}", str(sequence)
            try:
                client.set(name, value)
            except redis.RedisError:
                self.doubtful.setdefault(name, set()).add(value)
                time.sleep(0.05)  # six that try again without a pause take the processor from the server's start
                continue
            self.acknowledged[name] = value
            self.doubtful.pop(name, None)
            try:
                client.incr("counter")
            except redis.RedisError:
                self.uncertain += 1
            else:
                self.counted += 1
        client.close()


def test_no_acknowledged_set_is_lost(server: ServerProcess) -> None:
    port = int(server.announcement["resp_port"])
    stop = threading.Event()
    writers = [RespWriter(number, port, stop) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    try:
        for kill in range(KILLS):
            goal = [writer.counted + 50 for writer in writers]
            wait_until(_all_beyond(writers, goal), what=f"the writers go on after {kill} kills")
            server.restart()
    finally:
        wait_until(_all_beyond(writers, [writer.counted + 1 for writer in writers]), what="the last restart answers")
        stop.set()
        for writer in writers:
            writer.join()
    with redis.Redis(port=port) as client:
        for writer in writers:
            assert writer.acknowledged
            for name, value in writer.acknowledged.items():
                found = client.get(name).decode()
                assert found == value or found in writer.doubtful.get(name, ()), f"{name}: {found}, not {value}"
        counted = sum(writer.counted for writer in writers)
        uncertain = sum(writer.uncertain for writer in writers)
        assert counted <= int(client.get("counter")) <= counted + uncertain


def _all_beyond(writers: list[RespWriter], goal: list[int]) -> Callable[[], bool]:
    return lambda: all(writer.counted >= each for writer, each in zip(writers, goal, strict=True))


def test_a_clean_stop_and_start(server: ServerProcess) -> None:
    port = int(server.announcement["resp_port"])
    with redis.Redis(port=port) as client:
        client.set("kept", "1")
        client.set("expiring", "1", ex=1000)
        code, said = server.stop()
        assert code == 0
        assert said[-1]["event"] == "stopped"
        with redis.Redis(port=port, retry=Retry(NoBackoff(), 0)) as another, pytest.raises(redis.ConnectionError):
            another.get("kept")
        server.start()
        assert client.get("kept") == b"1"
        assert 900 < client.ttl("expiring") <= 1000


def test_a_port_in_use(server: ServerProcess, tmp_path: Path) -> None:
    taken = server.announcement["resp_port"]
    done = run_here("up", "--data", str(tmp_path / "other"), "--port", "0", "--resp-port", str(taken))
    assert done.returncode != 0
    assert "cannot be listened on by the Redis protocol" in done.stderr
    assert not (tmp_path / "other").exists(), "nothing was made"
