"""A real Redis server, to compare with. Debian's `redis-server` or any other on the path."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

from kit.deadlines import patience_s
from kit.held_port import HeldPort

__all__ = ["RealRedis", "redis_tool"]


def redis_tool(name: str) -> str:
    """The path of a tool of Redis'; the test is skipped where it is missing."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed (apt-get install redis-server redis-tools)")
    return found


class RealRedis:
    """A process on a port of its own."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        binary = redis_tool("redis-server")
        self._held = HeldPort()
        self.port = self._held.number
        command = [binary, "--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(folder), "--save", ""]
        self.process = subprocess.Popen([*command, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + patience_s(20)
        while True:
            try:
                socket.create_connection(self.address, timeout=1).close()
                return
            except OSError:
                assert self.process.poll() is None, "redis-server ended"
                assert time.monotonic() < deadline, "redis-server does not answer"
                time.sleep(0.02)

    @property
    def address(self) -> tuple[str, int]:
        return ("127.0.0.1", self.port)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._held.close()
