"""A cluster on one thread: a log server, three nodes, a router and clients, each process on its end of one network."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager, suppress
from functools import partial
from typing import Any, Final

from duramen.server.roles.guarding import Access, write_audit
from duramen.server.roles.kv import OpenConnection, here
from duramen.server.wiring.serving_node import ON_DEMAND, ServingNode, SnapshotPolicy
from duramen.testing.cluster.lives import open_log_server, open_node, open_router
from duramen.testing.machine.node_disk.failing_calls import FailingCalls
from duramen.testing.machine.node_disk.node_fault import FILL_INDEX, NodeFault
from duramen.testing.machine.resp_words import RawError
from duramen.testing.machine.simulated_clock import SimulatedClock, SlowTurnClock
from duramen.testing.machine.simulated_loop import SimulatedLoop
from duramen.testing.machine.simulated_network import CallAnswer, Connecting, Network
from duramen.testing.machine.simulated_process import Life, SimulatedProcess
from duramen.testing.machine.simulated_wire import WireClient, WireCut
from duramen.testing.running.seeded import seeded
from duramen.verification.history import BuiltPart
from log_tier.catalog.catalog import Catalog
from log_tier.catalog.map_follower import MapFollower
from log_tier.model.errors import DuramenError
from log_tier.trust.quotas import Quota
from router.data.gather.acknowledged import Acknowledged
from router.data.local_data import LocalData
from router.data.seam import Connection
from router.endpoints.resp.connection.client import Client
from router.endpoints.resp.server.resp_server import RespServer
from router.endpoints.resp.server.sockets import RespSettings, RespSockets
from router.membership.live_membership import LiveMembership
from serving_tier.disk import NODE_DISK
from serving_tier.jobs.log_trimmer import ROUND_S
from serving_tier.node.node import Node
from simulation.access_ledger import AUDITED_KEYS, AUDITED_TABLES, AccessLedger
from simulation.asked_snapshots import AskedSnapshots
from simulation.book import Broken
from simulation.history_ledger import HistoryLedger, has_history
from simulation.index_crashes import copy_indexes, put_indexes_back
from simulation.kept_log import KeepingLog, KeptRecords
from simulation.patch_ledger import PatchLedger
from simulation.place_ledger import PlaceLedger
from simulation.plan import Plan
from simulation.planned_machine import cannot_start, machine_of, undamaged_log
from simulation.quota_ledger import QuotaLedger
from simulation.refusal_ledger import RefusalLedger
from simulation.row_ledger import RowLedger, has_rows

__all__ = ["LOG_URL", "NODES", "ROOT", "ClusterWorld", "Part"]

NODES: Final = ("n1", "n2", "n3")
LOG_URL: Final = "grpc://log:7070"
ROOT: Final = "root"
"""The user who may do everything, where there are users."""
_END_S: Final = 900.0
_POWER_CHANCE: Final = 0.5
"""Of the ends of a node at a call of its disk, so many are losses of power."""

Part = Callable[["ClusterWorld"], Coroutine[Any, Any, None]]


class ClusterWorld:
    """One run of a plan; `run` raises `Broken`."""

    def __init__(
        self, plan: Plan, loop: SimulatedLoop, traffic: Part, operator: Part, *, has_endpoints: bool = False
    ) -> None:
        """`traffic`: the clients, and the check of what they saw; a run ends with it. `operator`: works meanwhile.

        `has_endpoints`: of the Redis protocol, at the nodes and the router; tables of rows have some in any case.
        """
        self.plan, self.loop = plan, loop
        self.has_endpoints = has_endpoints
        self._opens_endpoints = has_endpoints or has_rows(plan)
        self.endpoints: dict[str, RespServer] = {}
        """Of the processes that live."""
        self._traffic, self._operator = traffic, operator
        self.machine = machine_of(plan, loop, "cluster", self._log_died)
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
        self.crashes = random.Random(f"crashes {plan.seed}")
        self.powerless: set[str] = set()
        """Nodes whose machine has lost its power, and is not up again."""
        self.builds: dict[str, list[BuiltPart]] = {}
        """By URL: what was built, by partition."""
        self.snapshot_builds: set[str] = set()
        """Those that were built of snapshots."""
        self.under_way: Counter[str] = Counter()
        """What is done now that has no task of its own."""
        self.begun = asyncio.Event()
        """Something of the kind has begun."""
        self.disk_met: Callable[[ClusterWorld, str], None] = lambda world, fault: None
        """Called with each fault that a node's disk meets."""
        self.sessions: list[Acknowledged] = []
        """What the clients of the Python API were acknowledged."""
        self.asked_snapshots = AskedSnapshots()
        self.drops: set[str] = set()
        """Tables of which a drop was begun and not answered."""
        users = "users of endpoints" if has_endpoints else "users"
        self.has_users, self.has_quotas = plan.has_users(users), plan.has_quotas(users)
        self.has_places = plan.has_places(users)
        self.has_passwords = plan.has_passwords(users)
        self.has_audit = plan.has_audit(users)
        self._audited = AUDITED_KEYS if has_endpoints else AUDITED_TABLES
        self.refusals, self.accesses = RefusalLedger(), AccessLedger()
        """What servers have refused and let in, where their audit is written."""
        if self.has_audit:
            self.network.on_answer = self._note_answer
        self.has_history = has_history(plan) and not has_endpoints
        self.histories, self.rows, self.patches = HistoryLedger(), RowLedger(), PatchLedger()
        """Of the servers, where they keep one; of tables of rows, where there are some."""
        self.life_opened: Callable[..., None] = lambda *life: None
        """Called with each life of a node or router that begins: this world, what ends it, its role, name and log, and
        its way to the data."""
        self.tokens: dict[str, str] = {}
        """Of the users, by name."""
        self.has_table_quotas = plan.has_table_quotas(users)
        ledger = partial(QuotaLedger, loop.time, self._life_of, self._quotas_at, self.end_with, self.story.met)
        self.ledger = ledger(table="metered")
        """Of the calls of users with quotas."""
        self.table_ledgers = {name: ledger(table=name, is_shared=True) for name in ("rated", "unrated")}
        """Of the calls on tables, of which the first has a quota now and then."""
        self.places = PlaceLedger(loop.time, self._life_of, self._quotas_at, self.story.met)
        """Of users whose watches or connections are bounded."""
        self.log: KeepingLog | None = None
        """The log of the server's last life."""
        self._snapshots, self._retention_round_s = ON_DEMAND, ROUND_S
        if plan.trims is not None:
            # A log is only as safe to trim as its snapshots are: all nodes share a store.
            url = (self.machine.folder / "snapshots").as_uri()
            self._snapshots = SnapshotPolicy(url, plan.trims.snapshot_every_s)
            self._retention_round_s = plan.trims.round_s
        self.processes = {
            name: SimulatedProcess(
                name, self.machine, self.network, broke=self.broke, cannot_start=cannot_start, buried=self._buried
            )
            for name in ("log", *NODES, "router", "clients")
        }
        self.node_disks = {name: self._node_disk(name) for name in NODES}

    def _node_disk(self, name: str) -> FailingCalls:
        def met(fault: NodeFault) -> None:
            self.disk_met(self, f"node disk {fault.kind}")
            if fault.kind == "end":
                self._end_at_a_call(name, fault)

        disk = FailingCalls(name, self.machine.folder / name, self.story, self.loop.time, met)
        self.processes[name].context.run(NODE_DISK.set, disk)
        return disk

    def _end_at_a_call(self, name: str, fault: NodeFault) -> None:
        """A node ends in the middle of what it does with its files."""
        copy_indexes(self.machine.folder / name)
        # An index without its content is only believed where the power stayed.
        if fault.call != FILL_INDEX and self.crashes.random() < _POWER_CHANCE:
            self.powerless.add(name)
        self.network.die(name)
        self.processes[name].end(politely=False)

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """Something without a task of its own is done: a fault now meets it, and one that waits for a task happens."""
        self.under_way[what] += 1
        self.begun.set()
        try:
            yield
        finally:
            self.under_way[what] -= 1

    def clock_of(self, name: str) -> SimulatedClock:
        """The clock of a process."""
        return self.machine.clock if name == "log" else self.machine.clock_of(name)

    def broke(self, what: str, error: Exception) -> None:
        """A handler ended with an error that is none of ours."""
        self.end_with(Broken("typed", f"{what} ended with {error!r}"))

    def end_with(self, broken: Broken) -> None:
        """Something does not hold: the run ends with it."""
        if not self.broken.done():
            self.broken.set_exception(broken)

    def _note_answer(self, answer: CallAnswer) -> None:
        self.refusals.answered(answer)
        self.accesses.answered(answer)

    def _life_of(self, name: str) -> int:
        return self.processes[name].lives

    def _quotas_at(self, name: str) -> Mapping[str, Quota] | None:
        catalog = self.catalogs.get(name)
        return None if catalog is None else catalog.map.trust.quotas

    def _log_died(self) -> None:
        self.processes["log"].end(politely=False)

    async def run(self) -> None:
        """The workload under the plan's faults and incidents, then the checker."""
        lives: dict[str, Life] = {"log": self._log_life, "router": self._router_life}
        lives |= dict.fromkeys(NODES, self._node_life)
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
        if process.name in NODES:
            self._bury_indexes(process.name)
            self.node_disks[process.name].restart()

    def _copy_if_killed(self, name: str) -> None:
        if name in self.network.dead and not self.node_disks[name].is_dead:
            copy_indexes(self.machine.folder / name)

    def _bury_indexes(self, name: str) -> None:
        folder = self.machine.folder / name
        power = self.crashes if name in self.powerless else None
        self.powerless.discard(name)
        if not self.keeps.pop(name, True):
            shutil.rmtree(folder / "index", ignore_errors=True)
            shutil.rmtree(folder / "crashed", ignore_errors=True)
            self.story.tell(name, "the indexes are gone")
            return
        if put_indexes_back(folder, power):
            self.story.tell(name, "loses its power: indexes that were in use lack entries")
            self.story.met["incident power of a node"] += 1

    async def _log_life(self, process: SimulatedProcess, opened: AsyncExitStack) -> None:
        log = await undamaged_log(self.machine)
        opened.push_async_callback(log.close)
        self.log = KeepingLog(log, self.kept, self.doing)
        open_log_server(process, self.log).listen()

    async def _node_life(self, process: SimulatedProcess, opened: AsyncExitStack) -> None:
        server, node, plane, catalog, memberships, access, near = await open_node(
            process,
            opened,
            self.machine,
            log_url=LOG_URL,
            snapshots=self._snapshots,
            retention_round_s=self._retention_round_s,
            servers=self._servers(),
            audit=self._audited,
        )
        if self.has_endpoints or self.has_audit or self.has_history:
            self._write_audit(opened, access, near, process.name)
            self.life_opened(self, opened, "node", process.name, plane.log, near)
        if self._opens_endpoints:
            await self._open_endpoint(
                process, opened, await near(), node.follower, await memberships(), plane.node, access
            )
        opened.callback(self._copy_if_killed, process.name)
        node.ended.add_done_callback(partial(self._node_ended, process))
        self.nodes[process.name] = node, plane
        self.catalogs[process.name] = catalog
        server.listen()

    def _node_ended(self, process: SimulatedProcess, ended: asyncio.Future[DuramenError]) -> None:
        if not ended.cancelled():
            self.story.tell(process.name, f"ends by itself: {ended.result().message}")
            self.story.met["a node ended by itself"] += 1
            process.end(politely=True)

    async def _router_life(self, process: SimulatedProcess, opened: AsyncExitStack) -> None:
        clock = self.machine.clock_of(process.name)
        router = await open_router(
            process, opened, clock, log_url=LOG_URL, servers=self._servers(), audit=self._audited
        )
        self._write_audit(opened, router.access, here(router.connection), process.name)
        self.life_opened(self, opened, "router", process.name, router.log, here(router.connection))
        if self._opens_endpoints:
            await self._open_endpoint(
                process, opened, router.connection, router.follower, router.membership, None, router.access
            )
        self.catalogs[process.name] = router.catalog
        router.server.listen()

    def _write_audit(self, opened: AsyncExitStack, access: Access | None, connect: OpenConnection, name: str) -> None:
        if self.has_audit and access is not None:
            write_audit(opened, access, connect, server=name, failed=partial(self.broke, f"the audit of {name}"))

    def _servers(self) -> tuple[str, ...]:
        """The processes that users are kept apart from, where there are users."""
        return ("log", *NODES, "router") if self.has_users else ()

    # --- the Redis protocol

    async def _open_endpoint(
        self,
        process: SimulatedProcess,
        opened: AsyncExitStack,
        connection: Connection,
        follower: MapFollower,
        membership: LiveMembership,
        node: Node | None,
        access: Access | None,
    ) -> None:
        endpoint = await RespServer.open(
            connection,
            follower,
            RespSettings(table_partitions=self.plan.partitions),
            RespSockets(),
            node=node,
            node_id=process.name,
            membership=membership,
            gate=access and access.gate,
            authenticator=access and access.authenticator,
            quotas=access and access.quotas,
            turns=access and access.turns,
            audit=access.audit if access is not None and self.has_audit else None,
            clock=SlowTurnClock(self.loop.time, random.Random(f"turns {process.name} {self.plan.seed}")),
        )
        opened.push_async_callback(endpoint.close)
        self.endpoints[process.name] = endpoint

    async def connected(self, chance: random.Random, at: str = "", user: str = ROOT) -> WireClient:
        """A client of the Redis protocol: at any endpoint, or at that of one process. Where there are users, it has
        proved to be one.

        Raises `Broken` where its token is refused.
        """
        while True:
            client = await self.wired(chance, at)
            if not self.has_users:
                return client
            with suppress(WireCut):
                (reply,) = await client.call([auth_of(chance, user, self.tokens[user])])
                if isinstance(reply, RawError):
                    raise Broken("granted", f"{at or 'an endpoint'} refuses the token of {user}: {reply.text}")
                return client
            await asyncio.sleep(0.05)

    async def wired(self, chance: random.Random, at: str) -> WireClient:
        """`connected`, for one who has not proved anything."""
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


def auth_of(chance: random.Random, user: str, token: str) -> tuple[bytes, ...]:
    """One of the commands by which a client of the Redis protocol proves who it is."""
    name, secret = user.encode(), token.encode()
    words = ((b"AUTH", name, secret), (b"HELLO", b"2", b"AUTH", name, secret), (b"AUTH", secret))
    return chance.choice(words)
