"""gRPC on the simulated network, the server's end: servers for servicers, and the calls that they serve.

A link may copy requests: the server that listens when the late copy of one arrives serves it as a call of its own, and
its reply goes nowhere. So does a request whose caller has given it up, or sent it again, while a slow server still had
it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import grpc

from duramen.testing.machine.simulated_network import CallAnswer, NetConnection, Network
from log_tier.concurrency.clocks import Clock
from log_tier.model.errors import DuramenError
from log_tier.rpc.checked import CallGuard, CheckedHandler, Refusals
from log_tier.rpc.open_streams import OpenStreams
from log_tier.rpc.problems import abort
from log_tier.slow_calls.slow_call_log import SlowCallLog

__all__ = ["CallerEnd", "LateCopy", "ServedCall", "SimulatedServer", "calling_process"]

_PEER: Final = "sim:"
"""Before the name of the process that calls, and the number of its connection."""

_WINDOW: Final = 8
"""So many messages of a stream are under way before its writer waits."""

_GRACE_S: Final = 2.0
"""What calls under way get at a clean stop, as `GrpcServer` gives them."""


def calling_process(peer: str) -> str:
    """The name of the process that a handler's context has as its peer."""
    return peer.removeprefix(_PEER).rpartition(":")[0]


class CallerEnd(Protocol):
    """What a served call knows of its caller, and how it answers."""

    number: int
    method: str
    request: bytes
    timeout: float | None
    deadline_s: float | None
    metadata: tuple[tuple[str, str], ...]

    def arrived(self, reply: bytes) -> None:
        """A message of a stream."""

    def answered(self, reply: bytes | None, code: Any, details: str, trailing: Any) -> None:
        """The call has ended here."""


@dataclass(frozen=True)
class _Details:
    method: str
    invocation_metadata: tuple[Any, ...] = ()


class _Abort(Exception):
    """As gRPC raises it into a handler that has aborted."""


class ServedCall:
    """The server's end of a call, and its handler's context."""

    def __init__(self, call: CallerEnd, connection: NetConnection, server: SimulatedServer | None) -> None:
        self._call, self._connection, self._server = call, connection, server
        self.number = call.number
        self._loop = connection.network.loop
        self._task: asyncio.Task[None] | None = None
        self._unread = self._sent = 0
        self._room = asyncio.Event()
        self._serialize: Callable[[Any], bytes]
        self._status: tuple[Any, str, Any] | None = None

    def begin(self) -> None:
        """The request has arrived."""
        server = self._server
        if server is None or not server.listening:
            return
        self._connection.on_break[self._broke] = None
        self._start(server)

    def _start(self, server: SimulatedServer) -> None:
        self._task = server.context.run(asyncio.ensure_future, self._run(server))
        server.tasks[self._task] = None
        self._task.add_done_callback(lambda task: server.tasks.pop(task, None))

    def _broke(self, why: str) -> None:
        self.cancel()

    def cancel(self) -> None:
        """The client has gone."""
        if self._task is not None:
            self._task.cancel()

    def were_read(self, messages: int) -> None:
        """The client has read some messages."""
        self._unread -= messages
        self._room.set()

    async def _run(self, server: SimulatedServer) -> None:
        status: tuple[Any, str, Any] = (grpc.StatusCode.UNKNOWN, "the handler broke", ())
        reply: bytes | None = None
        is_stream = False
        try:
            handler = server.handler_of(self._call.method)
            if handler is None:
                status = (grpc.StatusCode.UNIMPLEMENTED, "Method not found!", ())
                return
            self._serialize, is_stream = handler.response_serializer, bool(handler.response_streaming)
            if not is_stream:
                await server.wait_early(self._call.method, self)
            request = handler.request_deserializer(self._call.request)
            if is_stream:
                found = handler.unary_stream(request, self)
                if hasattr(found, "__aiter__"):
                    async for reply in found:
                        await self.write(reply)
                else:
                    await found
            else:
                reply = self._serialize(await handler.unary_unary(request, self))
            status = (grpc.StatusCode.OK, "", ())
        except _Abort:
            assert self._status is not None, "`abort` sets it before it raises"
            status = self._status
        except asyncio.CancelledError:
            status = (grpc.StatusCode.CANCELLED, "cancelled", ())
            raise
        except Exception as error:  # noqa: BLE001 - the world raises it
            server.broken(self._call.method, error)
        finally:
            call = self._call
            ended = CallAnswer(server.process, call.method, is_stream, call.metadata, status[0], self._sent)
            server.network.on_answer(ended)
            self._answer(reply, *status)

    def _answer(self, reply: bytes | None, code: Any, details: str, trailing: Any) -> None:
        self._connection.on_break.pop(self._broke, None)
        self._connection.to_client.send(self._call.answered, reply, code, details, trailing)

    def _send(self, message: Any) -> None:
        self._unread += 1
        self._sent += 1
        self._connection.to_client.send(self._call.arrived, self._serialize(message))

    # --- what a handler calls

    async def write(self, message: Any) -> None:
        """Send one message of a stream; waits while the client does not read."""
        while self._unread >= _WINDOW:
            self._room.clear()
            await self._room.wait()
        self._send(message)

    async def send_initial_metadata(self, metadata: Any) -> None:
        """They tell nothing here."""

    async def abort(self, code: Any, details: str = "", trailing: Any = ()) -> None:
        self._status = (code, details, trailing)
        raise _Abort

    def time_remaining(self) -> float | None:
        deadline_s = self._call.deadline_s
        return None if deadline_s is None else max(0.0, deadline_s - self._loop.time())

    def peer(self) -> str:
        return f"{_PEER}{self._connection.client}:{self._connection.number}"

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return self._call.metadata


