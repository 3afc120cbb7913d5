"""One child: started, listened to, started again when it dies, stopped."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from duramen.server.supervisor.forked import ForkedProcess, ForkServer
from duramen.server.supervisor.stopping import stop_process
from log_tier.concurrency.backoff import Backoff
from log_tier.model.errors import DuramenError, error_from_code
from log_tier.privacy.private_files import private_opener

__all__ = ["Child", "Event"]

Event = Callable[[dict[str, Any]], None]
"""Hears what happens to a child."""

# The first restart is at once: a child that was killed is missed. One that cannot start is tried every few seconds.
_PAUSE_FIRST_S: Final = 0.1
_PAUSE_MAX_S: Final = 5.0

# A child that has run this long died of something new.
_LIVED_S: Final = 10.0

# Closing the log and many indexes syncs files; then the child is killed, which loses nothing either.
_STOP_S: Final = 20.0


class Child:
    """A role in a process. `start()` returns when it answers, `run()` keeps it running, `stop()` ends it."""

    def __init__(
        self, role: str, name: str, arguments: Sequence[str], *, forks: ForkServer, output: Path, tell: Event
    ) -> None:
        """`arguments`: those of `duramen serve ROLE`, without the port. `output`: the file of its standard error."""
        self.role = role
        self.name = name
        self.port = 0
        """0 until it has said which; from then on it keeps it."""
        self.http_port: int | None = None
        """The port of health, status and metrics, kept in the same way where it is 0; None: the role's own choice, -1:
        none.
        """
        self.http_at = 0
        """Where it is; 0 if there is none."""
        self.resp_port: int | None = None
        """The port of its RESP endpoint, kept in the same way; None if it has none."""
        self.peer_port: int | None = None
        """The port where its clients show certificates, kept in the same way; None if it has none."""
        self.first_user = ""
        """What became of the first user at its start, in its own words."""
        self.environment: dict[str, str] = {}
        """Environment variables of the child: secrets, which a command line would show to other users."""
        self._arguments = list(arguments)
        self._forks = forks
        self._output = output
        self._tell = tell
        self._process: ForkedProcess | None = None
        self._started_s = 0.0
        self._stopping = False

    @property
    def pid(self) -> int:
        """The id of the process that runs, or ran last."""
        assert self._process is not None, f"{self.name} was never started"
        return self._process.pid

    async def start(self, *, port: int = 0) -> None:
        """Start it and wait until it takes requests. Raises its own error where it ends before."""
        command = ["serve", self.role, "--json", "--port", str(self.port or port)]
        if self.http_port is not None:
            command += ["--http-port", str(self.http_port)]
        if self.resp_port is not None:
            command += ["--resp-port", str(self.resp_port)]
        if self.peer_port is not None:
            command += ["--peer-port", str(self.peer_port)]
        self._started_s = asyncio.get_running_loop().time()
        with open(self._output, "ab", opener=private_opener) as errors:  # noqa: ASYNC230 - some µs
            began = errors.tell()
            self._process = await self._forks.fork(
                [*command, *self._arguments], environment=self.environment, errors=errors.fileno()
            )
        line = await self._process.stdout.readline()
        if not line:
            code = await self._process.wait()
            raise _failure(self.name, code, self._output, began)
        said = json.loads(line)
        self.port = int(said["port"])
        self.first_user = self.first_user or str(said.get("first_user", ""))
        started = {"event": "child", "role": self.role, "name": self.name, "pid": self.pid, "port": self.port}
        self.http_at = int(said.get("http_port", 0))
        if self.http_at:
            self.http_port = self.http_at if self.http_port == 0 else self.http_port
            started["http_port"] = self.http_at
        if self.resp_port is not None:
            self.resp_port = int(said["resp_port"])
            started["resp_port"] = self.resp_port
        if self.peer_port is not None:
            self.peer_port = int(said["peer_port"])
            started["peer_port"] = self.peer_port
        self._tell(started)

    async def run(self) -> None:
        """Keep a started child running until `stop`."""
        loop = asyncio.get_running_loop()
        backoff = Backoff(_PAUSE_FIRST_S, _PAUSE_MAX_S)
        while True:
            assert self._process is not None, "it was started"
            await self._drained(self._process)
            code = await self._process.wait()
            if self._stopping:
                return
            lived_s = loop.time() - self._started_s
            self._tell({"event": "exited", "role": self.role, "name": self.name, "pid": self.pid, "code": code})
            if lived_s > _LIVED_S:
                backoff.reset()
            await backoff.pause()
            if self._stopping:
                return
            try:
                await self.start()
            except DuramenError as error:
                self._tell({"event": "failed", "role": self.role, "name": self.name, "error": error.message})

    @staticmethod
    async def _drained(process: ForkedProcess) -> None:
        """Discard what a child prints while it ends, so that its pipe does not fill."""
        while await process.stdout.readline():
            pass

    async def stop(self) -> None:
        """SIGTERM, then SIGKILL where that is not enough. Idempotent."""
        self._stopping = True
        if self._process is not None:
            await stop_process(self._process, timeout_s=_STOP_S)


def _failure(name: str, code: int, output: Path, began: int) -> DuramenError:
    """Why a child ended before it answered: its own error, where it said one."""
    with output.open("rb") as file:
        file.seek(began)
        lines = file.read().decode(errors="replace").strip().splitlines()
    for line in reversed(lines):
        with suppress(ValueError, KeyError, TypeError):
            said = json.loads(line)
            return error_from_code(said["error"], f"{name}: {said['message']}", said["fields"])
    last = lines[-1] if lines else "it said nothing"
    return DuramenError(f"{name} ended with code {code} before it answered: {last} (all of it: {output})")
