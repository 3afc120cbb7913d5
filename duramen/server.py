"""The server: log, replicas, front and the gRPC door in one process, on one port."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from duramen.embedded import open_front
from log_tier.errors import DuramenError, PortInUse
from log_tier.proto import log_pb2, log_pb2_grpc
from log_tier.service.channel import SERVER_OPTIONS
from log_tier.service.server import LogService
from log_tier.service.streams import OpenStreams
from router.front import Front
from router.grpc_door.services import KeyValueService, TablesService
from router.proto import keyvalue_pb2, keyvalue_pb2_grpc, tables_pb2, tables_pb2_grpc

__all__ = ["Server", "serve"]

logger = logging.getLogger(__name__)

# Calls that are under way at SIGTERM get this long to end; a put is over in milliseconds, a watch is told to go.
_GRACE_S: Final = 2.0

_PORT_MAX: Final = 65_535

# The commit thread must get the interpreter back soon after a sync, though the event loop is busy: the default of 5 ms
# would be most of a write's latency.
_SWITCH_INTERVAL_S: Final = 0.0001

# What a request allocates is gone with it, so the collector finds nothing in it; at its default it would look every 700
# objects, and now and then walk the whole heap for 10 ms.
_GC_THRESHOLD: Final = 50_000

_SERVICES: Final = (
    keyvalue_pb2.DESCRIPTOR.services_by_name["KeyValue"].full_name,
    tables_pb2.DESCRIPTOR.services_by_name["Tables"].full_name,
    log_pb2.DESCRIPTOR.services_by_name["Log"].full_name,
)


class Server:
    """A running server. `open()` makes one, `close()` ends it without losing anything."""

    def __init__(self, front: Front, server: grpc.aio.Server, checks: Any, streams: OpenStreams, port: int) -> None:
        self.front = front
        self.port = port
        """The port it listens on: the one asked for, or the one the system chose for 0."""
        self._server = server
        self._health = checks
        self._streams = streams

    @classmethod
    async def open(cls, data: Path, *, host: str = "127.0.0.1", port: int = 7070) -> Server:
        """Open the data folder and listen. Raises `PortInUse`, and what `open_front` raises."""
        if not 0 <= port <= _PORT_MAX:
            raise PortInUse(f"there is no port {port}: ports have the numbers 1 to {_PORT_MAX}", port=port)
        server = grpc.aio.server(options=SERVER_OPTIONS)
        try:
            bound = _listen(server, host, port)
            front = await open_front(data)
        except BaseException:
            await _let_go(server)
            raise
        try:
            checks: Any = health.aio.HealthServicer()  # type: ignore[attr-defined]
            streams = OpenStreams()
            names = (*_SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME)
            doors: Any = _ByName(server)
            health_pb2_grpc.add_HealthServicer_to_server(checks, doors)
            keyvalue_pb2_grpc.add_KeyValueServicer_to_server(KeyValueService(front, streams), doors)  # type: ignore[no-untyped-call]
            tables_pb2_grpc.add_TablesServicer_to_server(TablesService(front), doors)  # type: ignore[no-untyped-call]
            log_pb2_grpc.add_LogServicer_to_server(LogService(front.log, streams), doors)  # type: ignore[no-untyped-call]
            reflection_pb2_grpc.add_ServerReflectionServicer_to_server(reflection.aio.ReflectionServicer(names), doors)  # type: ignore[attr-defined]
            await server.start()
            for name in ("", *_SERVICES):
                await checks.set(name, health_pb2.HealthCheckResponse.SERVING)
        except BaseException:
            await server.stop(None)
            await front.close()
            raise
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        gc.freeze()
        gc.set_threshold(_GC_THRESHOLD, 20, 50)
        return cls(front, server, checks, streams, bound)

    async def close(self) -> None:
        """Say that no new work is taken, let what is under way end, close indexes and log cleanly."""
        try:
            await self._health.enter_graceful_shutdown()
            stopping = asyncio.ensure_future(self._server.stop(_GRACE_S))
            self._streams.end()
            await stopping
        finally:
            await self.front.close()


class _ByName:
    """A server to which services are added by name only.

    Generated code also registers each method with gRPC's core, and `grpc.aio` then waits for every registered method
    by a task of its own, all of which it sets up again for each call: with our methods that was a fifth of a
    single get's time. A method that is looked up by its name costs one dict.
    """

    def __init__(self, server: grpc.aio.Server) -> None:
        self._server = server

    def add_generic_rpc_handlers(self, handlers: Sequence[Any]) -> None:
        self._server.add_generic_rpc_handlers(handlers)

    def add_registered_method_handlers(self, service: str, handlers: object) -> None:
        """Not that."""


async def _let_go(server: grpc.aio.Server) -> None:
    """Give back the port of a server that did not start: gRPC closes the sockets of those that did, and no others."""
    await server.start()
    await server.stop(None)


def _listen(server: grpc.aio.Server, host: str, port: int) -> int:
    try:
        return server.add_insecure_port(f"{host}:{port}")
    except RuntimeError as error:
        raise PortInUse(
            f"port {port} on {host} cannot be listened on: another server may have it, or the address is not this "
            "machine's; stop that server, or choose another port with --port",
            port=port,
        ) from error


async def serve(
    data: Path, *, host: str, port: int, started: Callable[[Server], None], stopping: Callable[[str], None]
) -> None:
    """Run a server until SIGTERM or SIGINT. `started` is called when it takes requests."""
    server = await Server.open(data, host=host, port=port)
    stop = asyncio.Event()
    reason = ""

    def on_signal(number: signal.Signals) -> None:
        nonlocal reason
        if stop.is_set():
            # Asked twice: the log is safe at any moment, only the indexes' clean mark is lost.
            os._exit(128 + number)
        reason = number.name
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    try:
        started(server)
        await stop.wait()
        stopping(reason)
    finally:
        try:
            await server.close()
        except DuramenError as error:
            logger.error("closing: %s", error)
            raise
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)
