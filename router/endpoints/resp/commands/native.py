"""Duramen's own client at the RESP endpoint: one key's value with its applied offset, and batches as the client encoded
them.

    DURAMEN.READ   table-id partition after key    →  [applied offset, value or nil], or an error: ask by gRPC, or where
                                                       it is `TRYAGAIN`, after DURAMEN.AWAIT
    DURAMEN.AWAIT  table-id partition offset       →  OK, when the replica here has applied it
    DURAMEN.WRITE  table-id partition batch        →  [offset, timestamp], when it is on stable storage; `NOTWRITTEN …`
                                                       where it is sure that nothing was, another error where it is not

The batch carries its client's producer id and sequence, so one whose reply was lost may be sent again, here or by gRPC,
and takes effect once. Batches of all connections that came in one round of the event loop are one append.

These commands name their table themselves: what they fail with says nothing about the table that is selected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from log_tier.concurrency.tasks import TaskSet
from log_tier.model.errors import (
    BatchRefused,
    DiskFull,
    DuramenError,
    NotHosted,
    Overloaded,
    ShuttingDown,
    TableNotFound,
    UnknownFormat,
)
from log_tier.model.identifiers import NOTHING, Offset, Partition, TableId
from router.data.requests import Connection, WritePart, WriteResult
from router.endpoints.resp.wire.arguments import integer, text_of
from router.endpoints.resp.wire.limits import REQUEST_TIMEOUT_S
from router.endpoints.resp.wire.problems import problem_of
from router.endpoints.resp.wire.replies import Problem, Simple

if TYPE_CHECKING:
    from router.endpoints.resp.connection.client import Client

__all__ = ["Batches", "read", "wait_applied", "write"]

_NOT_HERE: Final = Problem("TRYAGAIN this server has no replica of that partition which has applied it")

# As for the endpoint's own writes: one is filled while the log syncs the other.
_IN_FLIGHT_MAX: Final = 2

# Clients ask for what was written a moment ago; what takes longer is gRPC's to wait for.
_AWAIT_S: Final = 1.0

_NOT_WRITTEN: Final = (BatchRefused, DiskFull, NotHosted, Overloaded, ShuttingDown, TableNotFound, UnknownFormat)

_Waiting = list[tuple[WritePart, "asyncio.Future[WriteResult]"]]


class Batches:
    """Gathers them. Belongs to one event loop."""

    def __init__(self, connection: Connection) -> None:
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


def read(client: Client, args: Sequence[bytes]) -> list[Any]:
    """DURAMEN.READ: see the module's text."""
    node = client.server.node
    if node is None:
        raise _NOT_HERE
    try:
        replica = node.replica(TableId(text_of(args[0])), Partition(integer(args[1])))
        index = replica.index
        applied = index.applied
        after = Offset(integer(args[2]))
        if replica.failure is not None or applied < (replica.floor if after == NOTHING else after):
            raise _NOT_HERE
        return [int(applied), index.get_value(args[3])]
    except DuramenError as error:
        raise problem_of(error) from error


async def wait_applied(client: Client, args: Sequence[bytes]) -> Simple:
    """DURAMEN.AWAIT: see the module's text."""
    node = client.server.node
    if node is None:
        raise _NOT_HERE
    try:
        replica = node.replica(TableId(text_of(args[0])), Partition(integer(args[1])))
        await replica.wait_applied(Offset(integer(args[2])), timeout=_AWAIT_S)
    except DuramenError as error:
        raise problem_of(error) from error
    return Simple("OK")


async def write(client: Client, args: Sequence[bytes]) -> list[int]:
    """DURAMEN.WRITE: see the module's text."""
    part = WritePart(TableId(text_of(args[0])), Partition(integer(args[1])), args[2])
    try:
        result = await client.server.batches.append(part)
    except _NOT_WRITTEN as error:
        raise Problem(f"NOTWRITTEN {problem_of(error).text}") from error
    except DuramenError as error:
        raise problem_of(error) from error
    return [int(result.base_offset), result.timestamp_ms]
