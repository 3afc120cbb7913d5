"""A cluster on one thread: a log server, three nodes, a router and clients, each process on its end of one network."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Final

from duramen.server.roles.kv import nearest, others_on_demand
from duramen.server.roles.node_role import add_node_services
from duramen.server.wiring.register import register_node
from duramen.server.wiring.serving_node import ON_DEMAND, ServingNode, SnapshotPolicy
from log_tier.catalog.catalog import Catalog
from log_tier.catalog.commands import RegisterNode
from log_tier.catalog.map_follower import MapFollower
from log_tier.catalog.service import ClusterService
from log_tier.model.errors import DuramenError
from log_tier.open import open_log
from log_tier.proto import cluster_pb2_grpc, log_pb2_grpc
from log_tier.remote.service import LogService
from router.admin.lazy import admin_on_demand
from router.data.local_data import LocalData
from router.data.seam import Connection
from router.endpoints.grpc.services import KeyValueService, TablesService
from router.endpoints.resp.connection.client import Client
from router.endpoints.resp.server.resp_server import RespServer
from router.endpoints.resp.server.sockets import RespSettings, RespSockets
from router.membership.live_membership import LiveMembership
from router.membership.membership_on_demand import membership_on_demand
from router.proto import keyvalue_pb2_grpc, tables_pb2_grpc
from router.routing.routed_connection import RoutedConnection
from serving_tier.jobs.log_trimmer import ROUND_S
from serving_tier.node.node import Node
from simulation.book import Broken
from simulation.kept_log import KeepingLog, KeptRecords
from simulation.plan import Plan
from simulation.seeded import seeded
from simulation.simulated_clock import SlowTurnClock
from simulation.simulated_loop import SimulatedLoop
from simulation.simulated_machine import SimulatedMachine
from simulation.simulated_network import Connecting, Network
from simulation.simulated_process import Life, SimulatedProcess
from simulation.simulated_wire import WireClient

__all__ = ["LOG_URL", "NODES", "ClusterWorld", "Part"]

NODES: Final = ("n1", "n2", "n3")
LOG_URL: Final = "grpc://log:7070"
_END_S: Final = 900.0

Part = Callable[["ClusterWorld"], Coroutine[Any, Any, None]]


class ClusterWorld:
    """One run of a plan; `run` raises `Broken`."""

    def __init__(
        self, plan: Plan, loop: SimulatedLoop, traffic: Part, operator: Part, *, has_endpoints: bool = False
    ) -> None:
        """`traffic`: the clients, and the check of what they saw; a run ends with it. `operator`: works meanwhile.

        `has_endpoints`: of the Redis protocol, at the nodes and the router.
        """
        self.plan, self.loop = plan, loop
        self._has_endpoints = has_endpoints
        self.endpoints: dict[str, RespServer] = {}
        """Of the processes that live."""
        self._traffic, self._operator = traffic, operator
        self.machine = SimulatedMachine(plan, loop, "cluster", self._log_died)
        self.story, self.disk = self.machine.story, self.machine.disk
        self.network = Network(loop, random.Random(f"network {plan.seed}"), self.story)
        self.broken: asyncio.Future[None] = loop.create_future()
        self.keeps: dict[str, bool] = {}
        """Whether a node that ends finds its indexes again."""
        self.nodes: dict[str, tuple[ServingNode, LocalData]] = {}
        """Those that live."""
        self.catalogs: dict[str, Catalog] = {}
        """Of the nodes and the router, as far as they live."""
        self.failures_seen = 0
        """Failures of the log's disk after which its server was started again."""
        self.kept = KeptRecords(self.story)
        """What the log held before it was trimmed, and perhaps more."""
        self.drops: set[str] = set()
        """Tables of which a drop was begun and not answered."""
        self.log: KeepingLog | None = None
        """The log of the server's last life."""
        self._snapshots, self._retention_round_s = ON_DEMAND, ROUND_S
        if plan.trims is not None:
            # A log is only as safe to trim as its snapshots are: all nodes share a store.
            url = (self.machine.folder / "snapshots").as_uri()
            self._snapshots = SnapshotPolicy(url, plan.trims.snapshot_every_s)
            self._retention_round_s = plan.trims.round_s
        self.processes = {
            name: SimulatedProcess(name, self.machine, self.network, broke=self.broke, buried=self._buried)
            for name in ("log", *NODES, "router", "clients")
        }

    def broke(self, what: str, error: Exception) -> None:
        """A handler ended with an error that is none of ours."""
        if not self.broken.done():
            self.broken.set_exception(Broken("typed", f"{what} ended with {error!r}"))

    def _log_died(self) -> None:
        self.processes["log"].end(politely=False)

    async def run(self) -> None:
        """The workload under the plan's faults and incidents, then the checker."""
        lives: dict[str, Life] = {"log": self._log_life, "router": self._router_life}
        lives |= {name: partial(self._node_life, name) for name in NODES}
        everything: list[asyncio.Future[Any]] = [self.broken]
        clients = self.processes["clients"]
        try:
            with seeded(self.plan.seed):
                for name, life in lives.items():
                    process = self.processes[name]
                    everything.append(process.start(process.live(life)))
                everything.append(asyncio.create_task(self._operator(self)))
                everything.append(clients.start(self._traffic(self)))
                async with asyncio.timeout_at(self.loop.time() + _END_S):
                    await asyncio.wait(everything, return_when="FIRST_COMPLETED")
        except TimeoutError as error:
            raise Broken("ends", f"the run has not ended after {_END_S} s") from error
        finally:
            with seeded(self.plan.seed):
                for task in reversed(everything):
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)
            self.machine.close()
        for task in everything:
            if not task.cancelled():
                task.result()

    # --- processes

    def _buried(self, process: SimulatedProcess) -> None:
        if process.name == "log":
            self.machine.end_of_life()
        self.nodes.pop(process.name, None)
        self.endpoints.pop(process.name, None)
        self.catalogs.pop(process.name, None)
        if process.name in NODES and not self.keeps.pop(process.name, True):
            shutil.rmtree(self.machine.folder / process.name / "index", ignore_errors=True)
            self.story.tell(process.name, "the indexes are gone")

    async def _log_life(self, process: SimulatedProcess, opened: AsyncExitStack) -> None:
        log = await self.machine.open_log()
        opened.push_async_callback(log.close)
        server = process.new_server()
        self.log = KeepingLog(log, self.kept)
        log_pb2_grpc.add_LogServicer_to_server(LogService(self.log, server.streams), server.registry)  # type: ignore[no-untyped-call]
        server.listen()

    async def _node_life(self, name: str, process: SimulatedProcess, opened: AsyncExitStack) -> None:
        log = await open_log(LOG_URL)
        opened.push_async_callback(log.close)
        catalog = await Catalog.open(log)
        opened.push_async_callback(catalog.close)
        await register_node(catalog, RegisterNode(name, f"{name}:7070", f"identity of {name}"))
        node = await ServingNode.open(
            log,
            catalog,
            self.machine.folder / name,
            node_id=name,
            identity=f"identity of {name}",
            snapshots=self._snapshots,
            retention_round_s=self._retention_round_s,
            clock=self.machine.clock,
            workers=self.machine.workers,
        )
        opened.push_async_callback(node.close)
        plane = LocalData(log, catalog, node.hosting, resources=AsyncExitStack())
        opened.push_async_callback(plane.close)
        memberships = membership_on_demand(node.follower, clock=self.machine.clock)
        opened.push_async_callback(memberships.close)
        admin = admin_on_demand(catalog, log, memberships)
        opened.push_async_callback(admin.close)
        server: Any = process.new_server()
        opened.push_async_callback(add_node_services(server, plane, node, admin, role="node", log_url=LOG_URL))
        if self._has_endpoints:
            others = others_on_demand(plane, memberships)
            opened.push_async_callback(others.close)
            near = await nearest(plane, others)()
            await self._open_endpoint(process, opened, near, node.follower, await memberships(), plane.node)
        node.ended.add_done_callback(partial(self._node_ended, process))
        self.nodes[name] = node, plane
        self.catalogs[name] = catalog
        server.listen()

    def _node_ended(self, process: SimulatedProcess, ended: asyncio.Future[DuramenError]) -> None:
        if not ended.cancelled():
            self.story.tell(process.name, f"ends by itself: {ended.result().message}")
            self.story.met["a node ended by itself"] += 1
            process.end(politely=True)

    async def _router_life(self, process: SimulatedProcess, opened: AsyncExitStack) -> None:
        log = await open_log(LOG_URL)
        opened.push_async_callback(log.close)
        catalog = await Catalog.open(log)
        opened.push_async_callback(catalog.close)
        follower = MapFollower(catalog)
        membership = await LiveMembership.open(follower, clock=self.machine.clock)
        opened.push_async_callback(membership.close)
        connection = RoutedConnection.for_router(log, catalog, membership)
        opened.push_async_callback(connection.close)
        server = process.new_server()
        keyvalue_pb2_grpc.add_KeyValueServicer_to_server(KeyValueService(connection, server.streams), server.registry)  # type: ignore[no-untyped-call]
        tables_pb2_grpc.add_TablesServicer_to_server(TablesService(connection), server.registry)  # type: ignore[no-untyped-call]
        maps = ClusterService(catalog, server.streams, role="router", log_url=LOG_URL)
        cluster_pb2_grpc.add_ClusterServicer_to_server(maps, server.registry)  # type: ignore[no-untyped-call]
        if self._has_endpoints:
            await self._open_endpoint(process, opened, connection, follower, membership, None)
        self.catalogs[process.name] = catalog
        server.listen()

    # --- the Redis protocol

    async def _open_endpoint(
        self,
        process: SimulatedProcess,
        opened: AsyncExitStack,
        connection: Connection,
        follower: MapFollower,
        membership: LiveMembership,
        node: Node | None,
    ) -> None:
        endpoint = await RespServer.open(
            connection,
            follower,
            RespSettings(table_partitions=self.plan.partitions),
            RespSockets(),
            node=node,
            node_id=process.name,
            membership=membership,
            clock=SlowTurnClock(self.loop.time, random.Random(f"turns {process.name} {self.plan.seed}")),
        )
        opened.push_async_callback(endpoint.close)
        self.endpoints[process.name] = endpoint

    async def connected(self, chance: random.Random, at: str = "") -> WireClient:
        """A client of the Redis protocol: at any endpoint, or at that of one process."""
        while True:
            name = at or chance.choice([*NODES, "router"])
            try:
                connection = await self.network.connect("clients", name)
            except Connecting:
                await asyncio.sleep(0.05)
                continue
            if name in self.endpoints:
                context, client = self.processes[name].context, Client(self.endpoints[name])
                return context.copy().run(WireClient.connect, self.loop, chance, client, connection)
            connection.reset("Connection refused")
            await asyncio.sleep(0.05)

    def stop(self) -> None:
        """An endpoint has said that the log takes no writes: its operator looks at the log's disk."""
