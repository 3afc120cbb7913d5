"""A whole database on the machine of a plan: log, catalog, hosting, indexes, data plane, and endpoints if wanted."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from typing import Any, Final

from duramen.testing.machine.simulated_clock import SlowTurnClock
from duramen.testing.machine.simulated_loop import SimulatedLoop
from duramen.testing.machine.simulated_machine import RESTART_S
from duramen.testing.machine.simulated_wire import SimulatedWire, WireClient
from duramen.testing.running.seeded import seeded
from log_tier.catalog.catalog import Catalog
from log_tier.catalog.commands import RegisterNode
from log_tier.catalog.map_follower import MapFollower
from log_tier.model.errors import DuramenError
from router.data.catalog_tables import CatalogTables
from router.data.local_data import LocalData
from router.endpoints.resp.connection.client import Client
from router.endpoints.resp.server.resp_server import RespServer
from router.endpoints.resp.server.sockets import RespSettings, RespSockets
from serving_tier.node.hosting import Hosting
from serving_tier.node.node import Node
from simulation.book import Broken
from simulation.plan import Plan
from simulation.planned_machine import cannot_start, faults, machine_of, set_clocks, undamaged_log
from simulation.row_ledger import RowLedger

__all__ = ["DatabaseWorld", "Traffic"]

_PACE: Final = 0.5
"""What the times of a plan are multiplied by."""
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
        self.wires: dict[SimulatedWire, None] = {}
        """Connections to it."""
        self._machine = machine_of(plan, loop, "database", self.stop)
        self.story, self.disk = self._machine.story, self._machine.disk
        self.up = asyncio.Event()
        self.died = asyncio.Event()
        self.plane: LocalData | None = None
        self.life = 0
        self.rows = RowLedger()
        """Of a table of rows, where there is one."""
        self._turn_clock = SlowTurnClock(loop.time, random.Random(f"turns {plan.seed}"))

    def stop(self) -> None:
        """This life is over: the process has died, or its operator has seen that it must be started again."""
        self.up.clear()
        self.died.set()
        for wire in self.wires:
            wire.cut()
        self.wires.clear()

    async def connected(self, chance: random.Random, at: str = "") -> WireClient:
        """A client of the Redis protocol, at any endpoint, as soon as there is one. There is one process."""
        while True:
            await self.up.wait()
            if self.endpoints:
                client = WireClient.connect(self.loop, chance, Client(chance.choice(self.endpoints)))
                self.wires[client.wire] = None
                return client
            await asyncio.sleep(0.01)

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
            self._machine.close()
        for task in (living, checking):
            if not task.cancelled():
                task.result()

    # --- the machine and its operator

    async def _living(self) -> None:
        machine = self._machine
        while True:
            self.died.clear()
            self.life += 1
            try:
                self.plane = await self._opened()
            except DuramenError as error:
                cannot_start(machine, "the server", error)
            else:
                self.story.tell("server", f"life {self.life} begins")
                self.up.set()
                await self.died.wait()
            self.up.clear()
            await self._close()
            if self.disk.survivor is None:
                machine.end_of_life(power=machine.chance.random() < 0.5)
            if machine.chance.random() < 0.5:
                # After a loss of power an index is not trusted; a node without one folds the log from its start.
                shutil.rmtree(machine.folder / "node", ignore_errors=True)
                self.story.tell("machine", "the indexes are gone")
            await asyncio.sleep(RESTART_S)

    async def _opened(self) -> LocalData:
        async with AsyncExitStack() as opened:
            log = await undamaged_log(self._machine)
            opened.push_async_callback(log.close)
            catalog = await Catalog.open(log)
            opened.push_async_callback(catalog.close)
            await catalog.submit(RegisterNode("n1", "", "single", take_over=True))
            await CatalogTables(log, catalog).reconcile()
            machine = self._machine
            node = await Node.open(log, machine.folder / "node", clock=machine.clock, workers=machine.workers)
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
        clocks = asyncio.create_task(set_clocks(self.plan, self.story, _PACE, lambda name: self._machine.clock))
        try:
            await faults(self._machine, self.plan, _PACE)
            await clocks
        finally:
            clocks.cancel()
        await stop.wait()
        self.disk.calm()
