"""`duramen up --nodes N` in processes of its own, for tests that break them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duramen
from duramen.blocking import Database
from kit.client.command_line import run_here
from kit.deadlines import patience_s, wait_until
from kit.warm.warm_process import WarmProcess

__all__ = [
    "DEADLINE_S",
    "ClusterProcess",
]

DEADLINE_S = 60.0


class ClusterProcess:
    """A running cluster. `close()` leaves no process behind."""

    def __init__(self, folder: Path, *, nodes: int = 3, log: str | None = None, arguments: Sequence[str] = ()) -> None:
        self.folder = folder
        self.children: dict[str, dict[str, Any]] = {}
        self.started: dict[str, Any] | None = None
        command = [sys.executable, "-m", "duramen", "up", "--nodes", str(nodes), "--data", str(folder)]
        command.append("--no-history")  # a test that takes a minute has the tables that it made, and no other
        if log is not None:
            command += ["--log", log]
        self._errors = folder.with_suffix(".err").open("wb")
        self._process = WarmProcess(
            [*command, *arguments, "--port", "0", "--json"], stdout=subprocess.PIPE, stderr=self._errors, text=True
        )
        self._paused: set[int] = set()
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()
        try:
            wait_until(lambda: self.started is not None or self._process.poll() is not None, "the cluster starts")
            assert self.started is not None, folder.with_suffix(".err").read_text()
        except BaseException:
            self.close()
            raise

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line)
            if event["event"] == "child":
                self.children[event["name"]] = event
            elif event["event"] == "exited":
                self.children.pop(event["name"], None)
            elif event["event"] == "started":
                self.started = event

    @property
    def at(self) -> str:
        assert self.started is not None
        return f"127.0.0.1:{self.started['port']}"

    def pid(self, name: str) -> int:
        return int(self.children[name]["pid"])

    def connect(self, *, timeout: float = 20) -> Database:
        return duramen.connect(self.at, timeout=timeout)

    # --- faults

    def kill9(self, name: str, *, before_restart: Callable[[], None] = lambda: None) -> None:
        """Kill a child and wait until the supervisor has started it again."""
        pid = self.pid(name)
        os.kill(pid, signal.SIGSTOP)  # so that what is done to its folder is done to a process that does nothing
        before_restart()
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: name in self.children and self.pid(name) != pid, f"{name} is started again")

    def pause(self, name: str) -> None:
        self._paused.add(self.pid(name))
        os.kill(self.pid(name), signal.SIGSTOP)

    def go_on(self, name: str) -> None:
        os.kill(self.pid(name), signal.SIGCONT)
        self._paused.discard(self.pid(name))

    # --- operators

    def run(self, *arguments: str, code: int | None = 0) -> str:
        """A command of the command line; its output. It runs in this process: what a test waits for is asked again and
        again, and each process would take half a second from those that the test waits for.
        """
        done = run_here(*arguments, at=self.at, columns=200)
        if code is not None:
            assert done.returncode == code, f"{arguments}: code {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def rows(self, *arguments: str) -> list[dict[str, Any]]:
        """The same with `--json`, parsed."""
        return [json.loads(line) for line in self.run(*arguments, "--json").splitlines()]

    def wait_nodes(self, state: str, *names: str) -> None:
        wait_until(
            lambda: {each["node"] for each in self.rows("admin", "nodes") if each["state"] == state} >= set(names),
            f"{names} are {state}",
        )

    def wait_ready(self, table: str) -> None:
        """Every replica of a table is ready."""

        def ready() -> bool:
            return all(
                replica["state"] == "ready"
                for partition in self.rows("admin", "partitions", table)
                for replica in partition["replicas"]
            )

        wait_until(ready, f"every replica of {table} is ready")

    def close(self) -> None:
        for pid in self._paused:
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                continue
        self._process.terminate()
        try:
            self._process.wait(patience_s(DEADLINE_S))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listener.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._errors.close()
