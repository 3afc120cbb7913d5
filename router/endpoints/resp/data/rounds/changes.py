"""Changes: every executor of one endpoint, and who may begin a command. The package says what holds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from log_tier.model.errors import (
    ShuttingDown,
)
from log_tier.model.identifiers import Offset, Partition
from router.endpoints.resp.data.reads import Reads
from router.endpoints.resp.data.rounds.jobs import Job, Owner, Work
from router.endpoints.resp.data.rounds.partition_executor import PartitionExecutor
from router.endpoints.resp.data.rounds.turn_budget import TurnBudget
from router.endpoints.resp.data.shared_writer import SharedWriter
from router.endpoints.resp.data.tables import ServedTable
from router.endpoints.resp.data.views import Step

__all__ = ["Changes"]


class _Awaited:
    """A receiver for a task that waits."""

    def __init__(self, future: asyncio.Future[Any]) -> None:
        self._future = future

    def finish(self, reply: Any) -> None:
        """See `Receiver`."""
        if self._future.done():
            return
        if isinstance(reply, BaseException):
            self._future.set_exception(reply)
        else:
            self._future.set_result(reply)


class Changes:
    """Runs commands that read before they write, and whatever else is in a pipeline with them. Belongs to one event
    loop. `clock_ms`: expiries are judged by it and by the log's time.
    """

    def __init__(self, reads: Reads, writer: SharedWriter, clock_ms: Callable[[], int]) -> None:
        self._reads = reads
        self._writer = writer
        self._clock_ms = clock_ms
        self._loop = asyncio.get_running_loop()
        self._budget = TurnBudget()
        self._executors: dict[tuple[ServedTable, Partition], PartitionExecutor] = {}
        self._closed = False

    def begin(self, table: ServedTable, partition: Partition, job: Work) -> None:
        """Queue a command; its receiver gets the reply. Commands of one turn of the event loop are one round."""
        if self._closed:
            job.fail(ShuttingDown("this server is stopping and takes no more commands"))
            return
        place = (table, partition)
        executor = self._executors.get(place)
        if executor is None:
            executor = self._executors[place] = PartitionExecutor(
                self._reads, self._writer, self._clock_ms, table, partition, self._budget
            )
        executor.add(job)
        if executor.task is None:
            self._start(place, executor)

    async def run(
        self,
        owner: Owner,
        table: ServedTable,
        partition: Partition,
        keys: Sequence[bytes],
        step: Step,
        args: Sequence[bytes] = (),
        *,
        reads: bool = True,
        watched: Mapping[bytes, Offset] | None = None,
    ) -> Any:
        """Run `step` on `keys`, which lie in one partition, as if nothing else happened meanwhile; its reply.

        `reads`, `watched`: see `Job`. Raises `WriteUnknown`, `DeadlineExceeded`, …; a `Problem` is raised too.
        """
        future: asyncio.Future[Any] = self._loop.create_future()
        self.begin(table, partition, Job(owner, keys, step, args, _Awaited(future), reads=reads, watched=watched))
        return await future

    def resume(self) -> None:
        """An owner has read its replies: its commands may run again."""
        for place, executor in self._executors.items():
            if executor.task is None and executor.waits:
                self._start(place, executor)

    def _start(self, place: tuple[ServedTable, Partition], executor: PartitionExecutor) -> None:
        def ended(task: asyncio.Task[None]) -> None:
            executor.task = None
            if self._closed or self._executors.get(place) is not executor:
                return
            if executor.empty:
                del self._executors[place]
            elif executor.waits:
                self._start(place, executor)

        executor.task = self._loop.create_task(executor.work())
        executor.task.add_done_callback(ended)

    async def close(self) -> None:
        """End what is under way."""
        self._closed = True
        executors = list(self._executors.values())
        tasks = [executor.task for executor in executors if executor.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for executor in executors:
            executor.abandon()
        self._executors.clear()
