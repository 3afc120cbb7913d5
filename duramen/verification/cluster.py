"""A cluster of real processes that may be broken: `duramen up --nodes N`, and what it says about its children."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from pathlib import Path
from typing import Any, Final

from duramen.server.supervisor.parent import PARENT_VARIABLE
from duramen.server.supervisor.stopping import stop_process
from log_tier.concurrency.broadcast import Broadcast
from log_tier.model.errors import DeadlineExceeded, DuramenError

__all__ = ["HEAL_S", "StartedCluster"]

_START_S: Final = 60.0

HEAL_S: Final = 60.0
"""A child that was killed runs again, at the latest, after this long; one that needs its log waits for that first."""


class StartedCluster:
    """`duramen up --nodes N` in a process of its own, and what it says about its children. `open()`, `close()`."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._reader: asyncio.Task[None] | None = None
        self._changed = Broadcast()
        self.children: dict[str, dict[str, Any]] = {}
        """The last that was said of each child that runs, by name: role, pid, port."""
        self.starts = 0
        """How often a child was started."""
        self.started: dict[str, Any] | None = None

    @classmethod
    async def open(cls, data: Path, *, nodes: int, log: str | None = None) -> StartedCluster:
        """Start it and wait until it answers. Raises its own words where it does not.

        `log`: the URL of its log; None: it has a process of its own for that.
        """
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "duramen", "up", "--nodes", str(nodes), "--data", str(data)),
            *("--port", "0", "--json", *(["--log", log] if log is not None else [])),
            stdin=DEVNULL,
            stdout=PIPE,
            # It ends with this process, however that ends, and not with Ctrl-C in its terminal.
            env={**os.environ, PARENT_VARIABLE: str(os.getpid())},
            start_new_session=True,
        )
        cluster = cls(process)
        cluster._reader = asyncio.create_task(cluster._read(), name="cluster's words")
        try:
            await cluster.wait_for(lambda: cluster.started is not None, seconds=_START_S)
        except BaseException:
            await cluster.close()
            raise
        return cluster

    async def _read(self) -> None:
        assert self._process.stdout is not None, "it was started with a pipe"
        while line := await self._process.stdout.readline():
            event = json.loads(line)
            if event["event"] == "child":
                self.children[event["name"]] = event
                self.starts += 1
            elif event["event"] == "exited":
                self.children.pop(event["name"], None)
            elif event["event"] == "started":
                self.started = event
            self._changed.notify_all()
        self._changed.notify_all()

    async def wait_for(self, condition: Any, *, seconds: float) -> None:
        """Return when `condition()` holds. Raises `DuramenError` where the cluster ended, or the time is over."""
        try:
            async with asyncio.timeout(seconds):
                while not condition():
                    if self._process.returncode is not None or (self._reader is not None and self._reader.done()):
                        raise DuramenError(f"the cluster ended with code {self._process.returncode}")
                    await self._changed.wait()
        except TimeoutError as error:
            if isinstance(error, DuramenError):
                raise
            raise DeadlineExceeded(f"the cluster did not come so far within {seconds:g} s: {self.children}") from None

    @property
    def target(self) -> str:
        """The router's address."""
        assert self.started is not None, "it has said that it is up"
        return f"127.0.0.1:{self.started['port']}"

    async def close(self) -> None:
        """Stop everything. Idempotent."""
        await stop_process(self._process, timeout_s=HEAL_S)
        if self._reader is not None:
            await self._reader
