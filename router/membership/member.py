"""One node of the membership: its status stream, the connection to it, and when it counts as lost."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar, cast

from log_tier.catalog.cluster_map import NodeEntry
from log_tier.concurrency.background import run_forever
from log_tier.concurrency.backoff import Backoff
from log_tier.concurrency.clocks import SYSTEM_CLOCK, Clock
from log_tier.concurrency.tasks import TaskSet, end_tasks, every_step
from log_tier.model.errors import DatabaseClosed, Disconnected, DuramenError
from log_tier.proto import cluster_pb2, cluster_pb2_grpc
from log_tier.rpc.problems import without_advice
from log_tier.rpc.wire import Wire
from router.data.seam import DataPlane
from router.membership.status_views import renewed
from router.membership.views import NodeView
from router.remote.grpc_connection import GrpcConnection
from serving_tier.proto import node_pb2, node_pb2_grpc

__all__ = ["Member"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Heartbeats come every 250 ms. A node that has missed one is not lost, but requests prefer its equals: a paused process
# would otherwise get its share of the requests until it counts as lost.
_QUIET_S: Final = 0.4
_QUIET_LOAD: Final = 1_000_000

# A node that restarts is found again within a second; one that stays away costs one attempt a second.
_PAUSE_FIRST_S: Final = 0.05
_PAUSE_MAX_S: Final = 1.0


class Member:
    """A registered node. `start` makes it follow the node's status, `close` ends that. Belongs to one event loop.

    `changed` is called after every change of `view`.
    """

    def __init__(
        self, entry: NodeEntry, changed: Callable[[], None], clock: Clock = SYSTEM_CLOCK, *, address: str | None = None
    ) -> None:
        """`address`: where it is called, if not at the one for clients."""
        self.entry = entry
        self.address = entry.address if address is None else address
        """Where this process calls it."""
        self.view = NodeView(entry.id, entry.address, reason="it was not heard of yet")
        self.under_way = 0
        """Requests of this process that it has not answered."""
        self.heard_s = 0.0
        """When it last said something, on the event loop's clock."""
        self.known = False
        """The node has reported once, or could not be reached."""
        self._changed = changed
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        # A user's task may notice a loss and make the next connection, which must be secured as the first one is.
        self._context = copy_context()
        self._connection = self._connect()
        self._refused = False
        """A call over it was refused because it could not connect: until it tries again, in up to a second, it refuses
        all others."""
        self._asking: Counter[GrpcConnection] = Counter()
        """The questions under way over each connection."""
        self._wire = Wire(self.address)
        self._follower: asyncio.Task[None] | None = None
        self._closing = TaskSet()
        self._retired = False

    def _connect(self) -> GrpcConnection:
        return self._context.run(GrpcConnection, self.address)

    @property
    def id(self) -> str:
        """The node's id."""
        return self.entry.id

    @property
    def alive(self) -> bool:
        """Its status stream is there, and not silent."""
        return self.view.alive

    @property
    def load(self) -> int:
        """What it said that it works on, and what we have asked since, give or take; much, where it is quiet."""
        quiet = self._loop.time() - self.heard_s > _QUIET_S
        return self.view.load + self.under_way + (_QUIET_LOAD if quiet else 0)

    def start(self) -> None:
        """Begin to follow."""
        self._follower = run_forever(
            self._follow(), name=f"status of node {self.id}", failed=lambda error: self.lose(error.message)
        )

    # --- status

    async def _follow(self) -> None:
        backoff = Backoff(_PAUSE_FIRST_S, _PAUSE_MAX_S)
        while True:
            reason = "it ended its status stream"
            first = True
            wire = self._wire
            try:
                stub = node_pb2_grpc.NodeStub(wire.channel)  # type: ignore[no-untyped-call]
                async with aclosing(cast("Any", wire.stream(stub.Status, node_pb2.StatusRequest()))) as messages:
                    async for message in messages:
                        if message.node != self.id or message.identity not in ("", self.entry.identity):
                            reason = f"node {message.node} answers at its address {self.address}"
                            break
                        backoff.heard()
                        self._heard(message, first=first)
                        first = False
            except DuramenError as error:
                reason = without_advice(error.message)
            if wire is self._wire:  # else its loss was noticed before, by its silence
                self.lose(reason)
            await backoff.pause()

    def _heard(self, message: node_pb2.NodeStatus, *, first: bool) -> None:
        if not self.view.alive:
            logger.info("node %s at %s is there", self.id, self.address, extra={"node": self.id})
            if self._refused:
                self._connect_again()
        self.heard_s = self._loop.time()
        self.view = renewed(self.view, message, first=first, clock_ms=self._clock.wall_ms())
        self.known = True
        self._changed()

    def lose(self, reason: str) -> None:
        """Count the node as lost: calls under way to it end with `Disconnected`, and a new status stream is opened."""
        if self.view.alive:
            logger.info("node %s at %s is lost: %s", self.id, self.address, reason, extra={"node": self.id})
        self.view = replace(self.view, alive=False, reason=reason)
        self.known = True
        self._closing.start(self._wire.close(), name=f"close the status stream of node {self.id}")
        for connection in dict.fromkeys((self._connection, *self._asking)):
            self._closing.start(connection.close(), name=f"close a connection to node {self.id}")
        self._wire = self._context.run(Wire, self.address)
        self._connection, self._refused = self._connect(), False
        self._changed()

    def _connect_again(self) -> None:
        """Ask over a new connection from now on. The questions under way end over the one before."""
        before = self._connection
        self._connection, self._refused = self._connect(), False
        self._close_idle(before)

    def _close_idle(self, connection: GrpcConnection) -> None:
        """Close a connection that is not the present one, after its last question."""
        if connection is not self._connection and not self._asking[connection]:
            self._closing.start(connection.close(), name=f"close a connection to node {self.id}")

    # --- asking

    async def ask(self, question: Callable[[DataPlane], Awaitable[T]]) -> T:
        """Ask over the present connection. Raises `Disconnected` also as soon as the node is lost."""
        connection = self._connection
        self.under_way += 1
        try:
            with self._asked(connection):
                return await question(connection)
        finally:
            self.under_way -= 1

    async def follow(self, question: Callable[[DataPlane], AsyncGenerator[T, None]]) -> AsyncGenerator[T, None]:
        """`ask` for a stream."""
        connection = self._connection
        with self._asked(connection):
            async with aclosing(question(connection)) as replies:
                async for reply in replies:
                    yield reply

    @contextmanager
    def _asked(self, connection: GrpcConnection) -> Iterator[None]:
        """A question over the present connection. Raises why it ended."""
        self._asking[connection] += 1
        try:
            yield
        except (DatabaseClosed, Disconnected) as error:
            given_up = connection is not self._connection
            self._refused = self._refused or (error.fields.get("sent") == 0 and not given_up)
            raise self._reason(error, given_up=given_up) from error
        finally:
            self._asking[connection] -= 1
            if not self._asking[connection]:
                del self._asking[connection]
                self._close_idle(connection)

    async def ask_node(self, method: str, request: Any, *, timeout: float) -> Any:
        """Call a method of `duramen.v1.Node`. Raises what the node says."""
        return await self._ask_stub(node_pb2_grpc.NodeStub, method, request, timeout)

    async def ask_status(self, *, timeout: float) -> bytes:
        """The node's status document, as JSON. Raises what the node says."""
        request = cluster_pb2.ServerStatusRequest()
        reply: cluster_pb2.ServerStatus = await self._ask_stub(cluster_pb2_grpc.ClusterStub, "Status", request, timeout)
        return reply.status

    async def _ask_stub(self, stub_of: Callable[[Any], Any], method: str, request: Any, timeout: float) -> Any:
        wire = self._wire
        try:
            return await wire.ask(getattr(stub_of(wire.channel), method), request, timeout=timeout)
        except (DatabaseClosed, Disconnected) as error:
            raise self._reason(error, given_up=wire is not self._wire) from error

    def _reason(self, error: DatabaseClosed | Disconnected, *, given_up: bool) -> DatabaseClosed | Disconnected:
        """The error of a question that ended. `given_up`: the member has replaced the connection that carried it."""
        if error.fields.get("sent") == 0 or not (given_up or self._retired):
            return error
        return Disconnected(
            f"node {self.id} at {self.address} was lost during a request: {self.view.reason or 'it is back'}"
        )

    async def retire(self) -> None:
        """Close it because the map does not have it any more. Calls under way, and later ones, raise `Disconnected`:
        another node can answer them.
        """
        self._retired = True
        self.view = replace(self.view, alive=False, reason="the cluster's map has it no more, or at another address")
        await self.close()

    async def close(self) -> None:
        """Stop following and close both connections. Calls under way end with `Disconnected`, later ones with
        `DatabaseClosed`. Idempotent.
        """
        await every_step(
            partial(end_tasks, self._follower),
            self._wire.close,
            *(connection.close for connection in dict.fromkeys((self._connection, *self._asking))),
            self._closing.wait,
        )
