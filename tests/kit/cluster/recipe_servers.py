"""What a recipe of the runbook is followed at, where it is no cluster of nodes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import redis

from kit.client.command_line import run_here
from kit.client.server_process import START_SECONDS_MAX, read_line

__all__ = ["LimitedServer", "ShellAt"]


class ShellAt:
    """A shell in a folder, with its redirections. `run` is that of a cluster."""

    def __init__(self, at: str, folder: Path) -> None:
        self.folder = folder
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.environment = {**os.environ, "DURAMEN_AT": at, "PATH": path}

    def run(self, *arguments: str) -> str:
        line = " ".join(("duramen", *arguments))
        done = subprocess.run(line, shell=True, cwd=self.folder, env=self.environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout


class LimitedServer:
    """A server that may have 200 files open, with a RESP endpoint. `run` is that of a cluster."""

    def __init__(self, folder: Path) -> None:
        command = ["prlimit", "--nofile=200:200", sys.executable, "-m", "duramen", "up", "--data", str(folder)]
        self.process = subprocess.Popen([*command, "--port", "0", "--resp-port", "0", "--json"], stdout=subprocess.PIPE)
        self.started = json.loads(read_line(self.process, START_SECONDS_MAX))

    def run(self, *arguments: str) -> str:
        done = run_here(*arguments, at=f"127.0.0.1:{self.started['port']}")
        assert done.returncode == 0, done.stderr
        return done.stdout

    def connect(self) -> redis.Redis:
        return redis.Redis(port=self.started["resp_port"], retry=None)

    def close(self) -> None:
        self.process.terminate()
        self.process.communicate()
