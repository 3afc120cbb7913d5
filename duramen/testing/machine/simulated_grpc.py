"""gRPC on the simulated network: channels for stubs, and servers for servicers.

Requests and replies pass as the bytes that gRPC would carry; deadlines, metadata, statuses and cancellations as gRPC
has them. What a client does not read waits in its call, up to gRPC's window, and the server's `write` with it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import grpc

from duramen.testing.machine.simulated_network import Connecting, NetConnection, Network
from log_tier.concurrency.clocks import Clock
from log_tier.rpc.checked import CheckedHandler, Refusals
from log_tier.rpc.core import grpc_core
from log_tier.rpc.open_streams import OpenStreams

__all__ = ["SimulatedServer", "SimulatedTransport"]

_PORT: Final = ":7070"
_WINDOW: Final = 8
"""So many messages of a stream are under way before its writer waits."""
_READ_TOGETHER: Final = 4
"""So many are read before the writer learns it."""

_GRACE_S: Final = 2.0
"""What calls under way get at a clean stop, as `GrpcServer` gives them."""

_UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


@dataclass(frozen=True)
class _Details:
    method: str
    invocation_metadata: tuple[Any, ...] = ()


def _failure(code: Any, details: str, trailing: Any = ()) -> Any:
    aio = grpc_core().aio  # a forked process has another one
    return aio.AioRpcError(code, aio.Metadata(), aio.Metadata(*trailing), details, None)


class SimulatedTransport:
    """A process's end of the network: the `Transport` of its context."""

    def __init__(self, network: Network, process: str) -> None:
        self._network, self._process = network, process

    def channel(self, target: str) -> _Channel:
        """A channel to NAME:7070."""
        return _Channel(self._network, self._process, target.removesuffix(_PORT))


class _Channel:
    def __init__(self, network: Network, source: str, target: str) -> None:
        self.network, self.source, self.target = network, source, target
        self._connection: NetConnection | None = None
        self._connecting: asyncio.Task[NetConnection] | None = None
        self.calls: dict[int, _Call] = {}
        self.closed = False

    def unary_unary(self, method: str, request_serializer: Any, response_deserializer: Any, **_: Any) -> Any:
        def start(request: Any, *, timeout: float | None = None) -> Any:
            call = _Call(self, method, request_serializer(request), response_deserializer, timeout)
            return call.single()

        return start

    def unary_stream(self, method: str, request_serializer: Any, response_deserializer: Any, **_: Any) -> Any:
        def start(request: Any, *, timeout: float | None = None) -> _Call:
            return _Call(self, method, request_serializer(request), response_deserializer, timeout)

        return start

    async def connected(self) -> NetConnection:
        if self._connection is not None and not self._connection.broken:
            return self._connection
        if self._connecting is None:
            self._connecting = asyncio.ensure_future(self.network.connect(self.source, self.target))
        connecting = self._connecting
        try:
            connection = await asyncio.shield(connecting)
        finally:
            if self._connecting is connecting and connecting.done():
                self._connecting = None
        self._connection = connection
        return connection

    async def close(self, grace: float | None = None) -> None:
        self.closed = True
        if self._connecting is not None:
            self._connecting.cancel()
        for call in list(self.calls.values()):
            call.end(grpc.StatusCode.CANCELLED, "Channel closed!")
        if self._connection is not None:
            self._connection.reset("Socket closed")