class LateCopy(ServedCall):
    """A copy of a single request, which nobody waits for. No end of a connection takes it back."""

    _ends_s: float | None = None

    def begin(self) -> None:
        """The copy has arrived, at the server that listens there now."""
        network, source, target = self._connection.network, self._connection.client, self._connection.server
        server = network.listeners.get(target)
        if server is None or not server.listening or network.link(source, target).cut:
            return
        network.story.met["late copy of a request"] += 1
        network.story.tell("network", f"a late copy of {self._call.method} {source} -> {target}")
        self._ends_s = None if self._call.timeout is None else self._loop.time() + self._call.timeout
        self._start(server)

    def _answer(self, reply: bytes | None, code: Any, details: str, trailing: Any) -> None:
        """Nobody hears it."""

    def time_remaining(self) -> float | None:
        """gRPC sends a timeout, which begins where the request arrives."""
        return None if self._ends_s is None else max(0.0, self._ends_s - self._loop.time())


@dataclass
class SimulatedServer:
    """What a `GrpcServer` is to services: `registry` and `streams`. It listens from `listen` to `stop`."""

    network: Network
    process: str
    context: Any
    """Its handlers run in it."""
    clock: Clock
    broken: Callable[[str, Exception], None]
    """Called where a handler ends with what it may not end with."""
    streams: OpenStreams = field(default_factory=OpenStreams)
    tasks: dict[asyncio.Task[None], None] = field(default_factory=dict)
    listening: bool = False
    is_exposed: bool = False
    is_reached: bool = False
    """Nobody outside of the simulation reaches it."""
    slow: SlowCallLog = field(default_factory=lambda: SlowCallLog(0))

    def __post_init__(self) -> None:
        self.registry: Any = self
        self._refusals = Refusals(self.clock)
        self._handlers: list[Any] = []
        self._by_method: dict[str, Any] = {}
        """Those that were asked for."""
        self._guard: CallGuard | None = None

    def guard_with(self, guard: CallGuard) -> None:
        """Let `guard` decide about every call of the services that are added from now on."""
        self._guard = guard

    def add_generic_rpc_handlers(self, handlers: Any) -> None:
        self._by_method.clear()
        self._handlers += [CheckedHandler([handler], self._refusals, self._guard) for handler in handlers]

    def add_registered_method_handlers(self, service: str, handlers: object) -> None:
        """Methods are found by their names, as in `GrpcServer`."""

    def handler_of(self, method: str) -> Any:
        found = self._by_method.get(method)
        if found is None:
            details = _Details(method)
            found = next((known for each in self._handlers if (known := each.service(details)) is not None), None)
            self._by_method[method] = found
        return found

    async def wait_early(self, method: str, context: Any) -> None:
        """What a single call waits for, or is refused by, before its message is read. See `waiting_handler`."""
        guard = self._guard
        wait = guard.early(method, context.invocation_metadata()) if guard is not None and guard.is_closed else None
        if wait is None:
            return
        try:
            await wait()
        except DuramenError as error:
            await abort(context, error)

    def listen(self) -> None:
        """Answer from now on."""
        self.listening = True
        self.network.listeners[self.process] = self

    async def stop(self, *, politely: bool) -> None:
        """End. Politely: streams end with a reason, and calls under way may end."""
        self.network.listeners.pop(self.process, None)
        if politely:
            self.streams.end()
            if self.tasks:
                await asyncio.wait(self.tasks, timeout=_GRACE_S)
        self.listening = False
        self.network.drop(self.process)
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
