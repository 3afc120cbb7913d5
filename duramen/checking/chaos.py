"""Faults: a cluster of real processes, of which one after the other is killed (-9) or paused (SIGSTOP) at random."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from duramen.supervisor.parent import PARENT_VARIABLE
from log_tier.errors import DeadlineExceeded, DuramenError

__all__ = ["Cluster", "Faults"]

_START_S: Final = 60.0
_HEAL_S: Final = 30.0

# Between two faults, in seconds: long enough that something happens, short enough that many meet a restart under way.
_CALM_S: Final = (0.2, 1.5)
_PAUSED_S: Final = (0.1, 2.5)


class Cluster:
    """`duramen up --nodes N` in a process of its own, and what it says about its children. `open()`, `close()`."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._reader: asyncio.Task[None] | None = None
        self._told = asyncio.Event()
        self.children: dict[str, dict[str, Any]] = {}
        """The last that was said of each child that runs, by name: role, pid, port."""
        self.starts = 0
        """How often a child was started."""
        self.started: dict[str, Any] | None = None

    @classmethod
    async def open(cls, data: Path, *, nodes: int) -> Cluster:
        """Start it and wait until it answers. Raises its own words where it does not."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "duramen", "up", "--nodes", str(nodes), "--data", str(data)),
            *("--port", "0", "--json"),
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
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            event = json.loads(line)
            if event["event"] == "child":
                self.children[event["name"]] = event
                self.starts += 1
            elif event["event"] == "exited":
                self.children.pop(event["name"], None)
            elif event["event"] == "started":
                self.started = event
            told, self._told = self._told, asyncio.Event()
            told.set()
        self._told.set()

    async def wait_for(self, condition: Any, *, seconds: float) -> None:
        """Return when `condition()` holds. Raises `DuramenError` where the cluster ended, or the time is over."""
        try:
            async with asyncio.timeout(seconds):
                while not condition():
                    if self._process.returncode is not None or (self._reader is not None and self._reader.done()):
                        raise DuramenError(f"the cluster ended with code {self._process.returncode}")
                    await self._told.wait()
        except TimeoutError as error:
            if isinstance(error, DuramenError):
                raise
            raise DeadlineExceeded(f"the cluster did not come so far within {seconds:g} s: {self.children}") from None

    @property
    def target(self) -> str:
        """The router's address."""
        assert self.started is not None
        return f"127.0.0.1:{self.started['port']}"

    async def close(self) -> None:
        """Stop everything. Idempotent."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.terminate()
            try:
                async with asyncio.timeout(_HEAL_S):
                    await self._process.wait()
            except TimeoutError:
                self._process.kill()
                await self._process.wait()
        if self._reader is not None:
            await self._reader


class Faults:
    """Breaks one child at a time until told to stop; then everything is alive again."""

    def __init__(self, cluster: Cluster, *, seed: str, roles: tuple[str, ...] = ("log", "node", "router")) -> None:
        self._cluster = cluster
        self._random = random.Random(f"{seed}/faults")
        self._roles = roles
        self.killed: dict[str, int] = dict.fromkeys(roles, 0)
        """How often a child of that role was killed."""
        self.paused: dict[str, int] = dict.fromkeys(roles, 0)

    @property
    def count(self) -> int:
        """Faults so far."""
        return sum(self.killed.values()) + sum(self.paused.values())

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set. Returns when every child runs."""
        everybody = set(self._cluster.children)
        while not await _within(stop, self._random.uniform(*_CALM_S)):
            victims = [child for child in self._cluster.children.values() if child["role"] in self._roles]
            if victims:
                await self._break(self._random.choice(sorted(victims, key=lambda child: str(child["name"]))), stop)
        await self._cluster.wait_for(lambda: everybody <= set(self._cluster.children), seconds=_HEAL_S)

    async def _break(self, child: dict[str, Any], stop: asyncio.Event) -> None:
        role, pid = str(child["role"]), int(child["pid"])
        if self._random.random() < 0.6:
            self.killed[role] += 1
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            return
        self.paused[role] += 1
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            try:
                await _within(stop, self._random.uniform(*_PAUSED_S))
            finally:
                os.kill(pid, signal.SIGCONT)


async def _within(stop: asyncio.Event, seconds: float) -> bool:
    """Wait so long; True as soon as `stop` is set."""
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return False
    return True
