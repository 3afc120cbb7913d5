"""gRPC on the simulated network, the client's end: channels for stubs.

Requests and replies pass as the bytes that gRPC would carry; deadlines, metadata, statuses and cancellations as gRPC
has them. What a client does not read waits in its call, up to gRPC's window, and the server's `write` with it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, Final

import grpc

from duramen.testing.machine.simulated_network import Connecting, NetConnection, Network
from duramen.testing.machine.simulated_server import LateCopy, ServedCall
from log_tier.rpc.core import grpc_core
from log_tier.rpc.credentials import AUTHORIZATION

__all__ = ["SimulatedTransport", "refuses_part"]

_PORT: Final = ":7070"
_READ_TOGETHER: Final = 4
"""So many are read before the writer learns it."""

_PROBLEM: Final = "duramen.v1.Problem"
_UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


def _failure(code: Any, details: str, trailing: Any = ()) -> Any:
    aio = grpc_core().aio  # a forked process has another one
    return aio.AioRpcError(code, aio.Metadata(), aio.Metadata(*trailing), details, None)


def refuses_part(reply: Any) -> bool:
    """Does a protobuf message hold a `Problem`, at any depth? O(size of the message)."""
    if reply.DESCRIPTOR.full_name == _PROBLEM:
        return True
    return any(
        refuses_part(each)
        for field, value in reply.ListFields()
        if field.message_type is not None and not field.message_type.GetOptions().map_entry
        for each in (value if field.is_repeated else (value,))
    )


class SimulatedTransport:
    """A process's end of the network: the `Transport` of its context."""

    def __init__(self, network: Network, process: str, *, authorization: str = "") -> None:
        """`authorization`: the proof that its calls carry, as the metadata of that name; empty: none."""
        self._network, self._process = network, process
        self._metadata = ((AUTHORIZATION, authorization),) if authorization else ()

    def channel(self, target: str) -> _Channel:
        """A channel to NAME:7070."""
        return _Channel(self._network, self._process, target.removesuffix(_PORT), self._metadata)


class _Channel:
    def __init__(self, network: Network, source: str, target: str, metadata: tuple[tuple[str, str], ...] = ()) -> None:
        self.network, self.source, self.target, self.metadata = network, source, target, metadata
        self._connection: NetConnection | None = None
        self._connecting: asyncio.Task[NetConnection] | None = None
        self.calls: dict[int, _Call] = {}
        self.closed = False

    def unary_unary(self, method: str, request_serializer: Any, response_deserializer: Any, **_: Any) -> Any:
        def start(request: Any, *, timeout: float | None = None, metadata: Any = ()) -> Any:
            call = _Call(self, method, request_serializer(request), response_deserializer, timeout, copied=True)
            call.metadata += metadata
            return call.single()

        return start

    def unary_stream(self, method: str, request_serializer: Any, response_deserializer: Any, **_: Any) -> Any:
        def start(request: Any, *, timeout: float | None = None) -> _Call:
            return _Call(self, method, request_serializer(request), response_deserializer, timeout)

        return start

    @property
    def connection_number(self) -> int:
        """Of the connection of its last calls; 0: it has made none."""
        return 0 if self._connection is None else self._connection.number

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

    def __init__(
        self,
        channel: _Channel,
        method: str,
        request: bytes,
        parse: Any,
        timeout: float | None,
        *,
        copied: bool = False,
    ) -> None:
        """`copied`: a link that copies requests may copy this one."""
        channel.network.calls += 1
        self.number = channel.network.calls
        self.channel, self.method, self.request, self._parse = channel, method, request, parse
        self.metadata = channel.metadata
        self.timeout, self._copied = timeout, copied
        self._loop = channel.network.loop
        self.deadline_s = None if timeout is None else self._loop.time() + timeout
        self._replies: deque[bytes] = deque()
        self._changed = asyncio.Event()
        self._ended: Any = None
        """True: with status OK; else the failure."""
        self._connection: NetConnection | None = None
        self._served: ServedCall | None = None
        """None: it has not begun, or it has ended."""
        self._read = 0
        self._answer: bytes | None = None
        """The single reply; None where none has come."""
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
        self._served = ServedCall(self, connection, self.channel.network.listeners.get(self.channel.target))
        connection.to_server.send(self._served.begin)

    def _broke(self, why: str) -> None:
        self.end(_UNAVAILABLE, why)

    def arrived(self, reply: bytes) -> None:
        self._replies.append(reply)
        self._changed.set()

    def answered(self, reply: bytes | None, code: Any, details: str, trailing: Any) -> None:
        """The server has ended the call; a single reply comes with its status."""
        self._served = None
        self._copied = self._copied and code is grpc.StatusCode.OK
        self._answer = reply
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
            self._copy(self._connection)
            self._connection.on_break.pop(self._broke, None)
            if self._served is not None and not self._connection.broken:
                self._connection.to_server.send(self._served.cancel)

    def _copy(self, connection: NetConnection) -> None:
        """A copy may follow, but not of what was refused, even in part: a caller who was refused knows that nothing
        was done.
        """
        if not self._copied or not (after_s := connection.network.copied_after_s(connection.client, connection.server)):
            return
        if self._answer is None or not refuses_part(self._parse(self._answer)):
            self._loop.call_later(after_s, LateCopy(self, connection, None).begin)

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
