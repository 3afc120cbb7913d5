"""The shell of every role: one gRPC server on one port, or on two.

gRPC asks all clients of a port for a certificate, or none. So a server with certificates may have a second port, the
peer port, for those who show one: the other servers, and users who prove by it who they are.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from duramen.server.roles.reflected_names import ReflectedNames
from duramen.server.wiring.server_certificates import ServerCertificates
from log_tier.concurrency.descriptors import descriptor_shares
from log_tier.model.errors import PortInUse
from log_tier.rpc.address import is_loopback
from log_tier.rpc.channel import SERVER_OPTIONS
from log_tier.rpc.checked import CallGuard, CheckedHandler, Refusals
from log_tier.rpc.messages.arriving_calls import ArrivingCalls
from log_tier.rpc.messages.early_refusals import Metadata
from log_tier.rpc.messages.stream_bound import CALLS_OF_CONNECTION_MAX, OPEN_TO_ALL_MAX, STREAMS_MAX, StreamBound
from log_tier.rpc.open_streams import OpenStreams
from log_tier.slow_calls.slow_call_log import SlowCallLog
from log_tier.tracing.span import TRACING

__all__ = ["GC_THRESHOLDS", "GrpcServer", "quick_switching"]

# Calls that are under way at SIGTERM get this long to end; a put is over in milliseconds, a watch ends with a reason.
_GRACE_S: Final = 2.0

_PORT_MAX: Final = 65_535

# The commit thread must get the interpreter back soon after a sync, though the event loop is busy: the default of 5 ms
# would be most of a write's latency.
_SWITCH_INTERVAL_S: Final = 0.0001

# What a request allocates is gone with it, so the collector finds nothing in it; at its default it would look every 700
# objects, and now and then walk the whole heap for 10 ms. Of a large request it walks so many objects in a turn: 1 to 3
# ms. The oldest, of which there are most, are walked once for 5,000 times that it looks.
GC_THRESHOLDS: Final = (10_000, 50, 100)


class GrpcServer:
    """A gRPC server: `listen`, add services to `registry`, `start`, `close`."""

    def __init__(
        self,
        server: grpc.aio.Server,
        host: str,
        port: int,
        peer_port: int | None = None,
        *,
        is_secure: bool = False,
        bound: StreamBound | None = None,
    ) -> None:
        self.host = host
        self.port = port
        """The port it listens on: the one asked for, or the one the system chose for 0."""
        self.peer_port = peer_port
        """The port on which every client shows a certificate; None if there is no such port."""
        self.is_secure = is_secure
        """Does it speak TLS?"""
        self.streams = OpenStreams()
        """The streams under way; every service of this shell shares them."""
        self.bound = StreamBound() if bound is None else bound
        """How many of them there may be, those of health and reflection included."""
        self.slow = SlowCallLog()
        """The calls of every endpoint that took long. Its threshold is set before services are added."""
        self.registry: Any = _ByName(server, self.bound, self.slow)
        """What generated code adds services to."""
        self._server = server
        self._health = _Health()
        self._services: Sequence[str] = ()
        self._serving: bool | None = None
        self._started = False

    def guard_with(self, guard: CallGuard) -> None:
        """Let `guard` decide about every call of the services that are added from now on. To be called before any is
        added.
        """
        self.registry.guard_with(guard)

    @classmethod
    async def listen(
        cls,
        host: str,
        port: int,
        *,
        certificates: ServerCertificates | None = None,
        require_client_certificate: bool = False,
        peer_port: int | None = None,
        streams_max: int = STREAMS_MAX,
    ) -> GrpcServer:
        """Take the port; nothing is answered yet. `certificates`: for TLS; None: plain TCP. `streams_max`: how many
        streams may be open at once. Raises `PortInUse`.

        `require_client_certificate`: on `port` itself. `peer_port`: a second port, on which every client shows a
        certificate; 0: a free one. Both need `certificates`.
        """
        assert certificates is not None or (peer_port is None and not require_client_certificate), (
            f"port {port} and peer port {peer_port} cannot ask for certificates without TLS"
        )
        for each in (port, peer_port or 0):
            if not 0 <= each <= _PORT_MAX:
                raise PortInUse(f"there is no port {each}: ports have the numbers 1 to {_PORT_MAX}", port=each)
        # Idle connections must not take the descriptors that the log and the indexes need.
        connections = ("grpc.max_allowed_incoming_connections", descriptor_shares().grpc_connections)
        bound = StreamBound(streams_max)
        concurrent = ("grpc.max_concurrent_streams", bound.of_connection + OPEN_TO_ALL_MAX + CALLS_OF_CONNECTION_MAX)
        server = grpc.aio.server(options=(*SERVER_OPTIONS, connections, concurrent))
        try:
            if certificates is None:
                return cls(server, host, _bind(server, host, port, None), bound=bound)
            own = certificates.credentials(require_client_certificate=require_client_certificate)
            taken = _bind(server, host, port, own)
            if peer_port is None:
                return cls(server, host, taken, is_secure=True, bound=bound)
            peers = certificates.credentials(require_client_certificate=True)
            taken_for_peers = _bind(server, host, peer_port, peers, option="--peer-port")
            return cls(server, host, taken, taken_for_peers, is_secure=True, bound=bound)
        except PortInUse:
            await _let_go(server)
            raise

    @property
    def is_reached(self) -> bool:
        """Do other machines reach it?"""
        return not is_loopback(self.host)

    @property
    def is_exposed(self) -> bool:
        """Do other machines reach it in plain TCP?"""
        return not self.is_secure and self.is_reached

    @property
    def address(self) -> str:
        """host:port as others on this machine reach it; a role's `advertise` says more."""
        return f"{_here(self.host)}:{self.port}"

    @property
    def peer_address(self) -> str:
        """The same for the peer port; empty if there is none."""
        return "" if self.peer_port is None else f"{_here(self.host)}:{self.peer_port}"

    def find_method(self, method: str, metadata: Metadata) -> Any:
        """The handler of a call by its method, as gRPC finds it: with the guard before it. None: there is no such
        method. `metadata`: of the call.
        """
        return self.registry.find(_LocalDetails(method, metadata))

    async def start(self, services: Sequence[str], *, serving: bool = True) -> None:
        """Answer from now on. `services`: the full names of those that were added."""
        self._services = tuple(services)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self.registry)
        names = (*self._services, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(
            reflection.aio.ReflectionServicer(names, pool=ReflectedNames()),  # type: ignore[attr-defined]
            self.registry,
        )
        await self._server.start()
        self._started = True
        await self.say(serving=serving)

    async def say(self, *, serving: bool) -> None:
        """Report by the health service whether requests are welcome."""
        if serving is self._serving:
            return
        self._serving = serving
        status = health_pb2.HealthCheckResponse
        for name in ("", *self._services):
            await self._health.set(name, status.SERVING if serving else status.NOT_SERVING)

    async def close(self) -> None:
        """Take no new work, end streams with a reason, wait shortly for calls under way. Idempotent."""
        self.registry.arriving.close()
        if not self._started:
            await _let_go(self._server)
            return
        try:
            await self._health.enter_graceful_shutdown()
        finally:
            stopping = asyncio.ensure_future(self._server.stop(_GRACE_S))
            self.streams.end()
            await stopping


def quick_switching() -> None:
    """Set the interpreter of a server's program, when it has opened: threads take turns quickly, the collector looks
    rarely, and at nothing of what is there. A server in another program, such as a test, leaves it as it is.
    """
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


class _LocalDetails(NamedTuple):
    """What a handler looks at to find a method: of `grpc.HandlerCallDetails`, for a call inside of this process."""

    method: str
    invocation_metadata: Metadata


class _Health(health.aio.HealthServicer):  # type: ignore[misc,name-defined]
    """The library's health service and `List`, which its asynchronous one leaves out: a call of what is left out is a
    traceback in the log.
    """

    def __init__(self) -> None:
        super().__init__()
        self._names: set[str] = {""}

    async def set(self, service: str, status: Any) -> None:
        self._names.add(service)
        await super().set(service, status)

    async def List(self, _request: Any, context: Any) -> health_pb2.HealthListResponse:  # noqa: N802 (gRPC's name)
        found = {name: await self.Check(health_pb2.HealthCheckRequest(service=name), context) for name in self._names}
        return health_pb2.HealthListResponse(statuses=found)


class _ByName:
    """A server to which services are added by name only, and which checks their messages.

    Generated code also registers each method with gRPC's core, and `grpc.aio` then waits for every registered method
    by a task of its own, all of which it sets up again for each call: with our methods that was a fifth of a
    single get's time. A method that is looked up by its name costs one dict.
    """

    def __init__(self, server: grpc.aio.Server, bound: StreamBound, slow: SlowCallLog) -> None:
        self._slow = slow
        self._server = server
        self._bound = bound
        self._refusals = Refusals()
        self.arriving = ArrivingCalls()
        self._guard: CallGuard | None = None
        self._tracing = TRACING.get()
        self._handlers: list[Any] = []
        self._checked: CheckedHandler | None = None
        """All services, from the first one on."""

    def guard_with(self, guard: CallGuard) -> None:
        assert self._checked is None, "a service was added before its guard"
        self._guard = guard

    def add_generic_rpc_handlers(self, handlers: Sequence[Any]) -> None:
        self._handlers.extend(handlers)
        if self._checked is None:
            self._checked = CheckedHandler(
                self._handlers, self._refusals, self._guard, self.arriving, self._bound, self._slow, self._tracing
            )
            self._server.add_generic_rpc_handlers([self._checked])

    def find(self, details: _LocalDetails) -> Any:
        """The handler of the method."""
        return None if self._checked is None else self._checked.service(details)

    def add_registered_method_handlers(self, service: str, handlers: object) -> None:
        """Ignored on purpose: see the class."""


def _bind(
    server: grpc.aio.Server, host: str, port: int, credentials: grpc.ServerCredentials | None, option: str = "--port"
) -> int:
    """Take a port; its number. `option`: the one that chooses it. Raises `PortInUse`."""
    try:
        if credentials is None:
            return server.add_insecure_port(f"{host}:{port}")
        return server.add_secure_port(f"{host}:{port}", credentials)
    except RuntimeError as error:
        raise PortInUse(
            f"port {port} on {host} cannot be listened on: another server may have it, or the address is not this "
            f"machine's; stop that server, or choose another port with {option}",
            port=port,
        ) from error


def _here(host: str) -> str:
    return "127.0.0.1" if host in ("0.0.0.0", "") else host


async def _let_go(server: grpc.aio.Server) -> None:
    """Give back the port of a server that did not start: gRPC closes the sockets of those that did, and no others."""
    with suppress(grpc.aio.UsageError):
        await server.start()
    await server.stop(None)
