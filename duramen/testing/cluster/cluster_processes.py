"""The processes of a cluster: they live on one machine's disk and network, and live again when they are started."""

from __future__ import annotations

import asyncio
import random
import shutil
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Final

from duramen.testing.cluster.lives import open_log_server, open_node, open_router
from duramen.testing.machine.simulated_clock import SimulatedClock
from duramen.testing.machine.simulated_machine import SimulatedMachine
from duramen.testing.machine.simulated_process import Life, SimulatedProcess
from duramen.testing.running.virtual_loop import VirtualLoop
from log_tier.catalog.catalog import Catalog
from log_tier.embedded import EmbeddedLog, EngineSettings
from log_tier.model.errors import DuramenError
from router.data.local_data import LocalData
from serving_tier.names import INDEX_FOLDER
from serving_tier.node.node import Node

__all__ = ["ClusterProcesses"]

_SEGMENT_BYTES: Final = 1 << 20
_JOURNAL_BYTES: Final = 1 << 20
"""A test writes little, and a small disk is copied quickly at each kill."""


class ClusterProcesses:
    """The processes by name, and what the living ones have open."""

    def __init__(self, loop: VirtualLoop, nodes: int, prefix: str) -> None:
        self.log_name, self.router_name = f"{prefix}log", f"{prefix}router"
        self.node_names = tuple(f"{prefix}n{number}" for number in range(1, nodes + 1))
        self.names = (self.log_name, *self.node_names, self.router_name)
        self.log_url = f"grpc://{self.log_name}:7070"
        self.broken: asyncio.Future[None] = loop.create_future()
        """Set where a process has ended with an error that is no `DuramenError`: a bug of ours."""
        self.chance = random.Random(f"cluster {prefix} {loop.seed}")
        self.machine = SimulatedMachine(
            loop,
            loop.seed,
            f"machine {prefix}",
            self._log_died,
            settings=EngineSettings(segment_bytes=_SEGMENT_BYTES, journal_bytes=_JOURNAL_BYTES),
            story=loop.story,
        )
        self.log: EmbeddedLog | None = None
        """Of the log server that runs."""
        self.planes: dict[str, LocalData] = {}
        self.catalogs: dict[str, Catalog] = {}
        """Of the nodes and the router that run."""
        self.loses_indexes: dict[str, bool] = {}
        """Nodes that are killed and will not find their indexes again."""
        self.by_name = {
            name: SimulatedProcess(
                name, self.machine, loop.network, broke=self._broke, cannot_start=self._not_started, buried=self._buried
            )
            for name in self.names
        }
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        """Start every process."""
        lives: dict[str, Life] = {self.log_name: self._log_life, self.router_name: self._router_life}
        lives |= dict.fromkeys(self.node_names, self._node_life)
        for name, life in lives.items():
            task = self.by_name[name].start(self.by_name[name].live(life))
            task.add_done_callback(self._ended)
            self._tasks.append(task)

    def clock_of(self, name: str) -> SimulatedClock:
        """The clock of a process of the cluster."""
        return self.machine.clock if name == self.log_name else self.machine.clock_of(name)

    async def up(self) -> None:
        """Return when everybody has begun."""
        for name in self.names:
            await self.by_name[name].up.wait()

    async def end(self) -> None:
        """End every process. Idempotent."""
        tasks, self._tasks = self._tasks, []
        for task in reversed(tasks):
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self.machine.close()

    def nodes(self) -> dict[str, Node]:
        """The nodes that run."""
        return {name: plane.node for name, plane in self.planes.items()}

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None and not self.broken.done():
            self.broken.set_exception(error)

    def _broke(self, what: str, error: Exception) -> None:
        if not self.broken.done():
            self.broken.set_exception(error)

    def _not_started(self, machine: SimulatedMachine, name: str, error: DuramenError) -> None:
        machine.story.tell(name, f"does not start: {type(error).__name__}: {error.message}")

    def _log_died(self) -> None:
        self.by_name[self.log_name].end(politely=False, down_s=None)

    def _buried(self, process: SimulatedProcess) -> None:
        name = process.name
        self.planes.pop(name, None)
        self.catalogs.pop(name, None)
        if name == self.log_name:
            self.log = None
            self.machine.end_of_life()
        if self.loses_indexes.pop(name, False):
            shutil.rmtree(self.machine.folder / name / INDEX_FOLDER, ignore_errors=True)
            self.machine.story.tell(name, "the indexes are gone")

    # --- lives

    async def _log_life(self, process: SimulatedProcess, opened: AsyncExitStack) -> None:
        log = await self.machine.open_log()
        opened.push_async_callback(log.close)
        self.log = log
        open_log_server(process, log).listen()

    async def _node_life(self, process: SimulatedProcess, opened: AsyncExitStack) -> None:
        parts = await open_node(process, opened, self.machine, log_url=self.log_url)
        parts.node.ended.add_done_callback(partial(self._node_ended, process))
        self.planes[process.name] = parts.plane
        self.catalogs[process.name] = parts.catalog
        parts.server.listen()

    def _node_ended(self, process: SimulatedProcess, ended: asyncio.Future[DuramenError]) -> None:
        if not ended.cancelled():
            self.machine.story.tell(process.name, f"ends by itself: {ended.result().message}")
            process.end(politely=True)

    async def _router_life(self, process: SimulatedProcess, opened: AsyncExitStack) -> None:
        parts: Any = await open_router(process, opened, self.machine.clock_of(process.name), log_url=self.log_url)
        self.catalogs[process.name] = parts.catalog
        parts.server.listen()
