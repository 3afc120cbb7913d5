"""The executor of one partition: the queue of its commands, and their rounds. The package says what holds."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from log_tier.concurrency.backoff import Backoff
from log_tier.concurrency.clocks import Clock
from log_tier.concurrency.tasks import end_tasks
from log_tier.model.errors import (
    ConditionFailed,
    DuramenError,
    LimitExceeded,
    Rejected,
    RowRejected,
    ShuttingDown,
    UniqueViolation,
    WriteUnknown,
)
from log_tier.model.identifiers import NOTHING, Offset, Partition, PartitionName
from router.data.freshness import Freshness
from router.endpoints.resp.data.key_views import TooLongForATurn
from router.endpoints.resp.data.reads import Reads
from router.endpoints.resp.data.rounds.queued_commands import (
    Group,
    Owner,
    QueuedCommand,
    Ran,
    Work,
    execute,
    fail_all,
    give_up_late,
)
from router.endpoints.resp.data.rounds.round_keys import asked_keys, claimed_keys, executed_in_thread
from router.endpoints.resp.data.served_tables import ServedTable
from router.endpoints.resp.data.shared_writer import SharedWriter
from router.endpoints.resp.wire.limits import AT_ONCE_KEYS_MAX
from serving_tier.fold.entry import LiveEntry

__all__ = ["PartitionExecutor", "execute"]

logger = logging.getLogger(__name__)

# Commands of one round: some 5 ms of the event loop, and how much runs again where a group is rejected. Each round
# waits for a sync and an apply, so a pipeline of thousands is quicker in few rounds.
_ROUND_MAX: Final = 1536

# And their keys, but for a command that has more by itself. Those of a run count half, as its commands do.
_ROUND_KEYS_MAX: Final = AT_ONCE_KEYS_MAX

# A round with more keys reads them in one turn of the event loop and runs in the next.
_READ_APART_KEYS: Final = 1024

# After a rejection the next round begins at once; after several, another server's clients write these keys all the
# time.
_PAUSE_AFTER: Final = 3
_PAUSE_FIRST_S: Final = 0.001
_PAUSE_MAX_S: Final = 0.05


class _Verdict:
    """What became of a group's records; the writer settles it."""

    __slots__ = ("_executor", "group", "guards", "known")

    def __init__(self, executor: PartitionExecutor, group: Group, guards: int) -> None:
        self._executor = executor
        self.group = group
        self.guards = guards
        """Records that come before the first write."""
        self.known: DuramenError | Offset = NOTHING

    def settle(self, error: DuramenError | None, offset: Offset) -> None:
        self.known = offset if error is None else error
        self._executor.settled(self)


