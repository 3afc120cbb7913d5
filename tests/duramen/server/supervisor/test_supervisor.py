"""`duramen up --nodes N`: children that die are started again, and none is left behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kit.deadlines import patience_s, wait_until
from kit.warm.warm_process import WarmProcess

import duramen

pytestmark = pytest.mark.embedded_log_only

DEADLINE_S = 60.0


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


class Supervisor:
    def __init__(self, data: Path, *, port: int = 0) -> None:
        self.events: list[dict[str, Any]] = []
        self.process = WarmProcess(
            [sys.executable, "-m", "duramen", "up", "--nodes", "2", "--data", str(data), "--port", str(port), "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.append(json.loads(line))

    def named(self, event: str) -> list[dict[str, Any]]:
        return [each for each in list(self.events) if each["event"] == event]

    @property
    def children(self) -> dict[str, dict[str, Any]]:
        return {each["name"]: each for each in self.named("child")}

    def wait_started(self) -> None:
        wait_until(lambda: bool(self.named("started")) or self.process.poll() is not None, "it starts")
        assert self.named("started"), self.process.communicate()[1]

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.named('started')[0]['port']}"

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        _, self.errors = self.process.communicate(timeout=patience_s(DEADLINE_S))
        self._listener.join()


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    made = Supervisor(tmp_path / "data")
    made.wait_started()
    yield made
    made.close()


def test_a_killed_process_is_started_again_on_the_same_port(supervisor: Supervisor) -> None:
    assert sorted((each["role"], each["name"]) for each in supervisor.named("child")) == [
        ("log", "log"),
        ("node", "n1"),
        ("node", "n2"),
        ("router", "router"),
    ]
    with duramen.connect(supervisor.target, timeout=30) as db:
        table = db.create_table("flights", partitions=2)
        for name in ("log", "n1", "router"):
            before = supervisor.children[name]
            done = table.put(b"k", name.encode())
            os.kill(before["pid"], signal.SIGKILL)
            wait_until(lambda: supervisor.children[name]["pid"] != before["pid"], f"{name} is back")  # noqa: B023
            assert supervisor.children[name]["port"] == before["port"]
            assert table.get(b"k", after=done.token) == name.encode()
    assert [(each["name"], each["code"]) for each in supervisor.named("exited")] == [
        ("log", -9),
        ("n1", -9),
        ("router", -9),
    ]


def test_sigterm_ends_all_of_them(supervisor: Supervisor) -> None:
    pids = [child["pid"] for child in supervisor.children.values()]
    supervisor.process.terminate()
    assert supervisor.process.wait(patience_s(DEADLINE_S)) == 0
    supervisor.close()
    assert [each["event"] for each in supervisor.events[-2:]] == ["stopping", "stopped"]
    assert not any(alive(pid) for pid in pids)


def test_no_child_outlives_a_killed_supervisor(supervisor: Supervisor) -> None:
    pids = {name: child["pid"] for name, child in supervisor.children.items()}
    assert sorted(name for name, pid in pids.items() if alive(pid)) == ["log", "n1", "n2", "router"]
    supervisor.process.kill()
    assert supervisor.process.wait(patience_s(DEADLINE_S)) == -signal.SIGKILL
    wait_until(lambda: not any(alive(pid) for pid in pids.values()), "every child has ended")
    assert supervisor.children.keys() == pids.keys()
    assert [child["pid"] for child in supervisor.children.values()] == [*pids.values()], "and none was started again"


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_all_come_back_when_the_process_that_forks_them_is_gone(supervisor: Supervisor) -> None:
    before = supervisor.children
    (forks,) = {parent_of(child["pid"]) for child in before.values()}
    assert forks != supervisor.process.pid
    with duramen.connect(supervisor.target, timeout=30) as db:
        done = db.create_table("flights", partitions=2).put(b"k", b"v")
        os.kill(forks, signal.SIGKILL)
        wait_until(
            lambda: all(supervisor.children[name]["pid"] != before[name]["pid"] for name in before), "all are back"
        )
        assert db.table("flights").get(b"k", after=done.token) == b"v"
    assert not any(alive(child["pid"]) for child in before.values()), "two servers on one folder"
    assert {name: child["port"] for name, child in supervisor.children.items()} == {
        name: child["port"] for name, child in before.items()
    }


def test_ps_shows_each_by_its_command_line(supervisor: Supervisor) -> None:
    for name, child in supervisor.children.items():
        shown = Path(f"/proc/{child['pid']}/cmdline").read_bytes().decode()
        assert shown.startswith(f"duramen serve {child['role']} "), name


def test_what_cannot_start_is_said_and_leaves_nobody(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        made = Supervisor(tmp_path / "data", port=taken.getsockname()[1])
        made.process.wait(patience_s(DEADLINE_S))
        made.close()
    assert made.process.returncode == 1
    assert "router: port" in made.errors
    pids = [child["pid"] for child in made.children.values()]
    assert len(pids) == 3
    assert not any(alive(pid) for pid in pids)


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    made = Supervisor(tmp_path)
    made.process.wait(patience_s(DEADLINE_S))
    made.close()
    assert made.process.returncode != 0
    assert "thesis.tex" in made.errors


def test_data_of_one_process_goes_on_in_many(tmp_path: Path) -> None:
    with duramen.open(tmp_path / "data") as db:
        db.create_table("flights", partitions=2).put(b"k", b"v")
    made = Supervisor(tmp_path / "data")
    try:
        made.wait_started()
        with duramen.connect(made.target, timeout=30) as db:
            assert db.table("flights").get(b"k", level="strong") == b"v"
    finally:
        made.close()
