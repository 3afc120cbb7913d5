"""A cluster on one thread: a log server, three nodes, a router and clients, each process on its end of one network."""

from __future__ import annotations

import asyncio
import contextvars
import random
import shutil
import tempfile
from collections.abc import Coroutine
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from duramen import aio
from duramen.client.database import Database
from duramen.server.roles.node_role import add_node_services
from duramen.server.wiring.register import register_node
from duramen.server.wiring.serving_node import ServingNode
from duramen.verification.checker import check_history
from duramen.verification.run import run_check
from duramen.verification.workload import WorkloadShape
from log_tier.catalog.catalog import Catalog
from log_tier.catalog.commands import RegisterNode
from log_tier.catalog.map_follower import MapFollower
from log_tier.catalog.service import ClusterService
from log_tier.embedded import EmbeddedLog, EngineSettings
from log_tier.model.errors import Disconnected, DuramenError
from log_tier.open import open_log
from log_tier.proto import cluster_pb2_grpc, log_pb2_grpc
from log_tier.remote.service import LogService
from log_tier.rpc.transport import TRANSPORT
from router.admin.lazy import AdminOnDemand
from router.data.local_data import LocalData
from router.endpoints.grpc.services import KeyValueService, TablesService
from router.membership.live_membership import LiveMembership
from router.membership.on_demand import MembershipOnDemand
from router.proto import keyvalue_pb2_grpc, tables_pb2_grpc
from router.routing.routed_connection import RoutedConnection
from simulation.book import Broken
from simulation.plan import Fault, Incident, Plan
from simulation.seeded import seeded
from simulation.simulated_clock import SimulatedClock
from simulation.simulated_disk import FaultyDisk
from simulation.simulated_grpc import SimulatedServer, SimulatedTransport
from simulation.simulated_loop import SimulatedLoop, SimulatedWorkers
from simulation.simulated_network import Network
from simulation.story import RunStory

__all__ = ["ClusterWorld"]

T = TypeVar("T")

HOME: Final = Path("/data/log")
NODES: Final = ("n1", "n2", "n3")
_LOG_URL: Final = "grpc://log:7070"
_SECONDS: Final = 8.0
_PACE: Final = 0.6
"""What the times of a plan are multiplied by."""
_RESTART_S: Final = 0.2
_OPERATOR_S: Final = 1.0
"""What an operator takes to see that a log server has stopped."""
_LEVEL_S: Final = 60.0
"""Virtual time in which everything is level again after the last fault."""
_END_S: Final = 900.0


class _Process:
    """One process: it lives until it is told to end, and again, until the world ends."""

    def __init__(self, world: ClusterWorld, name: str) -> None:
        self.world, self.name = world, name
        self.context = contextvars.copy_context()
        self.context.run(TRANSPORT.set, SimulatedTransport(world.network, name))
        self.up = asyncio.Event()
        self.ending: asyncio.Future[bool] | None = None
        """Set to True for a clean end, to False for a kill."""
        self.down_s = _RESTART_S
        self.server: SimulatedServer | None = None
        self.lives = 0

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """A task of this process."""
        return self.context.run(asyncio.get_running_loop().create_task, work)

    def new_server(self) -> SimulatedServer:
        """Of this life; it does not listen yet."""
        self.server = SimulatedServer(self.world.network, self.name, self.context, self.world.broke)
        return self.server

    def end(self, *, politely: bool, down_s: float) -> bool:
        """End this life. False where there is none."""
        if self.ending is None or self.ending.done():
            return False
        self.down_s = down_s
        self.up.clear()
        self.ending.set_result(politely)
        return True