class PartitionExecutor:
    """Executes the commands of one partition, round after round.

    It calls `ready` when its next round may begin; then `take` and `round` are called, in one turn of the event loop. A
    round for which everything is at hand runs at once; another one waits in a task.
    """

    def __init__(
        self,
        reads: Reads,
        writer: SharedWriter,
        clock: Clock,
        table: ServedTable,
        partition: Partition,
        ready: Callable[[PartitionExecutor], None],
    ) -> None:
        self._reads = reads
        self._writer = writer
        self._clock = clock
        self._table = table
        self._partition = partition
        self._ready = ready
        self._loop = asyncio.get_running_loop()
        self.queues: dict[Owner, deque[Work]] = {}
        """What is queued, by owner, each in its order; none is empty."""
        self._each_max = _ROUND_MAX
        """How many of one owner a round takes: see the module's text."""
        self._round_max = _ROUND_MAX
        """How many in all: fewer after a round that was too large for one batch or one read, and as many as the last
        one managed where that was cut: what is put back is grouped again."""
        self.busy = False
        """Is it ready, or is a round under way?"""
        self._running: list[Work] = []
        """What the round that is under way has taken."""
        self._found: Mapping[bytes, LiveEntry | None] | None = None
        self._read_at = NOTHING
        """What the keys of that round hold, if a task has waited for it; in a state that has this offset, or more."""
        self._unjudged: set[_Verdict] = set()  # of that round
        self._back: list[Work] = []
        """Commands of that round that the next one has to take again."""
        self._tries = 0  # how often one of those was rejected
        self._backoff: Backoff | None = None
        """Pauses between rounds that were rejected again and again."""
        self._task: asyncio.Task[None] | None = None  # waits for what the round needs

    @property
    def idle(self) -> bool:
        """Is nothing queued and nothing under way?"""
        return not self.busy and not self.queues

    async def close(self) -> None:
        """End what is under way, and give up what has not begun."""
        try:
            await end_tasks(self._task)
        finally:
            self._abandon()

    def _abandon(self) -> None:
        """This server stops, or there is a bug of ours: nobody may wait for what will not come."""
        name = f"{self._table.ref.name}/{self._partition}"
        unknown = WriteUnknown(f"this server stopped before the commands on {name} were judged: read the keys")
        fail_all([part for work in self._running for part in work.parts()], unknown)
        for queue in self.queues.values():
            fail_all(queue, ShuttingDown(f"this server stopped before a command on {self._table.ref.name} ran"))
        self.queues.clear()
        self._unjudged.clear()
        self._running, self._back, self._found = [], [], None
        self._table.claims[self._partition] = frozenset()
        self.busy = False

    def _broken(self) -> None:
        """There is a bug, which is raised on: the executor begins anew with the commands that come then."""
        logger.exception("the commands on %s end", PartitionName(self._table.ref.name, self._partition))
        self._abandon()

    def take(self) -> int:
        """Take the commands of the next round, if none were taken before; returns their weight in keys. 0: no round
        begins.
        """
        if not self._running:
            self._running = self._take()
            self.busy = bool(self._running)
        return _weight(self._running)

    def _take(self) -> list[Work]:
        """The commands of the next round: the first ones of each owner; the owner that waits longest comes first."""
        jobs: list[Work] = []
        cost = keys = 0
        for owner in list(self.queues):
            if owner.stalled:
                continue
            queue = self.queues[owner]
            most = min(self._each_max, self._round_max)
            if queue[0].cost > most:
                queue.extendleft(reversed(queue.popleft().pieces(most)))
            taken, room = 0, min(most, self._round_max - cost)
            for job in queue:
                room -= job.cost
                keys += job.weight
                if (jobs or taken) and (room < 0 or keys > _ROUND_KEYS_MAX):
                    break
                taken += 1
                cost += job.cost
            if taken:
                del self.queues[owner]
                jobs += [queue.popleft() for _ in range(taken)]
                if queue:
                    self.queues[owner] = queue
            if cost >= self._round_max or keys > _ROUND_KEYS_MAX:
                break
        return jobs

    def _put_back(self, jobs: Sequence[Work]) -> None:
        """Queue commands of a round that have to run again, before everything else of their owners, in their order."""
        back, self._back = set(map(id, self._back)), []
        for job in reversed([part for work in jobs for part in work.parts()]):
            if id(job) not in back:
                continue
            queue = self.queues.get(job.owner)
            if queue is None:
                self.queues[job.owner] = deque((job,))
            else:
                queue.appendleft(job)

    # --- a round

    def round(self) -> None:
        """Run the commands that `take` took: now if all that they need is at hand, else in a task."""
        try:
            jobs, found = self._running, self._found
            if found is None:
                found = self._claim(jobs)
                if found is None:
                    self._task = self._loop.create_task(self._wait(jobs))
                    return
                if len(found) > _READ_APART_KEYS:
                    self._found = found
                    self._ready(self)
                    return
            self._found = None
            try:
                now_ms, now_s = self._clock.wall_ms(), self._clock.monotonic_s
                together = self._table.takes_together
                ran = execute(jobs, found, now_ms, now_s, in_turn=True, read_at=self._read_at, together=together)
            except TooLongForATurn:
                self._task = self._loop.create_task(self._wait(jobs, found))
                return
            self._write(ran)
        except Exception:
            self._broken()
            raise

    def _claim(self, jobs: Sequence[Work]) -> Mapping[bytes, LiveEntry | None] | None:
        """What the keys hold, read in one transaction; None if it has to be waited for, or is too much for a turn."""
        if _weight(jobs) > _ROUND_KEYS_MAX:
            return None
        keys = list(dict.fromkeys(jobs[0].asked)) if len(jobs) == 1 else asked_keys(jobs)
        table, partition = self._table, self._partition
        if keys:
            table.claims[partition] = frozenset(keys)
        if self._writer.under_way(table, partition, keys):
            return None
        replica = table.replicas[partition]
        self._read_at = NOTHING if replica is None else replica.index.applied
        return self._reads.of_partition(table, partition, keys) if keys else {}

    async def _wait(self, jobs: list[Work], found: Mapping[bytes, LiveEntry | None] | None = None) -> None:
        """Read what is not at hand, and run a large round in a thread. `found`: what it holds, where a turn was too
        short for it.
        """
        try:
            large = found is not None or _weight(jobs) > _ROUND_KEYS_MAX
            if found is None:
                found = await self._read(jobs, large=large)
            if found is None:
                self._end()
            elif large:
                now_ms, now_s = self._clock.wall_ms(), self._clock.monotonic_s
                where = self._read_at, self._table.takes_together
                ran = await asyncio.to_thread(executed_in_thread, jobs, found, now_ms, now_s, *where)
                self._write(ran)
                self._loop.run_in_executor(None, ran.clear)
            else:
                self._found = found
                self._ready(self)
        except Exception:
            self._broken()
            raise

    async def _read(self, jobs: list[Work], *, large: bool) -> dict[bytes, LiveEntry | None] | None:
        """What the keys hold, after waiting for it; None if the commands got an error, or were put back.

        A thread looks for the keys of a `large` round. What others write to them until they are claimed is waited for.
        """
        table, partition = self._table, self._partition
        if large:
            keys, table.claims[partition] = await asyncio.to_thread(claimed_keys, jobs)
        else:
            keys = asked_keys(jobs)
        try:
            await self._writer.settled(table, partition, None if large else keys)
            self._read_at = table.floor[partition]
            return await self._reads.entries(table, keys, Freshness()) if keys else {}
        except LimitExceeded as error:
            self._too_large(jobs, error)
        except DuramenError as error:
            fail_all(jobs, error)
        return None

    def _write(self, ran: Sequence[Ran]) -> None:
        """Give the writer what each group changes, and put back the commands for which the round was too small."""
        place = (self._table, self._partition)
        managed, was_cut = sum([work.cost for each in ran for work in each.group.jobs]), False
        for group, overlay, records, left in ran:
            if left:
                self._back += left
                was_cut = True
            if not group.jobs:
                continue
            if records is None:
                _answer(group.jobs, 0)
                continue
            verdict = _Verdict(self, group, len(records.keys) - len(overlay.keys))
            self._unjudged.add(verdict)
            try:
                self._writer.submit_columns(
                    *place, records, verdict, judged=overlay.is_judged, holds_at=overlay.holds_at
                )
            except DuramenError as error:
                self._unjudged.remove(verdict)
                if isinstance(error, LimitExceeded):
                    self._too_large(group.jobs, error)
                else:
                    self._failed(group, error)
            else:
                self._round_max = min(_ROUND_MAX, self._round_max * 2)
        if was_cut:
            self._round_max = max(1, min(self._round_max, managed))
        if not self._unjudged:
            self._granted()

    def settled(self, verdict: _Verdict) -> None:
        """A verdict is known. What follows from it runs by itself: a bug of ours must not end the writer's request."""
        self._loop.call_soon(self._judge, verdict)

    def _judge(self, verdict: _Verdict) -> None:
        if verdict not in self._unjudged:
            return
        self._unjudged.remove(verdict)
        group, known = verdict.group, verdict.known
        try:
            if isinstance(known, ConditionFailed | RowRejected | UniqueViolation):
                self._tries = max(self._tries, self._once_more(group.alone(), known))
            elif isinstance(known, DuramenError):
                self._failed(group, known)
            else:
                _answer(group.jobs, known + verdict.guards)
            if not self._unjudged:
                self._granted()
        except Exception:
            self._broken()
            raise

    def _granted(self) -> None:
        """Every group of the round has its verdict."""
        self._each_max = max(1, self._each_max // 2) if self._tries else min(_ROUND_MAX, self._each_max * 2)
        self._end()

    def _end(self) -> None:
        """The round is over: the next one, if there is something for it."""
        self._table.claims[self._partition] = frozenset()
        jobs, self._running = self._running, []
        tries, self._tries = self._tries, 0
        if self._back:
            self._put_back(jobs)
        if tries >= _PAUSE_AFTER:
            self._backoff = self._backoff or Backoff(_PAUSE_FIRST_S, _PAUSE_MAX_S)
            self._loop.call_later(self._backoff.next_s(), self._ready, self)
            return
        self._backoff = None
        if self.queues:
            self._ready(self)
        else:
            self.busy = False

    def _too_large(self, works: Sequence[Work], error: LimitExceeded) -> None:
        """All of it is too much at once: half as many the next time. One command is refused."""
        jobs = [job for work in works for job in work.alone()]
        if len(jobs) == 1:
            jobs[0].fail(error)
        else:
            self._round_max = max(1, len(jobs) // 2)
            self._back += jobs

    def _failed(self, group: Group, error: DuramenError) -> None:
        """The group was not written, or nobody knows: its writers get `error`, and the other commands run again."""
        jobs = group.alone()
        fail_all([job for job in jobs if job.wrote], error)
        self._back += [job for job in jobs if not job.wrote]

    def _once_more(self, jobs: Sequence[QueuedCommand], why: Rejected) -> int:
        """A rejected group runs again, but for those who have tried for too long, and for a command that was alone and
        put what the table does not take; how often it was rejected.
        """
        if isinstance(why, RowRejected | UniqueViolation) and len(jobs) == 1:
            jobs[0].fail(why)
            return 0
        self._back += give_up_late(jobs, self._loop.time(), self._table.ref.name)
        return max(job.tries for job in jobs)


def _weight(jobs: Sequence[Work]) -> int:
    return sum([job.weight for job in jobs])


def _answer(jobs: Sequence[Work], first: int) -> None:
    """Give each command its reply. `first`: the offset of the group's first write."""
    for job in jobs:
        job.answer(first)
