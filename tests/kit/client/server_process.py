"""A real server, in a process of its own, that tests may kill and start again."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import duramen
from duramen.blocking import Database
from kit.deadlines import patience_s
from kit.held_port import HeldPort
from kit.log.log_choice import url_of
from kit.warm.warm_process import WarmProcess, run_warm

__all__ = [
    "START_SECONDS_MAX",
    "ServerProcess",
    "read_line",
    "run_duramen",
]

START_SECONDS_MAX: Final = 60.0
STOP_SECONDS_MAX: Final = 30.0


class ServerProcess:
    """`python -m duramen up` on ports of its own, which it keeps until `close`, whether it runs or not."""

    def __init__(self, data: Path, *, log: Path, arguments: Sequence[str] = (), python: str = sys.executable) -> None:
        """`arguments`: more of them for `up`. A `--resp-port 0` becomes a port that it keeps, too. `python`: what
        runs it.
        """
        self.data = data
        self._ports = [HeldPort()]
        self.python = python
        self.arguments = list(arguments)
        if "--resp-port" in self.arguments:
            self._ports.append(HeldPort())
            self.arguments[self.arguments.index("--resp-port") + 1] = str(self._ports[-1].number)
        self.announcement: dict[str, Any] = {}
        """What it said when it was ready."""
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the server was never started"
        return self._process

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.announcement['port']}"

    def start(self) -> None:
        """Start it and wait until it takes requests."""
        assert self._process is None or self._process.poll() is not None, "it runs already"
        if self._process is not None and self._process.stdout is not None:
            self._process.stdout.close()
        # A test that takes a minute has the tables that it made, and no other.
        command = [self.python, "-m", "duramen", "up", "--data", str(self.data), "--json", "--no-history"]
        command += ["--port", str(self._ports[0].number)]
        if (url := url_of(self.data)) is not None:
            command += ["--log", url]
        command += self.arguments
        with self._log.open("ab") as log:
            self._process = WarmProcess(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)
        line = read_line(self._process, START_SECONDS_MAX)
        if not line:
            self.kill9()
            raise AssertionError(f"the server did not start: {self._log.read_text()[-2000:]}")
        self.announcement = json.loads(line)
        assert self.announcement["event"] == "started", self.announcement

    def kill9(self) -> None:
        """End it without a chance to do anything."""
        self.process.kill()
        self.process.wait(patience_s(STOP_SECONDS_MAX))

    def restart(self) -> None:
        """Kill it if it runs, and start it on the same folder: clients find it again by themselves."""
        if self.process.poll() is None:
            self.kill9()
        self.start()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, list[dict[str, Any]]]:
        """Ask it to stop; return its exit code and what it said."""
        self.process.send_signal(number)
        output, _ = self.process.communicate(timeout=patience_s(STOP_SECONDS_MAX))
        return self.process.returncode, [json.loads(line) for line in output.splitlines()]

    def close(self) -> None:
        """Leave nothing behind."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(patience_s(STOP_SECONDS_MAX))
            except subprocess.TimeoutExpired:
                self.kill9()
        if self.process.stdout is not None:
            self.process.stdout.close()
        for each in self._ports:
            each.close()

    def connect(self, *, timeout: float = 20.0) -> Database:
        return duramen.connect(self.target, timeout=timeout)


def read_line(process: subprocess.Popen[bytes], seconds: float) -> bytes:
    """One line of a process's output, or nothing where it ends or takes too long."""
    assert process.stdout is not None
    deadline = time.monotonic() + patience_s(seconds)
    line = b""
    while not line.endswith(b"\n") and (left := deadline - time.monotonic()) > 0:
        if select.select([process.stdout], [], [], left)[0]:
            piece = os.read(process.stdout.fileno(), 1)  # one by one: what follows the line belongs to others
            if not piece:
                return b""
            line += piece
    return line if line.endswith(b"\n") else b""


def run_duramen(
    *arguments: str, at: str | None = None, stdin: bytes = b"", timeout: float = 60.0, fresh: bool = False
) -> subprocess.CompletedProcess[str]:
    """One command of the command line, in a process of its own. `fresh`: one that has imported nothing before."""
    environment = {**os.environ, "COLUMNS": "120", "NO_COLOR": "1"}
    environment.pop("DURAMEN_AT", None)
    if at is not None:
        environment["DURAMEN_AT"] = at
    command = [sys.executable, "-m", "duramen", *arguments]
    seconds = patience_s(timeout)
    if fresh:
        done = subprocess.run(command, input=stdin, capture_output=True, timeout=seconds, env=environment, check=False)
    else:
        done = run_warm(command, given=stdin, timeout=seconds, env=environment)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())
