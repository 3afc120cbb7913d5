"""Changes: every executor of one endpoint, and whose round is next. The package says what holds."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from log_tier.concurrency.clocks import Clock
from log_tier.model.errors import ShuttingDown
from log_tier.model.identifiers import Offset, Partition
from router.endpoints.resp.data.key_views import DataCommand
from router.endpoints.resp.data.reads import Reads
from router.endpoints.resp.data.rounds.partition_executor import PartitionExecutor
from router.endpoints.resp.data.rounds.queued_commands import EXECUTION_S, Owner, QueuedCommand, Work
from router.endpoints.resp.data.rounds.refusals import Judge
from router.endpoints.resp.data.served_tables import ServedTable
from router.endpoints.resp.data.shared_writer import SharedWriter
from router.endpoints.resp.wire.limits import AT_ONCE_KEYS_MAX

__all__ = ["CommandRounds"]


class _Awaited:
    """A receiver for a task that waits."""

    def __init__(self, future: asyncio.Future[Any]) -> None:
        self._future = future

    def finish(self, reply: Any) -> None:
        if self._future.done():
            return
        if isinstance(reply, BaseException):
            self._future.set_exception(reply)
        else:
            self._future.set_result(reply)


class CommandRounds:
    """Runs commands that read before they write, and whatever else is in a pipeline with them. Belongs to one event
    loop. `clock`: turns end by it, and expiries are judged by it and by the log's time.
    """

    def __init__(self, reads: Reads, writer: SharedWriter, clock: Clock) -> None:
        self._reads = reads
        self._writer = writer
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._executors: dict[ServedTable, list[PartitionExecutor | None]] = {}
        """By table and partition; each is made when it is needed first, and kept as long as its table is there."""
        self._ready: deque[PartitionExecutor] = deque()
        """Those whose next round may begin."""
        self._held: dict[PartitionExecutor, None] = {}
        """Those whose commands wait for owners that do not read their replies, the longest first."""
        self._turn_scheduled = False
        self._closed = False

    def begin(self, table: ServedTable, partition: Partition, job: Work) -> None:
        """Queue a command; its receiver gets the reply. Commands of one turn of the event loop are one round."""
        if self._closed:
            job.fail(ShuttingDown("this server is stopping and takes no more commands"))
            return
        executors = self._executors.get(table) or self._executors_of(table)
        executor = executors[partition]
        if executor is None:
            executor = executors[partition] = PartitionExecutor(
                self._reads, self._writer, self._clock, table, partition, self._set_ready
            )
        if not executor.busy:
            self._set_ready(executor)
        executor.queues.setdefault(job.owner, deque()).append(job)

    def _executors_of(self, table: ServedTable) -> list[PartitionExecutor | None]:
        """The places of a table's executors; those of tables that are gone are forgotten. O(tables in use)."""
        for gone in [each for each in self._executors if each.gone]:
            if all(executor is None or executor.idle for executor in self._executors[gone]):
                del self._executors[gone]
        return self._executors.setdefault(table, [None] * table.partitions)

    async def run(
        self,
        owner: Owner,
        table: ServedTable,
        partition: Partition,
        keys: Sequence[bytes],
        step: DataCommand,
        args: Sequence[bytes] = (),
        *,
        reads: bool = True,
        watched: Mapping[bytes, Offset] | None = None,
    ) -> Any:
        """Run `step` on `keys`, which lie in one partition, as if nothing else happened meanwhile; its reply.

        `reads`, `watched`: see `QueuedCommand`. Raises `WriteUnknown`, `DeadlineExceeded`, …, or a `Problem`.
        """
        future: asyncio.Future[Any] = self._loop.create_future()
        self.begin(
            table, partition, QueuedCommand(owner, keys, step, args, _Awaited(future), reads=reads, watched=watched)
        )
        return await future

    def judge(self, owner: Owner, judge: Judge) -> None:
        """What an owner may do has changed: have its commands refused that no round has taken, and that it may not run.
        O(executors), and a microsecond a command.
        """
        for executor in self._all():
            for job in executor.queues.get(owner, ()):
                job.judge(judge)

    def resume(self) -> None:
        """An owner has read its replies: its commands may run again."""
        held, self._held = self._held, {}
        for executor in held:
            if not executor.busy:
                self._set_ready(executor)

    def _all(self) -> list[PartitionExecutor]:
        return [executor for each in self._executors.values() for executor in each if executor is not None]

    # --- turns

    def _set_ready(self, executor: PartitionExecutor) -> None:
        executor.busy = True
        self._ready.append(executor)
        if not self._turn_scheduled:
            self._turn_scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        """Rounds, one after the other, as far as one turn of the event loop goes: the rounds of all partitions together
        work on so many keys, or take so much time, before others run.
        """
        ready, left, now_s = self._ready, AT_ONCE_KEYS_MAX, self._clock.monotonic_s
        ends_s = now_s() + EXECUTION_S / 2
        try:
            while ready and not self._closed:
                keys = ready[0].take()
                if left < AT_ONCE_KEYS_MAX and (keys > left or now_s() > ends_s):
                    break
                left -= keys
                executor = ready.popleft()
                if keys:
                    executor.round()
                else:
                    self._held[executor] = None
        finally:
            self._turn_scheduled = bool(ready) and not self._closed
            if self._turn_scheduled:
                self._loop.call_soon(self._turn)

    async def close(self) -> None:
        """End what is under way."""
        self._closed = True
        try:
            await asyncio.gather(*(executor.close() for executor in self._all()))
        finally:
            self._executors.clear()
