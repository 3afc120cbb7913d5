"""A whole database on the machine of a plan: log, catalog, hosting, indexes, data plane, and endpoints if wanted."""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, Final

from log_tier.catalog.catalog import Catalog
from log_tier.catalog.commands import RegisterNode
from log_tier.catalog.map_follower import MapFollower
from log_tier.embedded import EmbeddedLog, EngineSettings
from log_tier.model.errors import DuramenError
from router.data.local_data import LocalData
from router.data.tables import Tables
from router.endpoints.resp.server.resp_server import RespServer
from router.endpoints.resp.server.sockets import RespSettings, RespSockets
from serving_tier.node.hosting import Hosting
from serving_tier.node.node import Node
from simulation.book import Broken
from simulation.plan import Fault, FaultKind, Plan
from simulation.seeded import seeded
from simulation.simulated_clock import SimulatedClock, SlowTurnClock
from simulation.simulated_disk import FaultyDisk
from simulation.simulated_loop import SimulatedLoop, SimulatedWorkers
from simulation.simulated_wire import SimulatedWire
from simulation.story import RunStory

__all__ = ["DatabaseWorld", "Traffic"]

HOME: Final = Path("/data/log")
_RESTART_S: Final = 0.2
_END_S: Final = 600.0
"""Virtual time after which a run that has not ended never will."""


Traffic = Callable[["DatabaseWorld"], Coroutine[Any, Any, None]]


class DatabaseWorld:
    """One run of a plan; `run` raises `Broken`."""

    def __init__(self, plan: Plan, loop: SimulatedLoop, traffic: Traffic, *, endpoints: int = 0) -> None:
        """`traffic`: the clients, and the check of what they saw. `endpoints`: how many of the Redis protocol."""
        self.plan, self.loop = plan, loop
        self._traffic, self._endpoints_wanted = traffic, endpoints
        self.endpoints: list[RespServer] = []
        """Of the life that goes on."""
        self.wires: set[SimulatedWire] = set()
        """Connections to it."""
        self.story = RunStory(loop.time)
        self.up = asyncio.Event()
        self.died = asyncio.Event()
        self.plane: LocalData | None = None
        self.disk = FaultyDisk(self.story, self.stop)
        self._chance = random.Random(f"database {plan.seed}")
        self.life = 0
        self._clock = SimulatedClock(loop.time)
        self._turn_clock = SlowTurnClock(loop.time, random.Random(f"turns {plan.seed}"))
        memory = Path("/dev/shm")
        self._folder = Path(tempfile.mkdtemp(prefix="duramen-simulation-", dir=memory if memory.is_dir() else None))
        self._workers = SimulatedWorkers(loop)
        self._settings = EngineSettings(
            segment_bytes=max(4096, plan.segment_bytes),
            index_every_bytes=300,
            journal_bytes=max(4096, plan.journal_bytes),
            tail_bytes_max=plan.tail_bytes,
            quick_commit_s=10.0 if plan.quick else 0.0,
            random_bytes=self._chance.randbytes,
            workers=self._workers,
            stopwatch_s=loop.time,
        )

    def stop(self) -> None:
        """This life is over: the process has died, or its operator has seen that it must be started again."""
        self.up.clear()
        self.died.set()
        for wire in self.wires:
            wire.cut()
        self.wires.clear()

    async def run(self) -> None:
        """The workload under the plan's faults, then the checker."""
        living = asyncio.create_task(self._living())
        checking = asyncio.create_task(self._traffic(self))
        try:
            with seeded(self.plan.seed):
                async with asyncio.timeout_at(self.loop.time() + _END_S):
                    await asyncio.wait([living, checking], return_when="FIRST_COMPLETED")
        except TimeoutError as error:
            raise Broken("ends", f"the run has not ended after {_END_S} s") from error
        finally:
            for task in (living, checking):
                if not task.done():
                    task.cancel()
            await asyncio.gather(living, checking, return_exceptions=True)
            await self._close()
            shutil.rmtree(self._folder, ignore_errors=True)
        for task in (living, checking):
            if not task.cancelled():
                task.result()

    # --- the machine and its operator

    async def _living(self) -> None:
        while True:
            disk = self.disk.now if self.disk.survivor is None else self.disk.restart()
            self.died.clear()
            self.life += 1
            try:
                self.plane = await self._opened(disk)
            except DuramenError as error:
                self.story.tell("operator", f"cannot start: {type(error).__name__}: {error.message}")
                if error.code in ("log_damaged", "index_damaged", "foreign_folder", "unknown_format"):
                    raise Broken("damage", f"it does not start: {error.message}") from error
            else:
                self.story.tell("server", f"life {self.life} begins")
                self.up.set()
                await self.died.wait()
            self.up.clear()
            await self._close()
            if self.disk.survivor is None:
                kind: FaultKind = "power" if self._chance.random() < 0.5 else "kill"
                self.disk.die(Fault(0, kind, 0, seed=self._chance.getrandbits(32)), "restart")
            if self._chance.random() < 0.5:
                # After a loss of power an index is not trusted; a node without one folds the log from its start.
                shutil.rmtree(self._folder / "node", ignore_errors=True)
                self.story.tell("machine", "the indexes are gone")
            await asyncio.sleep(_RESTART_S)

    async def _opened(self, disk: Any) -> LocalData:
        async with AsyncExitStack() as opened:
            log = await EmbeddedLog.open(HOME, disk=disk, clock=self._clock.wall_ms, settings=self._settings)
            opened.push_async_callback(log.close)
            if log.recovery.damages:
                raise Broken("damage", f"recovery says {log.recovery}")
            catalog = await Catalog.open(log)
            opened.push_async_callback(catalog.close)
            await catalog.submit(RegisterNode("n1", "", "single", take_over=True))
            await Tables(log, catalog).reconcile()
            node = await Node.open(log, self._folder / "node", clock=self._clock, workers=self._workers)
            opened.push_async_callback(node.close)
            follower = MapFollower(catalog)
            hosting = await Hosting.open(follower, node, node_id="n1", identity="single")
            opened.push_async_callback(hosting.close)
            plane = LocalData(log, catalog, hosting, resources=opened.pop_all())
            settings = RespSettings(table_partitions=self.plan.partitions)
            for _ in range(self._endpoints_wanted):
                self.endpoints.append(
                    await RespServer.open(plane, follower, settings, RespSockets(), node=node, clock=self._turn_clock)
                )
            return plane
        raise AssertionError("not reached")

    async def _close(self) -> None:
        plane, self.plane = self.plane, None
        endpoints, self.endpoints = self.endpoints, []
        for endpoint in endpoints:
            with suppress(DuramenError):
                await endpoint.close()
        if plane is not None:
            with suppress(DuramenError):
                await plane.close()

    async def faults(self, stop: asyncio.Event) -> None:
        """Let the plan's faults happen; when `stop` is set, no others do."""
        began_s = self.loop.time()
        for fault in self.plan.faults:
            await asyncio.sleep(max(0.0, began_s + fault.at_s / 2 - self.loop.time()))
            self.story.tell("fault", f"{fault.kind}, after {fault.steps} steps")
            if fault.kind == "slow":
                self.loop.slow_threads(fault.seconds)
            elif fault.kind != "full":
                self.disk.arm(fault)
                await asyncio.sleep(0.2)
                self.disk.force(fault)
        await stop.wait()
        self.disk.calm()