class _Call:
    """The client's end of a call; it begins when it is first waited for or read."""

    def __init__(self, channel: _Channel, method: str, request: bytes, parse: Any, timeout: float | None) -> None:
        channel.network.calls += 1
        self.number = channel.network.calls
        self.channel, self.method, self.request, self._parse = channel, method, request, parse
        self._loop = channel.network.loop
        self.deadline_s = None if timeout is None else self._loop.time() + timeout
        self._replies: deque[bytes] = deque()
        self._changed = asyncio.Event()
        self._ended: Any = None
        """True: with status OK; else the failure."""
        self._connection: NetConnection | None = None
        self._served: _Served | None = None
        """None: it has not begun, or it has ended."""
        self._read = 0
        channel.calls[self.number] = self
        if self.deadline_s is not None:
            self._timer = self._loop.call_at(
                self.deadline_s, self.end, grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded"
            )
        self._starting = asyncio.ensure_future(self._start())

    async def _start(self) -> None:
        try:
            connection = await self.channel.connected()
        except Connecting as error:
            self.end(_UNAVAILABLE, f"failed to connect to all addresses; {error}")
            return
        except asyncio.CancelledError:
            self.end(grpc.StatusCode.CANCELLED, "Channel closed!")
            return
        if self._ended:
            return
        self._connection = connection
        connection.on_break[self._broke] = None
        server = self.channel.network.listeners.get(self.channel.target)
        self._served = _Served(self, connection, server)
        connection.to_server.send(self._served.begin)

    def _broke(self, why: str) -> None:
        self.end(_UNAVAILABLE, why)

    def arrived(self, reply: bytes) -> None:
        self._replies.append(reply)
        self._changed.set()

    def answered(self, reply: bytes | None, code: Any, details: str, trailing: Any) -> None:
        """The server has ended the call; a single reply comes with its status."""
        self._served = None
        if reply is not None:
            self.arrived(reply)
        self.end(code, details, trailing)

    def end(self, code: Any, details: str, trailing: Any = ()) -> None:
        """The call is over for its caller; the server learns it where it has not ended itself."""
        self._finish(True if code is grpc.StatusCode.OK else _failure(code, details, trailing))

    def _finish(self, ended: Any) -> None:
        if self._ended:
            return
        self._ended = ended
        self._changed.set()
        self.channel.calls.pop(self.number, None)
        if self.deadline_s is not None:
            self._timer.cancel()
        if self._connection is not None:
            self._connection.on_break.pop(self._broke, None)
            if self._served is not None and not self._connection.broken:
                self._connection.to_server.send(self._served.cancel)

    async def single(self) -> Any:
        try:
            async for reply in self:
                self._finish(True)
                return reply
        except asyncio.CancelledError:
            self.cancel()
            raise
        raise _failure(grpc.StatusCode.INTERNAL, "no reply")

    async def __aiter__(self) -> AsyncIterator[Any]:
        while True:
            while self._replies:
                data = self._replies.popleft()
                self._was_read()
                yield self._parse(data)
            if self._ended:
                if self._ended is not True:
                    raise self._ended
                return
            self._changed.clear()
            await self._changed.wait()

    def _was_read(self) -> None:
        self._read += 1
        if self._read == _READ_TOGETHER:
            self._read = 0
            if self._served is not None and self._connection is not None and not self._connection.broken:
                self._connection.to_server.send(self._served.were_read, _READ_TOGETHER)

    def cancel(self) -> bool:
        self.end(grpc.StatusCode.CANCELLED, "Locally cancelled by application!")
        return True


class _Abort(Exception):
    """As gRPC raises it into a handler that has aborted."""


class _Served:
    """The server's end of a call, and its handler's context."""

    def __init__(self, call: _Call, connection: NetConnection, server: SimulatedServer | None) -> None:
        self._call, self._connection, self._server = call, connection, server
        self.number = call.number
        self._loop = call.channel.network.loop
        self._task: asyncio.Task[None] | None = None
        self._unread = 0
        self._room = asyncio.Event()
        self._serialize: Callable[[Any], bytes]
        self._status: tuple[Any, str, Any] | None = None

    def begin(self) -> None:
        """The request has arrived."""
        server = self._server
        if server is None or not server.listening:
            return
        self._connection.on_break[self._broke] = None
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
        try:
            handler = server.handler_of(self._call.method)
            if handler is None:
                status = (grpc.StatusCode.UNIMPLEMENTED, "Method not found!", ())
                return
            self._serialize = handler.response_serializer
            request = handler.request_deserializer(self._call.request)
            if handler.response_streaming:
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
            self._connection.on_break.pop(self._broke, None)
            self._connection.to_client.send(self._call.answered, reply, *status)

    def _send(self, message: Any) -> None:
        self._unread += 1
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
        return f"sim:{self._connection.client}"


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

    def __post_init__(self) -> None:
        self.registry: Any = self
        self._refusals = Refusals(self.clock)
        self._handlers: list[Any] = []

    def add_generic_rpc_handlers(self, handlers: Any) -> None:
        self._handlers += [CheckedHandler(handler, self._refusals) for handler in handlers]

    def add_registered_method_handlers(self, service: str, handlers: object) -> None:
        """Methods are found by their names, as in `GrpcServer`."""

    def handler_of(self, method: str) -> Any:
        details = _Details(method)
        return next((found for each in self._handlers if (found := each.service(details)) is not None), None)

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
