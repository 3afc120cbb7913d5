"""A log that lags, or cannot be reached, when a test says so; and the clock that lag is measured with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import aclosing
from typing import Any

from log_tier.embedded import EmbeddedLog
from log_tier.model.errors import Disconnected, DuramenError
from log_tier.model.identifiers import Offset, PartitionId, TableId
from log_tier.model.log import Appended, Bounds, ReadChunk


class SteppedClock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s

    def step(self, seconds: float) -> None:
        self.now_s += seconds


class HeldLog:
    """An embedded log whose reads can be held back, whose ends can be withheld, and that can refuse appends.

    It behaves like one elsewhere.
    """

    bounds_now: Any = None

    def __init__(self, inner: EmbeddedLog) -> None:
        self.inner = inner
        self.unreachable = False
        self.silent = False
        self.refusal: DuramenError | None = None
        """Why appends are refused; None: they are not."""
        self.refused = 0
        self.asked = 0
        self._flows = asyncio.Event()
        self._flows.set()
        self._held: TableId | None = None
        self.appending = 0
        self._takes = asyncio.Event()
        self._takes.set()

    def hold_reads(self, of: TableId | None = None) -> None:
        """`of`: one topic alone, so that the catalog goes on."""
        self._held = of
        self._flows.clear()

    def release_reads(self) -> None:
        self._flows.set()

    def hold_appends(self) -> None:
        """Those of the topic whose reads are held, or were."""
        self._takes.clear()

    def release_appends(self) -> None:
        self._takes.set()

    async def read(
        self, partition: PartitionId, start: Offset, *, follow: bool, chunk_bytes: int = 1 << 20
    ) -> AsyncGenerator[ReadChunk, None]:
        reader: Any = self.inner.read(partition, start, follow=follow, chunk_bytes=chunk_bytes)
        async with aclosing(reader) as chunks:
            async for chunk in chunks:
                if self._held is None or partition.table == self._held:
                    await self._flows.wait()
                yield chunk

    async def append(self, partition: PartitionId, batch: bytes) -> Appended:
        if self.refusal is not None:
            self.refused += 1
            raise self.refusal.as_value()
        return await self.inner.append(partition, batch)

    def append_many(
        self, parts: Sequence[tuple[PartitionId, bytes]], *, gathered: bool = False
    ) -> Awaitable[list[Appended | DuramenError]]:
        if self._takes.is_set() or all(partition.table != self._held for partition, _ in parts):
            return self.inner.append_many(parts, gathered=gathered)
        return asyncio.ensure_future(self._append_later(parts))

    async def _append_later(self, parts: Sequence[tuple[PartitionId, bytes]]) -> list[Appended | DuramenError]:
        self.appending += 1
        await self._takes.wait()
        self.appending -= 1
        return await self.inner.append_many(parts)

    async def all_bounds(self, topic: TableId) -> list[Bounds]:
        self.asked += 1
        if self.silent:
            await asyncio.Event().wait()
        if self.unreachable:
            raise Disconnected("no Duramen server answers at nowhere", sent=0)
        return await self.inner.all_bounds(topic)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)
