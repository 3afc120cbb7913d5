"""What tests put between a client and its server: a connection that counts, loses, holds and refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from log_tier.model.errors import Disconnected, DuramenError, ShuttingDown
from router.data.requests import ReadPart, ReadResult, WritePart, WriteResult
from router.data.seam import Connection

Fault = Callable[[Callable[[], Any]], Any]
"""Given the real call, make of it what the fault makes of it (a coroutine function)."""


async def lose_reply(call: Callable[[], Any]) -> Any:
    """The server does the work, and its answer is lost."""
    await call()
    raise Disconnected("the reply was lost")


async def stop_after_writing(call: Callable[[], Any]) -> Any:
    """The server does the work, and says that it is stopping: of what it did on the way it does not know."""
    await call()
    raise ShuttingDown("the server is stopping")


async def lose_request(call: Callable[[], Any]) -> Any:
    """The request is lost on the way; the client cannot know."""
    raise Disconnected("the connection broke")


async def refuse(call: Callable[[], Any]) -> Any:
    """No connection at all."""
    raise Disconnected("connection refused", sent=0)


def fail_with(error: DuramenError) -> Fault:
    """The call ends with an error, the server has seen nothing."""

    async def fault(call: Callable[[], Any]) -> Any:
        raise error

    return fault


class InBetween:
    """A `Connection` that passes everything on, and does to reads and writes what the test has set."""

    def __init__(self, inner: Connection) -> None:
        self._inner = inner
        self.reads: list[Sequence[ReadPart]] = []
        self.writes: list[Sequence[WritePart]] = []
        self.read_faults: list[Fault] = []
        """For the next reads, the first for the next one."""
        self.write_faults: list[Fault] = []
        self.scan_faults: list[Fault] = []
        self.find_faults: list[Fault] = []
        self.gate: asyncio.Event | None = None
        """While it is there and not set, reads and writes wait before they go on."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def _pass(self, call: Callable[[], Any], faults: list[Fault]) -> Any:
        if self.gate is not None:
            await self.gate.wait()
        if faults:
            return await faults.pop(0)(call)
        return await call()

    async def read(
        self, parts: Sequence[ReadPart], *, timeout: float, patience: float = 0.0
    ) -> Sequence[ReadResult | DuramenError]:
        self.reads.append(parts)
        found: Sequence[ReadResult | DuramenError] = await self._pass(
            lambda: self._inner.read(parts, timeout=timeout, patience=patience), self.read_faults
        )
        return found

    async def write(
        self, parts: Sequence[WritePart], *, timeout: float, patience: float = 0.0
    ) -> Sequence[WriteResult | DuramenError]:
        self.writes.append(parts)
        found: Sequence[WriteResult | DuramenError] = await self._pass(
            lambda: self._inner.write(parts, timeout=timeout, patience=patience), self.write_faults
        )
        return found

    async def scan(self, request: Any, *, timeout: float) -> Any:
        return await self._pass(lambda: self._inner.scan(request, timeout=timeout), self.scan_faults)

    async def find_table(self, name: str, *, timeout: float) -> Any:
        return await self._pass(lambda: self._inner.find_table(name, timeout=timeout), self.find_faults)
