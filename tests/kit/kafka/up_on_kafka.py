"""`duramen up --log kafka://…` as a process."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from kit.client.command_line import run_here
from kit.deadlines import patience_s
from kit.kafka.foreign import DEADLINE_S
from kit.warm.warm_process import WarmProcess

__all__ = ["Up", "first_line"]


class Up:
    """One `duramen up` on a free port. Its own words go to a file."""

    def __init__(self, data: Path, url: str, log: Path, *more: str) -> None:
        self.data, self.url, self.log = data, url, log
        command = [sys.executable, "-m", "duramen", "up", "--data", str(data), "--log", url, "--port", "0", "--json"]
        command += more
        with log.open("ab") as errors:
            self.process = WarmProcess[bytes](command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
        line = first_line(self.process)
        assert line, log.read_text()[-2000:]
        self.said: dict[str, Any] = json.loads(line)
        assert self.said["event"] == "started"

    def kill9(self) -> None:
        self.process.kill()
        self.process.wait(patience_s(DEADLINE_S))

    def close(self) -> None:
        if self.process.poll() is None:
            self.kill9()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """One command of the command line, asked of this server."""
        return run_here(*arguments, at=f"127.0.0.1:{self.said['port']}", columns=200)

    def says(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.returncode == 0, (arguments, done.stderr)
        return done.stdout

    def documents(self, *arguments: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.says(*arguments, "--json").splitlines()]


def first_line(process: subprocess.Popen[bytes]) -> bytes:
    """What a process says first; nothing where it ends, or takes too long."""
    assert process.stdout is not None
    end = time.monotonic() + DEADLINE_S
    line = b""
    while not line.endswith(b"\n") and select.select([process.stdout], [], [], max(0.0, end - time.monotonic()))[0]:
        piece = os.read(process.stdout.fileno(), 1)
        if not piece:
            return b""
        line += piece
    return line if line.endswith(b"\n") else b""
