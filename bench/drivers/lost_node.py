"""A log, nodes and a router as processes of this machine, started by hand: nobody starts a killed node again."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from typing import Any, Final

__all__ = ["HEAL_AFTER_S", "LostNode"]

HEAL_AFTER_S: Final = 2.0

_LOOK_S: Final = 0.02
_DEADLINE_S: Final = 600.0


class LostNode:
    """A cluster by hand. `start`, `fill`, `kill`, `healed`, `stop`."""

    def __init__(self, folder: Path, *, nodes: int) -> None:
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.names = [f"n{number}" for number in range(1, nodes + 1)]
        self.target = ""
        self._admin: Any = None

    async def start(self) -> None:
        """Start its processes; a router heals after `HEAL_AFTER_S`, by the usual bounds."""
        log = await self._start("log", "log", "--data", str(self._folder / "log"))
        url = ("--log", f"grpc://127.0.0.1:{log}")
        for name in self.names:
            await self._start(name, "node", *url, "--id", name, "--data", str(self._folder / name))
        self.target = f"127.0.0.1:{await self._start('router', 'router', *url, '--heal-after', str(HEAL_AFTER_S))}"
        self._admin = importlib.import_module("router.admin.client").AdminConnection(self.target, timeout=60.0)

    async def _start(self, name: str, role: str, *arguments: str) -> int:
        command = [sys.executable, "-m", "duramen", "serve", role, "--port", "0", "--http-port", "-1", "--json"]
        with (self._folder / f"{name}.err").open("ab") as errors:
            process = subprocess.Popen(  # noqa: ASYNC220 - nothing else runs on this loop yet
                [*command, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors
            )
        self._processes[name] = process
        assert process.stdout is not None, "it was started with a pipe"
        line = await asyncio.to_thread(process.stdout.readline)
        if not line:
            raise RuntimeError(f"{name} did not start: {(self._folder / f'{name}.err').read_text()[-2000:]}")
        return int(json.loads(line)["port"])

    async def fill(self, records: int, value_bytes: int, *, partitions: int) -> None:
        """Make the table `bench` with two replicas, put records of random bytes, and wait until all is level."""
        aio = importlib.import_module("duramen.aio")
        async with await aio.connect(self.target, timeout=120) as database:
            table = await database.create_table("bench", partitions=partitions, replicas=2)
            for begin in range(0, records, 1000):
                await table.put_many({b"key%014d" % n: os.urandom(value_bytes) for n in range(begin, begin + 1000)})
        await self._until(lambda copies: all(len(nodes) == 2 for nodes in copies))

    async def kill(self, name: str) -> float:
        """Kill a node; when that was, on `perf_counter`."""
        process = self._processes.pop(name)
        process.kill()
        await asyncio.to_thread(process.communicate)
        return perf_counter()

    async def healed(self, lost: str) -> float:
        """Wait until each partition has two copies without the lost node; when that was, on `perf_counter`."""
        await self._until(lambda copies: all(len(nodes - {lost}) == 2 for nodes in copies))
        return perf_counter()

    async def jobs(self) -> list[Any]:
        """The healings, with their tasks."""
        return [await self._admin.job(job.job) for job in await self._admin.jobs() if job.kind == "heal"]

    def held_bytes(self, name: str) -> int:
        """What the indexes of a node take of its disk."""
        files = (self._folder / name).rglob("data.mdb")
        return sum(file.stat().st_blocks * 512 for file in files)

    def files(self, name: str) -> list[Path]:
        """The files of a node's indexes."""
        return sorted((self._folder / name).rglob("data.mdb"))

    async def _until(self, condition: Any) -> None:
        async with asyncio.timeout(_DEADLINE_S):
            while True:
                found = await self._admin.partitions("bench")
                if condition([{r.node for r in each.replicas if r.state == "ready"} for each in found]):
                    return
                await asyncio.sleep(_LOOK_S)

    async def stop(self) -> None:
        """End its processes."""
        if self._admin is not None:
            await self._admin.close()
        for process in reversed(self._processes.values()):
            process.terminate()
        for process in self._processes.values():
            await asyncio.to_thread(process.communicate)
