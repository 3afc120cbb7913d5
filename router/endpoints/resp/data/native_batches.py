"""Batches that Duramen's own clients have encoded, of all connections.

Batches that come in one round of the event loop leave in one append, unchanged. They share nothing with the batches of
`shared_writer.py`, which this endpoint encodes. Every future ends: with the batch's place, or with why it was not
written, or with `WriteUnknown` where this server stops while the log has it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

from log_tier.concurrency.tasks import TaskSet
from log_tier.model.errors import DuramenError, Overloaded, ShuttingDown, WriteUnknown
from router.data.gather.rounds import PENDING_BYTES_MAX
from router.data.requests import WritePart, WriteResult
from router.data.seam import DataPlane
from router.endpoints.resp.wire.limits import REQUEST_TIMEOUT_S

__all__ = ["NativeBatches"]

# As for the endpoint's own writes: one is filled while the log syncs the other, and a request has no more than this.
_IN_FLIGHT_MAX: Final = 2
_REQUEST_BYTES_MAX: Final = 16 << 20

_CLOSE_PATIENCE_S: Final = 1.0

_Batch = tuple[WritePart, "asyncio.Future[WriteResult]"]


class NativeBatches:
    """Gathers the batches of all connections. Belongs to one event loop; `close` ends it."""

    def __init__(self, connection: DataPlane, *, pending_bytes_max: int = PENDING_BYTES_MAX) -> None:
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[_Batch] = deque()
        self._pending_bytes_max = pending_bytes_max
        self._pending_bytes = 0
        """Of what waits and of what is under way."""
        self._in_flight = 0
        self._scheduled = False
        self._closed = False
        self._tasks = TaskSet()

    def append(self, part: WritePart) -> asyncio.Future[WriteResult]:
        """Append a batch; the future ends with its place, or with why it was not written.

        Raises `Overloaded`, `ShuttingDown`.
        """
        if self._closed:
            raise ShuttingDown("this server is stopping: the batch was not sent")
        size = self._pending_bytes + len(part.batch)
        if size > self._pending_bytes_max:
            raise Overloaded(
                f"batches of {self._pending_bytes} bytes wait for the log, with this one {size}; at most "
                f"{self._pending_bytes_max} may: wait and try again",
                limit=self._pending_bytes_max,
                size=size,
            )
        self._pending_bytes = size
        future: asyncio.Future[WriteResult] = self._loop.create_future()
        self._waiting.append((part, future))
        self._schedule()
        return future

    def _schedule(self) -> None:
        if not self._scheduled and self._in_flight < _IN_FLIGHT_MAX:
            self._scheduled = True
            self._loop.call_soon(self._launch)

    def _launch(self) -> None:
        self._scheduled = False
        leaving: list[_Batch] = []
        size = 0
        while self._waiting and (not leaving or size + len(self._waiting[0][0].batch) <= _REQUEST_BYTES_MAX):
            leaving.append(self._waiting.popleft())
            size += len(leaving[-1][0].batch)
        if leaving:
            self._tasks.start(self._send(leaving, size, gathered=not self._in_flight))
            self._in_flight += 1
        if self._waiting:
            self._schedule()

    async def _send(self, leaving: Sequence[_Batch], size: int, *, gathered: bool) -> None:
        unknown = WriteUnknown("this server stopped while the log had the batch: read its keys, or send it again")
        results: Sequence[WriteResult | DuramenError] = [unknown] * len(leaving)
        try:
            parts = [part._replace(gathered=gathered) for part, _ in leaving]
            results = await self._connection.write(parts, timeout=REQUEST_TIMEOUT_S)
        except DuramenError as error:
            results = [error] * len(leaving)
        finally:
            self._in_flight -= 1
            self._pending_bytes -= size
            _settle(leaving, results)
        if self._waiting:
            self._schedule()

    async def close(self) -> None:
        """Take nothing more; what waits is not sent, and what is under way has a second to end. Idempotent."""
        self._closed = True
        waiting, self._waiting = list(self._waiting), deque()
        self._pending_bytes -= sum(len(part.batch) for part, _ in waiting)
        _settle(waiting, [ShuttingDown("this server is stopping: the batch was not sent")] * len(waiting))
        await self._tasks.close(patience_s=_CLOSE_PATIENCE_S)


def _settle(batches: Sequence[_Batch], results: Sequence[WriteResult | DuramenError]) -> None:
    for (_, future), result in zip(batches, results, strict=True):
        if future.done():
            continue
        if isinstance(result, DuramenError):
            future.set_exception(result)
        else:
            future.set_result(result)
