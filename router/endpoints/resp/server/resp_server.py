"""The endpoint itself: what it listens on, who is in, and the parts that all connections share."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final

from log_tier.access.authenticator import Authenticator
from log_tier.access.gate import Gate
from log_tier.access.quotas.quota_keeper import QuotaKeeper
from log_tier.audit.audit_trail import AuditTrail
from log_tier.catalog.catalog import Maps
from log_tier.catalog.cluster_map import ClusterMap
from log_tier.catalog.map_follower import Leave, MapFollower
from log_tier.concurrency.clocks import SYSTEM_CLOCK, Clock
from log_tier.concurrency.descriptors import descriptor_shares
from log_tier.concurrency.tasks import TaskSet, every_step
from log_tier.model.identifiers import Partition
from log_tier.model.partitioner import slot_of
from log_tier.slow_calls.slow_call_log import SlowCallLog
from router.admin.admin import OpenAdmin
from router.data.seam import Connection
from router.endpoints.resp.bounds.connections_memory import ConnectionsMemory
from router.endpoints.resp.bounds.tls_handshakes import TlsHandshakes
from router.endpoints.resp.command_spec import CommandSpec
from router.endpoints.resp.commands.command_table import COMMANDS
from router.endpoints.resp.connection.client import Client
from router.endpoints.resp.connection.connection_context import AdmittedClient
from router.endpoints.resp.connection.lingering_close import LingeringClose
from router.endpoints.resp.context import CommandContext, NodeAddress
from router.endpoints.resp.data.cursors import Cursors
from router.endpoints.resp.data.freshness_page import FreshnessPages
from router.endpoints.resp.data.native_batches import NativeBatches
from router.endpoints.resp.data.notifications import Notifications
from router.endpoints.resp.data.reads import Reads
from router.endpoints.resp.data.rounds.command_rounds import CommandRounds
from router.endpoints.resp.data.served_tables import ServedTable, ServedTables
from router.endpoints.resp.data.shared_writer import SharedWriter
from router.endpoints.resp.data.value_cache import CacheBudget
from router.endpoints.resp.readers.reader_state import UPSTREAM_SOCKET, ReaderTask
from router.endpoints.resp.server.peers import Peers
from router.endpoints.resp.server.sockets import RespSettings, RespSockets, tls_context
from router.endpoints.resp.wire.limits import CONNECTIONS_MAX, LISTEN_BACKLOG
from router.endpoints.resp.wire.replies import Problem
from router.endpoints.turns.shared_turns import SharedTurns
from router.membership.live_membership import LiveMembership
from serving_tier.node.node import Node

__all__ = ["RespServer"]

logger = logging.getLogger(__name__)

# What one machine needs: commands on any keys may then go into one transaction, as with one Redis server, and each
# round of writes is one transaction of one index.
_PARTITIONS_ALONE: Final = 1

# Commands that are under way when the endpoint closes get so long; what they wrote is written.
_CLOSE_PATIENCE_S: Final = 1.0
# What a cluster needs: up to eight nodes share the reads.
_PARTITIONS_CLUSTER: Final = 8

# Connections that listen or wait, when users or grants change: some 5 µs each.
_RECHECKED_AT_ONCE: Final = 200
# Each of their commands that waits for a round is judged: 1 µs.
_JUDGED_AS_ONE: Final = 5


class RespServer:
    """An open endpoint. `open()` makes one, `close()` ends it; the connection to the data is its owner's."""

    def __init__(
        self,
        connection: Connection,
        maps: Maps,
        settings: RespSettings,
        sockets: RespSockets,
        *,
        node: Node | None,
        node_id: str,
        membership: LiveMembership | None,
        peers: Peers | None,
        admin: OpenAdmin | None,
        gate: Gate,
        authenticator: Authenticator,
        audit: AuditTrail | None,
        quotas: QuotaKeeper,
        slow: SlowCallLog,
        turns: SharedTurns | None,
        clock: Clock,
    ) -> None:
        self.gate, self.authenticator, self.audit, self.quotas = gate, authenticator, audit, quotas
        self.slow = slow
        self.trust_changes = 0
        """How often users, roles or grants have changed since it was opened."""
        self._ignore_trust = self.gate.on_change(self._trust_changed)
        self.connection, self.maps, self.membership = connection, maps, membership
        self.node, self.node_id = node, node_id
        self.peers, self.admin = peers, admin
        self.secret = settings.password.encode()
        self.clock = clock
        self.loop = asyncio.get_running_loop()
        self.opened_s = self.loop.time()
        self.turns = turns or SharedTurns(self.loop, clock.monotonic_s)
        self.run_id = secrets.token_hex(20)
        self.port, self.socket_path = sockets.port, str(settings.socket_path or "")
        self.clients: dict[int, AdmittedClient] = {}
        """By id."""
        self.memory = ConnectionsMemory(settings.clients_mebibytes << 20, self.clients.values, clock.monotonic_s)
        self.handshakes: TlsHandshakes | None = None  # None: it has no TLS
        self.lingering: set[LingeringClose] = set()
        """Connections that got their last reply."""
        self.stall_s, self._handshake_s = settings.stall_s, settings.handshake_s
        self.closing = False
        self.connections_taken = self.connections_refused = self.connections_dropped = 0
        self._connections_share = descriptor_shares().resp_connections
        self.commands_done = 0
        """By connections that are gone."""
        self.pages = FreshnessPages(settings.readers) if settings.readers else None
        """For reader processes, where there are some; see `readers` why there is no cache then."""
        self.cache_budget = CacheBudget(0 if self.pages is not None else settings.cache_mebibytes << 20)
        self.tables = ServedTables(
            *(connection, node, lambda: settings.table_partitions or self._partitions()),
            *(self.cache_budget, self.pages),
            known=lambda: maps.map.tables,
        )
        self.reads = Reads(connection, clock.wall_ms)
        self.writer = SharedWriter(connection)
        self.batches = NativeBatches(connection)
        self.changes = CommandRounds(self.reads, self.writer, clock)
        self.commands: Mapping[str, CommandSpec] = COMMANDS
        self.cursors = Cursors()
        self.notifications = Notifications(connection, maps, self.tables)
        self._ids = 0
        self._tasks = TaskSet()
        self._touched: list[AdmittedClient] = []
        self._servers: list[asyncio.Server] = []
        self._leave: Leave | None = None
        """Ends the registration with the follower of the map."""
        self._sockets = sockets

    @classmethod
    async def open(
        cls,
        connection: Connection,
        follower: MapFollower,
        settings: RespSettings,
        sockets: RespSockets,
        *,
        node: Node | None = None,
        node_id: str = "n1",
        membership: LiveMembership | None = None,
        peers: Peers | None = None,
        admin: OpenAdmin | None = None,
        gate: Gate | None = None,
        authenticator: Authenticator | None = None,
        audit: AuditTrail | None = None,
        quotas: QuotaKeeper | None = None,
        slow: SlowCallLog | None = None,
        turns: SharedTurns | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> RespServer:
        """Let clients in. `sockets`: the bound sockets for `settings`; the endpoint closes them.

        `follower`: of this process's cluster map. `node`: the replicas in this process, which are read directly.
        `membership`: what WAIT asks. `peers`: with them it is a node of a cluster, which names the other nodes to its
        clients. `admin`: what FLUSHDB needs. `gate`: decides who may do what, and `authenticator` who calls, by
        the same users; without them everybody may do everything. `audit`: takes what users do, once there are some.
        `quotas`, `slow`, `turns`: what it shares with gRPC; without `slow` no command is slow.
        """
        gate = gate or Gate()
        server = cls(
            connection,
            follower.maps,
            settings,
            sockets,
            node=node,
            node_id=node_id,
            membership=membership,
            peers=peers,
            admin=admin,
            gate=gate,
            authenticator=authenticator or Authenticator(gate),
            audit=audit,
            quotas=quotas or QuotaKeeper(gate, clock),
            slow=slow or SlowCallLog(0),
            turns=turns,
            clock=clock,
        )
        try:
            await server._listen(settings, follower)
        except BaseException:
            await server.close()  # what listens already must not take connections that nobody serves
            raise
        return server

    async def _listen(self, settings: RespSettings, follower: MapFollower) -> None:
        client, sockets = partial(Client, self), self._sockets
        if sockets.tcp is not None:
            context = tls_context(settings)
            if context is None:
                made = await self.loop.create_server(client, sock=sockets.tcp, backlog=LISTEN_BACKLOG)
                self._servers.append(made)
            else:
                self.handshakes = TlsHandshakes(sockets.tcp, context, client, handshake_s=settings.handshake_s)
                self.handshakes.start()
        upstream = partial(Client, self, upstream=True)
        if self.pages is not None:
            path = str(self.pages.folder / UPSTREAM_SOCKET)
            self._servers.append(await self.loop.create_unix_server(upstream, path=path, backlog=LISTEN_BACKLOG))
        for unix in sockets.unix:
            self._servers.append(await self.loop.create_unix_server(client, sock=unix, backlog=LISTEN_BACKLOG))
        self._leave = await follower.follow(self._map_changed, name="RESP: tables that come and go")

    def reader_tasks(self) -> list[ReaderTask]:
        """What each reader process is for; none where there are none."""
        if self.pages is None:
            return []
        readers = len(self._sockets.shared)
        # Each has its part: connections are spread over them by the kernel.
        clients_bytes = self.memory.bytes_max // max(1, readers)
        return [
            ReaderTask(self.pages.folder, number, readers, self.stall_s, clients_bytes, self._handshake_s)
            for number in range(readers)
        ]

    def reader_died(self) -> None:
        """A reader process ended by itself: give back the pages of indexes that it may have held."""
        self._tasks.start(self.tables.forget_dead_readers())

    def _partitions(self) -> int:
        return _PARTITIONS_CLUSTER if len(self.maps.map.nodes) > 1 else _PARTITIONS_ALONE

    # --- connections

    def next_id(self) -> int:
        """For a connection; never given twice."""
        self._ids += 1
        return self._ids

    @property
    def connections_max(self) -> int:
        """How many connections it takes: their share of the process' open files, and not more than Redis does."""
        return min(CONNECTIONS_MAX, self._connections_share)

    def admit(self, client: AdmittedClient) -> bool:
        """Accept a new connection, or refuse it over the limit."""
        self.connections_taken += 1
        if len(self.clients) >= self.connections_max:
            self.connections_refused += 1
            return False
        self.clients[client.id] = client
        self.memory.joined()
        client.select(client.table_name, self.tables.at_hand(client.table_name), client.number)
        return True

    def leave(self, client: AdmittedClient) -> None:
        """A connection is gone."""
        if self.clients.pop(client.id, None) is not None:
            self.commands_done += client.commands
            self.notifications.forget(client)

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a command that takes a while. It is carried through, also if its connection ends meanwhile."""
        return self._tasks.start(work)

    def touch(self, client: AdmittedClient) -> None:
        """One of its slots was filled: it is looked at when all of this round are."""
        if not client.touched:
            client.touched = True
            if not self._touched:
                self.loop.call_soon(self._answer)
            self._touched.append(client)

    def _answer(self) -> None:
        touched, self._touched = self._touched, []
        for client in touched:
            client.touched = False
            client.answered()

    # --- users

    @property
    def is_guarded(self) -> bool:
        """Does the catalog hold a user? Then connections may do what their callers may."""
        return self.gate.trust.is_closed

    def _trust_changed(self) -> None:
        """Called in the turn in which users, roles or grants change. O(connections)."""
        self.trust_changes += 1
        if self.pages is not None:
            self.pages.trust.raise_to(self.trust_changes)
        if self.is_guarded:
            going_on = [client for client in self.clients.values() if client.trust_changed()]
            if going_on:
                self.start(_recheck(going_on))

    # --- nodes

    def _map_changed(self, newest: ClusterMap) -> None:
        if newest.dropped != self.tables.dropped:
            self.tables.map_changed(newest)
        self.notifications.map_changed(newest)

    @property
    def clustered(self) -> bool:
        """Are there other nodes that clients could go to?"""
        return self.peers is not None

    @property
    def epoch(self) -> int:
        """The map's version: it rises with every change of the cluster."""
        return max(0, self.maps.map.version)

    async def addresses(self, here: NodeAddress) -> dict[str, NodeAddress]:
        """Where the nodes' endpoints are, this one's included."""
        known = {} if self.peers is None else await self.peers.addresses()
        return {**known, here.node: here}

    def holders(self, table: ServedTable, partition: Partition) -> Sequence[str]:
        """The nodes whose replica may be read and that are there, the first of them first."""
        entry = self.maps.map.tables.get(table.ref.id)
        return () if entry is None else [node for node in entry.readable(partition) if self._is_there(node)]

    def _is_there(self, node: str) -> bool:
        member = self.membership.members.get(node) if self.membership is not None else None
        return node == self.node_id or (member is not None and member.alive)

    def own_partitions(self, table: ServedTable) -> list[Partition]:
        """What a walk over all keys covers: everything; at a node of a cluster, what this node is the first of.

        A cluster-aware client asks every master, and puts the answers together; the server cannot know on which of the
        client's connections it learned who they are.
        """
        every = [Partition(number) for number in range(table.partitions)]
        if not self.clustered or self.node_id not in self.maps.map.nodes:
            return every
        return [each for each in every if next(iter(self.holders(table, each)), "") == self.node_id]

    def redirection(self, client: CommandContext, table: ServedTable, keys: Sequence[bytes]) -> Problem | None:
        """Where the client should rather ask, if it knows what that means and this node does not hold the keys."""
        if self.peers is None or not client.cluster_aware or not keys or table.ref.partitioner != "slot":
            return None
        partition = table.partition_of(keys[0])
        if table.replicas[partition] is not None:
            return None
        known = self.peers.known()
        for node in self.holders(table, partition):
            place = known.get(node)
            if place is not None and node != self.node_id:
                return Problem(f"MOVED {slot_of(keys[0])} {place.host}:{place.port}")
        return None

    def check_redirection(self, client: CommandContext, table: ServedTable, keys: Sequence[bytes]) -> None:
        """Raises the `MOVED` that `redirection` gives."""
        problem = self.redirection(client, table, keys)
        if problem is not None:
            raise problem

    async def close(self) -> None:
        """Take no new connections, answer the writes that are under way, end every connection. Idempotent."""
        self.closing = True
        self._ignore_trust()
        for server in self._servers:
            server.close()
        if self.handshakes is not None:
            self.handshakes.close()
        for closing in list(self.lingering):
            closing.close()
        parts = (self.memory, self.notifications, self.changes, self.writer, self.batches)
        leave = () if self._leave is None else (self._leave,)
        tasks = partial(self._tasks.close, patience_s=_CLOSE_PATIENCE_S)
        await every_step(*leave, *(each.close for each in parts), tasks, self._let_go, self._tasks.close)

    def _let_go(self) -> None:
        """Nothing is under way any more: end the connections, and free what they shared."""
        self._answer()
        for client in list(self.clients.values()):
            client.close("the server stops")
        self.tables.close()
        if self.pages is not None:
            self.pages.close()
        self._sockets.close()


async def _recheck(clients: Sequence[AdmittedClient]) -> None:
    """End what these connections may not go on with, some of them in a turn of the event loop."""
    left = _RECHECKED_AT_ONCE
    for client in clients:
        if left <= 0:
            await asyncio.sleep(0)
            left = _RECHECKED_AT_ONCE
        left -= 1 + client.unanswered // _JUDGED_AS_ONE
        client.recheck()