class ClusterWorld:
    """One run of a plan; `run` raises `Broken`."""

    def __init__(self, plan: Plan, loop: SimulatedLoop) -> None:
        self.plan, self.loop = plan, loop
        self.story = RunStory(loop.time)
        self.network = Network(loop, random.Random(f"network {plan.seed}"), self.story)
        self.disk = FaultyDisk(self.story, self._log_died)
        self.broken: asyncio.Future[None] = loop.create_future()
        self._chance = random.Random(f"cluster {plan.seed}")
        memory = Path("/dev/shm")
        self._folder = Path(tempfile.mkdtemp(prefix="duramen-simulation-", dir=memory if memory.is_dir() else None))
        self._workers = SimulatedWorkers(loop)
        self._clock = SimulatedClock(loop.time)
        self._keeps: dict[str, bool] = {}
        self._failures_seen = 0
        """Failures of the disk after which the log server was started again."""
        self._planes: dict[str, LocalData] = {}
        self.processes = {name: _Process(self, name) for name in ("log", *NODES, "router", "clients")}
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

    def broke(self, what: str, error: Exception) -> None:
        """A handler ended with an error that is none of ours."""
        if not self.broken.done():
            self.broken.set_exception(Broken("typed", f"{what} ended with {error!r}"))

    def _log_died(self) -> None:
        self.processes["log"].end(politely=False, down_s=_RESTART_S)

    async def run(self) -> None:
        """The workload under the plan's faults and incidents, then the checker."""
        lives = {"log": self._log_life, "router": self._router_life}
        lives |= {name: partial(self._node_life, name) for name in NODES}
        everything: list[asyncio.Future[Any]] = [self.broken]
        clients = self.processes["clients"]
        try:
            with seeded(self.plan.seed):
                for name, life in lives.items():
                    process = self.processes[name]
                    everything.append(process.start(self._living(process, life)))
                everything.append(asyncio.create_task(self._operating()))
                everything.append(clients.start(self._traffic()))
                async with asyncio.timeout_at(self.loop.time() + _END_S):
                    await asyncio.wait(everything, return_when="FIRST_COMPLETED")
        except TimeoutError as error:
            raise Broken("ends", f"the run has not ended after {_END_S} s") from error
        finally:
            with seeded(self.plan.seed):
                for task in reversed(everything):
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)
            shutil.rmtree(self._folder, ignore_errors=True)
        for task in everything:
            if not task.cancelled():
                task.result()

    # --- processes

    async def _living(self, process: _Process, life: Any) -> None:
        while True:
            process.ending = asyncio.get_running_loop().create_future()
            process.lives += 1
            politely = False
            opened = AsyncExitStack()
            try:
                try:
                    await life(process, opened)
                except DuramenError as error:
                    self.story.tell(process.name, f"cannot start: {type(error).__name__}: {error.message}")
                    if error.code in ("log_damaged", "index_damaged", "foreign_folder", "unknown_format"):
                        raise Broken("damage", f"{process.name} does not start: {error.message}") from error
                else:
                    self.story.tell(process.name, f"life {process.lives} begins")
                    process.up.set()
                    politely = await process.ending
            finally:
                process.up.clear()
                await self._end_of_life(process, opened, politely=politely)
            await asyncio.sleep(process.down_s)
            process.down_s = _RESTART_S

    async def _end_of_life(self, process: _Process, opened: AsyncExitStack, *, politely: bool) -> None:
        server, process.server = process.server, None
        if not politely:
            self.network.die(process.name)
        if server is not None:
            await server.stop(politely=politely)
        with suppress(DuramenError):
            await opened.aclose()
        self.network.die(process.name)
        self.network.dead.discard(process.name)
        if process.name == "log" and self.disk.survivor is None:
            self.disk.die(Fault(0, "kill", 0, seed=self._chance.getrandbits(32)), "restart")
        self._planes.pop(process.name, None)
        if process.name in NODES and not self._keeps.pop(process.name, True):
            shutil.rmtree(self._folder / process.name / "index", ignore_errors=True)
            self.story.tell(process.name, "the indexes are gone")

    async def _log_life(self, process: _Process, opened: AsyncExitStack) -> None:
        disk = self.disk.now if self.disk.survivor is None else self.disk.restart()
        log = await EmbeddedLog.open(HOME, disk=disk, clock=self._clock.wall_ms, settings=self._settings)
        opened.push_async_callback(log.close)
        if log.recovery.damages:
            raise Broken("damage", f"recovery says {log.recovery}")
        server = process.new_server()
        log_pb2_grpc.add_LogServicer_to_server(LogService(log, server.streams), server.registry)  # type: ignore[no-untyped-call]
        server.listen()

    async def _node_life(self, name: str, process: _Process, opened: AsyncExitStack) -> None:
        log = await open_log(_LOG_URL)
        opened.push_async_callback(log.close)
        catalog = await Catalog.open(log)
        opened.push_async_callback(catalog.close)
        await register_node(catalog, RegisterNode(name, f"{name}:7070", f"identity of {name}"))
        node = await ServingNode.open(
            log,
            catalog,
            self._folder / name,
            node_id=name,
            identity=f"identity of {name}",
            clock=self._clock,
            workers=self._workers,
        )
        opened.push_async_callback(node.close)
        plane = LocalData(log, catalog, node.hosting, resources=AsyncExitStack())
        opened.push_async_callback(plane.close)
        memberships = MembershipOnDemand(node.follower)
        opened.push_async_callback(memberships.close)
        admin = AdminOnDemand(catalog, log, memberships)
        opened.push_async_callback(admin.close)
        server: Any = process.new_server()
        opened.push_async_callback(add_node_services(server, plane, node, admin, role="node", log_url=_LOG_URL))
        node.ended.add_done_callback(partial(self._node_ended, process))
        self._planes[name] = plane
        server.listen()

    def _node_ended(self, process: _Process, ended: asyncio.Future[DuramenError]) -> None:
        if not ended.cancelled():
            self.story.tell(process.name, f"ends by itself: {ended.result().message}")
            self.story.met["a node ended by itself"] += 1
            process.end(politely=True, down_s=_RESTART_S)

    async def _router_life(self, process: _Process, opened: AsyncExitStack) -> None:
        log = await open_log(_LOG_URL)
        opened.push_async_callback(log.close)
        catalog = await Catalog.open(log)
        opened.push_async_callback(catalog.close)
        membership = await LiveMembership.open(MapFollower(catalog))
        opened.push_async_callback(membership.close)
        connection = RoutedConnection.for_router(log, catalog, membership)
        opened.push_async_callback(connection.close)
        server = process.new_server()
        keyvalue_pb2_grpc.add_KeyValueServicer_to_server(KeyValueService(connection, server.streams), server.registry)  # type: ignore[no-untyped-call]
        tables_pb2_grpc.add_TablesServicer_to_server(TablesService(connection), server.registry)  # type: ignore[no-untyped-call]
        maps = ClusterService(catalog, server.streams, role="router", log_url=_LOG_URL)
        cluster_pb2_grpc.add_ClusterServicer_to_server(maps, server.registry)  # type: ignore[no-untyped-call]
        server.listen()

    async def _operating(self) -> None:
        """Start the log server again where its disk has failed: it takes no writes any more."""
        while True:
            await asyncio.sleep(0.25)
            failures = self._disk_failures()
            if failures > self._failures_seen:
                await asyncio.sleep(_OPERATOR_S)
                self.story.tell("operator", "starts the log server again")
                self.processes["log"].end(politely=False, down_s=_RESTART_S)
                self._failures_seen = failures

    def _disk_failures(self) -> int:
        return sum(count for name, count in self.story.met.items() if "fails at" in name)

    # --- clients

    async def _traffic(self) -> None:
        for process in self.processes.values():
            if process.name != "clients":
                await process.up.wait()
        chance = random.Random(f"clients {self.plan.seed}")
        shape = WorkloadShape(
            clients=chance.choice((2, 4)),
            watchers=chance.choice((0, 1)),
            hot_keys=chance.choice((2, 6)),
            cold_keys=40,
            pause_s=chance.choice((0.05, 0.2, 0.5)),
        )

        async def connect() -> Database:
            targets = chance.sample([f"{name}:7070" for name in (*NODES, "router")], chance.choice((1, 2, 4)))
            direct = chance.random() < 0.7
            while True:
                try:
                    return await aio.connect(targets, timeout=5.0, direct=direct)
                except Disconnected:
                    await asyncio.sleep(_RESTART_S)

        history = await run_check(
            connect,
            seconds=_SECONDS,
            seed=str(self.plan.seed),
            shape=shape,
            partitions=self.plan.partitions,
            targets=("router:7070",),
            log_url=_LOG_URL,
            faults=self._faults,
            clock=lambda: int(self.loop.time() * 1e9),
        )
        for call in history.calls:
            self.story.tell(f"client {call.client}", f"{call.kind} {call.arguments} {call.outcome} {call.reply}")
            self.story.met[f"answer {call.outcome}"] += 1
        for violation in check_history(history):
            raise Broken(violation.invariant, f"{violation.what} (calls {violation.calls})")

    # --- what goes wrong

    async def _faults(self, stop: asyncio.Event) -> None:
        began_s = self.loop.time()
        happening = [asyncio.create_task(self._happen(each)) for each in self.plan.incidents]
        try:
            for fault in self.plan.faults:
                await asyncio.sleep(max(0.0, began_s + fault.at_s * _PACE - self.loop.time()))
                self.story.tell("fault", f"{fault.kind}, after {fault.steps} steps")
                if fault.kind == "slow":
                    self.loop.slow_threads(fault.seconds)
                elif fault.kind != "full":
                    self.disk.arm(fault)
                    await asyncio.sleep(0.2)
                    self.disk.force(fault)
            await stop.wait()
            await asyncio.gather(*happening)
        finally:
            for task in happening:
                task.cancel()
        self.disk.calm()
        self.network.calm()
        self.story.tell("world", "the faults are over")
        await self._level()

    async def _happen(self, incident: Incident) -> None:
        await asyncio.sleep(incident.at_s * _PACE)
        one, other, seconds, network = incident.one, incident.other, incident.seconds, self.network
        self.story.tell("incident", f"{incident.kind} {one} {other} for {seconds:.2f} s")
        self.story.met[f"incident {incident.kind}"] += 1
        if incident.kind in ("kill", "stop"):
            self._keeps[one] = incident.kind == "stop" or incident.keeps
            self.processes[one].end(politely=incident.kind == "stop", down_s=seconds)
        elif incident.kind == "reset":
            network.reset(one, other)
        elif incident.kind == "reset reply":
            network.link(one, other).reset_next = True
        elif incident.kind == "late":
            network.link(one, other).late_s = network.link(other, one).late_s = seconds / 4
            await asyncio.sleep(seconds)
            network.link(one, other).late_s = network.link(other, one).late_s = 0.0
        else:
            pairs = [(one, other)] if incident.kind == "one way" else [(one, other), (other, one)]
            if incident.kind == "pause":
                pairs = [pair for each in self.processes if each != one for pair in ((one, each), (each, one))]
            for source, target in pairs:
                network.cut(source, target)
            await asyncio.sleep(seconds)
            for source, target in pairs:
                network.heal(source, target)

    async def _level(self) -> None:
        """Everything is alive, and every replica follows, within a bounded time."""
        deadline_s = self.loop.time() + _LEVEL_S
        while what := self._not_level():
            if self.loop.time() > deadline_s:
                raise Broken("level", f"{_LEVEL_S:g} s after the last fault {what}")
            await asyncio.sleep(0.1)
        self.story.tell("world", "all is level")

    def _not_level(self) -> str:
        if self._disk_failures() > self._failures_seen:
            return "the log server has not been started again"
        for process in self.processes.values():
            if process.name != "clients" and not process.up.is_set():
                return f"{process.name} does not answer"
        for name, plane in self._planes.items():
            if plane.hosting.pending:
                return f"{name} has not opened {len(plane.hosting.pending)} replicas"
            for replica in plane.node:
                if replica.state != "ready":
                    return f"{name} has {replica.name} {replica.state}: {replica.failure}"
        return ""
