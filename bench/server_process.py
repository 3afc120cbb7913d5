"""A peer's server: started on a free loopback port with its output in a file, awaited, stopped."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

__all__ = ["ServerFailed", "ServerProcess", "free_port", "program"]

START_SECONDS_MAX: Final = 60.0
"""A server that does not accept connections by then is not going to; restarting on a large log may take its time."""

STOP_SECONDS_MAX: Final = 30.0
"""Patience after SIGTERM (some servers write a snapshot first); then SIGKILL."""

_POLL_SECONDS: Final = 0.01


class ServerFailed(RuntimeError):
    """A server ended before or instead of serving; the message carries the end of its output."""


class ServerProcess:
    """One child process that listens on `127.0.0.1:port`."""

    def __init__(self, process: subprocess.Popen[bytes], *, port: int, output: Path) -> None:
        self._process = process
        self._output = output
        self.port = port

    @property
    def pid(self) -> int:
        return self._process.pid

    @classmethod
    async def start(cls, command: Sequence[str], *, port: int, folder: Path) -> Self:
        """Start `command` in `folder` and wait until `port` accepts a connection (`ServerFailed` if it never does)."""
        output = folder / "server.out"
        with output.open("ab") as sink:
            process = subprocess.Popen(  # noqa: ASYNC220 - nothing else runs on this loop yet
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT
            )
        server = cls(process, port=port, output=output)
        try:
            await server._wait_listening()
        except BaseException:
            await server.stop()
            raise
        return server

    async def stop(self) -> None:
        """SIGTERM, then SIGKILL where that is not enough; returns when the process is gone."""
        if self._process.poll() is None:
            self._process.terminate()
        try:
            await asyncio.to_thread(self._process.wait, STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            await asyncio.to_thread(self._process.wait)

    async def _wait_listening(self) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + START_SECONDS_MAX
        while loop.time() < deadline:
            if self._process.poll() is not None:
                raise ServerFailed(f"{self._process.args!r} ended with {self._process.returncode}: {self._tail()}")
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
            except OSError:
                await asyncio.sleep(_POLL_SECONDS)
                continue
            writer.close()
            await writer.wait_closed()
            return
        raise ServerFailed(f"{self._process.args!r} did not listen within {START_SECONDS_MAX} s: {self._tail()}")

    def _tail(self) -> str:
        return self._output.read_bytes()[-2000:].decode(errors="replace").strip() or "(no output)"


def free_port() -> int:
    """A port that was free just now. Another process may take it first; the server then fails to start, loudly."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def program(name: str) -> str:
    """A program that is installed with this Python."""
    return str(Path(sys.executable).with_name(name))
