"""Batches that Duramen's own clients have encoded, of all connections.

Batches that come in one round of the event loop leave in one append, unchanged. They share nothing with the batches of
`shared_writer.py`, which this endpoint encodes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from log_tier.concurrency.tasks import TaskSet
from log_tier.model.errors import DuramenError
from router.data.requests import WritePart, WriteResult
from router.data.seam import DataPlane
from router.endpoints.resp.wire.limits import REQUEST_TIMEOUT_S

__all__ = ["NativeBatches"]

# As for the endpoint's own writes: one is filled while the log syncs the other.
_IN_FLIGHT_MAX: Final = 2

_Waiting = list[tuple[WritePart, "asyncio.Future[WriteResult]"]]


class NativeBatches:
    """Gathers the batches of all connections. Belongs to one event loop."""

    def __init__(self, connection: DataPlane) -> None:
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._waiting: _Waiting = []
        self._in_flight = 0
        self._scheduled = False
        self._tasks = TaskSet()

    def append(self, part: WritePart) -> asyncio.Future[WriteResult]:
        """Append a batch; the future ends with its place, or with why it was not written."""
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
        leaving, self._waiting = self._waiting, []
        self._tasks.start(self._send(leaving, gathered=not self._in_flight))
        self._in_flight += 1

    async def _send(self, leaving: _Waiting, *, gathered: bool) -> None:
        results: Sequence[WriteResult | DuramenError]
        try:
            parts = [part._replace(gathered=gathered) for part, _ in leaving]
            results = await self._connection.write(parts, timeout=REQUEST_TIMEOUT_S)
        except DuramenError as error:
            results = [error] * len(leaving)
        finally:
            self._in_flight -= 1
        for (_, future), result in zip(leaving, results, strict=True):
            if future.done():
                continue
            if isinstance(result, DuramenError):
                future.set_exception(result)
            else:
                future.set_result(result)
        if self._waiting:
            self._schedule()
