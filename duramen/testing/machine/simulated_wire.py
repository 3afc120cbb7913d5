"""One connection between a client and an endpoint: bytes arrive late and in other pieces, and may never arrive.

Between two processes of a cluster it goes over their network, with all that happens to their links.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections import deque
from collections.abc import Callable
from typing import Any

from duramen.testing.machine.resp_words import packed, read_reply
from duramen.testing.machine.simulated_loop import SimulatedLoop
from duramen.testing.machine.simulated_network import Direction, NetConnection

__all__ = ["SimulatedWire", "WireClient", "WireCut"]

# A piece takes mostly as long as on one machine, now and then as long as on a busy network.
_PASS_S = 0.0001
_PASS_LATE_S = 0.02
_LATE_CHANCE = 0.1


class WireCut(Exception):
    """The connection ended; `replies` came before."""

    def __init__(self, replies: list[Any]) -> None:
        super().__init__(f"cut after {len(replies)} replies")
        self.replies = replies


class _Direction:
    """Bytes one way: in order, in pieces that are drawn."""

    def __init__(
        self, loop: SimulatedLoop, chance: random.Random, arrive: Callable[[bytes], None], over: Direction | None
    ) -> None:
        """`over`: half of a connection of the network; None: a way of its own."""
        self._loop, self._chance, self._arrive, self._over = loop, chance, arrive, over
        self._last_s = 0.0
        self.pending = 0
        self.is_cut = False

    def send(self, data: bytes) -> None:
        while data and not self.is_cut:
            size = self._chance.choice((len(data), len(data), self._chance.randrange(1, len(data) + 1)))
            piece, data = data[:size], data[size:]
            self.pending += len(piece)
            if self._over is not None:
                self._over.send(self._pass, piece)
                continue
            late = self._chance.random() < _LATE_CHANCE
            after_s = self._chance.random() * (_PASS_LATE_S if late else _PASS_S)
            self._last_s = max(self._last_s + 1e-9, self._loop.time() + after_s)
            self._loop.call_at(self._last_s, self._pass, piece)

    def _pass(self, piece: bytes) -> None:
        self.pending -= len(piece)
        if not self.is_cut:
            self._arrive(piece)


class SimulatedWire(asyncio.Transport):
    """The server's end of a connection, as an endpoint sees a socket."""

    def __init__(
        self,
        loop: SimulatedLoop,
        chance: random.Random,
        protocol: Any,
        client: WireClient,
        over: NetConnection | None = None,
    ) -> None:
        super().__init__()
        self._loop, self._protocol, self._client, self._over = loop, protocol, client, over
        self._context = contextvars.copy_context()
        """The server's: what a client sends is worked off in it."""
        self.to_server = _Direction(loop, chance, self._received, over.to_server if over is not None else None)
        self.to_client = _Direction(loop, chance, client.received, over.to_client if over is not None else None)
        if over is not None:
            over.on_break[self._broke] = None
        self._reads = True
        self._unread: deque[bytes] = deque()
        self._high = 1 << 16
        self._is_full = self._is_lost = False

    def _broke(self, why: str) -> None:
        self.cut()

    def _received(self, data: bytes) -> None:
        self._unread.append(data)
        self._context.run(self._hand_over)

    def _hand_over(self) -> None:
        while self._reads and self._unread and not self._is_lost:
            self._protocol.data_received(self._unread.popleft())

    def write(self, data: Any) -> None:
        self.to_client.send(bytes(data))
        self._look()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def _look(self) -> None:
        """Tell the protocol when its replies wait for the client, and when they do no more."""
        size = self.get_write_buffer_size()
        if self._is_lost:
            return
        if not self._is_full and size > self._high:
            self._is_full = True
            self._protocol.pause_writing()
        elif self._is_full and size <= self._high // 4:
            self._is_full = False
            self._protocol.resume_writing()
        if self._is_full:
            self._loop.call_later(_PASS_S, self._look)

    def get_write_buffer_size(self) -> int:
        return self.to_client.pending + self._client.unread_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = 1 << 16 if high is None else high

    def pause_reading(self) -> None:
        self._reads = False

    def resume_reading(self) -> None:
        self._reads = True
        self._loop.call_soon(self._hand_over)

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol

    def get_protocol(self) -> Any:
        return self._protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("simulated", 1) if name in ("peername", "sockname") else default

    def is_closing(self) -> bool:
        return self._is_lost

    def write_eof(self) -> None:
        self.cut()

    def close(self) -> None:
        self.cut()

    def abort(self) -> None:
        self.cut()

    def cut(self) -> None:
        """The connection ends; what is on its way arrives nowhere. Idempotent."""
        if self._is_lost:
            return
        self._is_lost = self.to_server.is_cut = self.to_client.is_cut = True
        self._client.ended.set()
        self._loop.call_soon(self._protocol.connection_lost, None, context=self._context)
        if self._over is not None:
            self._over.reset("Socket closed")


class WireClient:
    """A client that sends pipelines and waits for the replies."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self._data = b""
        self._heard = asyncio.Event()
        self._reads = True
        self.ended = asyncio.Event()
        self.wire: SimulatedWire

    @classmethod
    def connect(
        cls, loop: SimulatedLoop, chance: random.Random, protocol: Any, over: NetConnection | None = None
    ) -> WireClient:
        """A connection to an endpoint, whose protocol for it is given. To be called in the context of its process."""
        client = cls(loop)
        client.wire = SimulatedWire(loop, chance, protocol, client, over)
        protocol.connection_made(client.wire)
        return client

    @property
    def unread_bytes(self) -> int:
        """What has arrived and is not read."""
        return 0 if self._reads else len(self._data)

    def received(self, data: bytes) -> None:
        """Bytes have arrived."""
        self._data += data
        self._heard.set()

    async def call(self, commands: list[tuple[bytes, ...]], *, slow_s: float = 0.0) -> list[Any]:
        """Send commands together; their replies. `slow_s`: so long it does not read. Raises `WireCut`."""
        self.wire.to_server.send(b"".join(packed(*command) for command in commands))
        self._reads = not slow_s
        if slow_s:
            await asyncio.sleep(slow_s)
            self._reads = True
        replies: list[Any] = []
        while len(replies) < len(commands):
            replies.append(await self._next(replies))
        return replies

    async def heard(self) -> Any:
        """The next message of a client that listens. Raises `WireCut`."""
        return await self._next([])

    async def _next(self, replies: list[Any]) -> Any:
        while True:
            try:
                reply, end = read_reply(self._data)
            except IndexError:
                await self._more(replies)
            else:
                self._data = self._data[end:]
                return reply

    async def _more(self, replies: list[Any]) -> None:
        self._heard.clear()
        hearing = asyncio.ensure_future(self._heard.wait())
        ending = asyncio.ensure_future(self.ended.wait())
        try:
            await asyncio.wait([hearing, ending], return_when="FIRST_COMPLETED")
        finally:
            hearing.cancel()
            ending.cancel()
        if not hearing.done() or not self._heard.is_set():
            raise WireCut(replies)

    def close(self) -> None:
        """End the connection."""
        self.wire.cut()
