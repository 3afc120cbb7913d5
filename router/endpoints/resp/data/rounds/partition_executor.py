"""The executor of one partition: the queue of its commands, and their rounds. The package says what holds."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Final, NamedTuple

from log_tier.concurrency.backoff import Backoff
from log_tier.model.batch import Columns
from log_tier.model.errors import (
    ConditionFailed,
    DeadlineExceeded,
    DuramenError,
    LimitExceeded,
    ShuttingDown,
    WriteUnknown,
)
from log_tier.model.identifiers import Offset, Partition
from router.data.freshness import Freshness
from router.endpoints.resp.data.reads import Reads
from router.endpoints.resp.data.rounds.jobs import Group, Job, Owner, Work, groups_of, records_of
from router.endpoints.resp.data.rounds.turn_budget import EXECUTION_S, TurnBudget
from router.endpoints.resp.data.shared_writer import SharedWriter
from router.endpoints.resp.data.tables import ServedTable
from router.endpoints.resp.data.views import Overlay, TooLongForATurn
from router.endpoints.resp.wire.limits import AT_ONCE_KEYS_MAX, REQUEST_TIMEOUT_S
from serving_tier.fold.entry import Entry

__all__ = ["PartitionExecutor", "execute"]

logger = logging.getLogger(__name__)

# Commands of one round: some 5 ms of the event loop, and how much runs again where a group is rejected.
_ROUND_MAX: Final = 1024

# And their keys, but for a command that has more by itself.
_ROUND_KEYS_MAX: Final = AT_ONCE_KEYS_MAX

# What a round may write and answer before the rest of it waits for the next one: half of a batch of the log, and what a
# connection may have unread before its commands wait.
_ROUND_BYTES_MAX: Final = 4 << 20

# After a rejection the next round begins at once; after several, another server's clients write these keys all the
# time.
_PAUSE_AFTER: Final = 3
_PAUSE_FIRST_S: Final = 0.001
_PAUSE_MAX_S: Final = 0.05


class _Verdict:
    """What became of a group's records; the writer settles it."""

    def __init__(self, group: Group, guards: int, loop: asyncio.AbstractEventLoop) -> None:
        self.group = group
        self.guards = guards
        """Records that come before the first write."""
        self.known: asyncio.Future[DuramenError | Offset] = loop.create_future()

    def settle(self, error: DuramenError | None, offset: Offset) -> None:
        """See `Waiter`."""
        if not self.known.done():
            self.known.set_result(offset if error is None else error)


class PartitionExecutor:
    """Executes the commands of one partition, round after round."""

    def __init__(
        self,
        reads: Reads,
        writer: SharedWriter,
        clock_ms: Callable[[], int],
        table: ServedTable,
        partition: Partition,
        budget: TurnBudget,
    ) -> None:
        self._reads = reads
        self._writer = writer
        self._clock_ms = clock_ms
        self._table = table
        self._partition = partition
        self._budget = budget
        self._loop = asyncio.get_running_loop()
        self._queues: dict[Owner, deque[Work]] = {}
        """By owner, each in its order; none is empty."""
        self._each_max = _ROUND_MAX
        """How many of one owner a round takes: see the module's text."""
        self._round_max = _ROUND_MAX
        """How many in all: fewer after a round that was too large for one batch or one read."""
        self._running: list[Work] = []
        """What the round that is under way has taken."""
        self._back: list[Work] = []
        """Commands of that round that the next one has to take again."""
        self.task: asyncio.Task[None] | None = None

    def add(self, job: Work) -> None:
        """Queue a command, or a run of them."""
        queue = self._queues.get(job.owner)
        if queue is None:
            self._queues[job.owner] = deque((job,))
        else:
            queue.append(job)

    @property
    def waits(self) -> bool:
        """Is there anything that could run now?"""
        return any(not owner.stalled for owner in self._queues)

    @property
    def empty(self) -> bool:
        """Is there nothing at all?"""
        return not self._queues

    async def work(self) -> None:
        """Round after round, until nothing can run."""
        backoff = Backoff(_PAUSE_FIRST_S, _PAUSE_MAX_S)
        try:
            while jobs := self._take():
                self._running = jobs
                tries = await self._round(jobs)
                self._running = []
                self._put_back(jobs)
                if tries >= _PAUSE_AFTER:
                    await backoff.pause()
                else:
                    backoff.reset()
        except BaseException as error:
            # Closed meanwhile, or a bug of ours: nobody may wait for what will not come.
            name = f"{self._table.ref.name}/{self._partition}"
            unknown = WriteUnknown(f"this server stopped before the commands on {name} were judged: read the keys")
            for work in self._running:
                for part in work.parts():
                    part.fail(unknown)
            self.abandon()
            if not isinstance(error, asyncio.CancelledError):
                logger.exception("the commands on %s end", name)
            raise
        finally:
            self._table.claims[self._partition] = frozenset()

    def abandon(self) -> None:
        """Give up what has not begun."""
        for queue in self._queues.values():
            for job in queue:
                job.fail(ShuttingDown(f"this server stopped before a command on {self._table.ref.name} ran"))
        self._queues.clear()

    def _take(self) -> list[Work]:
        """The commands of the next round: the first ones of each owner; the owner that waits longest comes first."""
        jobs: list[Work] = []
        cost = keys = 0
        for owner in list(self._queues):
            if owner.stalled:
                continue
            queue = self._queues[owner]
            most = min(self._each_max, self._round_max)
            if queue[0].cost > most:
                queue.extendleft(reversed(queue.popleft().alone()))
            taken, room = 0, min(most, self._round_max - cost)
            for job in queue:
                room -= job.cost
                keys += len(job.keys)
                if (jobs or taken) and (room < 0 or keys > _ROUND_KEYS_MAX):
                    break
                taken += 1
                cost += job.cost
            if taken:
                del self._queues[owner]
                jobs += [queue.popleft() for _ in range(taken)]
                if queue:
                    self._queues[owner] = queue
            if cost >= self._round_max or keys > _ROUND_KEYS_MAX:
                break
        return jobs

    def _put_back(self, jobs: Sequence[Work]) -> None:
        """Queue commands of a round that have to run again, before everything else of their owners, in their order."""
        if not self._back:
            return
        back, self._back = set(map(id, self._back)), []
        for job in reversed([part for work in jobs for part in work.parts()]):
            if id(job) not in back:
                continue
            queue = self._queues.get(job.owner)
            if queue is None:
                self._queues[job.owner] = deque((job,))
            else:
                queue.appendleft(job)

    # --- a round

    async def _round(self, jobs: list[Work]) -> int:
        """Run each command once; how often one that has to run again was rejected."""
        found = await self._read(jobs)
        if found is None:
            return 0
        tries = 0
        groups, now_ms = groups_of(jobs), self._clock_ms()
        keys = sum([len(job.keys) for job in jobs])
        if keys > AT_ONCE_KEYS_MAX:
            ran = await asyncio.to_thread(execute, groups, found, now_ms)
        else:
            await self._budget.take(keys)
            began_s = perf_counter()
            try:
                ran = execute(groups, found, now_ms, in_turn=True)
            except TooLongForATurn:
                self._budget.spend()
                ran = await asyncio.to_thread(execute, groups_of(jobs), found, now_ms)
            if perf_counter() - began_s > EXECUTION_S / 2:
                self._budget.spend()
        for verdict in self._write(ran):
            known = await verdict.known
            group = verdict.group
            if isinstance(known, ConditionFailed):
                tries = max(tries, self._once_more(group.alone()))
            elif isinstance(known, DuramenError):
                self._failed(group, known)
            else:
                _answer(group.jobs, known + verdict.guards)
        self._table.claims[self._partition] = frozenset()
        self._each_max = max(1, self._each_max // 2) if tries else min(_ROUND_MAX, self._each_max * 2)
        return tries

    async def _read(self, jobs: list[Work]) -> dict[bytes, Entry | None] | None:
        """What the keys hold, read in one transaction; None if the commands got an error, or were put back."""
        written: set[bytes] = set()
        keys: dict[bytes, None] = {}
        for job in jobs:
            if written:
                keys.update((key, None) for key in job.asked if key not in written)
            else:
                keys.update(dict.fromkeys(job.asked))
            written.update(job.blind)
        if not keys:
            return {}
        table, partition = self._table, self._partition
        table.claims[partition] = keys.keys()
        await self._writer.settled(table, partition, keys.keys())
        try:
            found = self._reads.at_once(table, list(keys))
            return found if found is not None else await self._reads.entries(table, list(keys), Freshness())
        except LimitExceeded as error:
            self._too_large(jobs, error)
        except DuramenError as error:
            _fail(jobs, error)
        return None

    def _too_large(self, works: Sequence[Work], error: LimitExceeded) -> None:
        """All of it is too much at once: half as many the next time. One command is refused."""
        jobs = [job for work in works for job in work.alone()]
        if len(jobs) == 1:
            jobs[0].fail(error)
        else:
            self._round_max = max(1, len(jobs) // 2)
            self._back += jobs

    def _write(self, ran: Sequence[_Ran]) -> list[_Verdict]:
        """Give the writer what each group changes, and put back the commands for which the round was too small."""
        verdicts: list[_Verdict] = []
        for group, overlay, records, left in ran:
            self._back += left
            if not group.jobs:
                continue
            if records is None:
                _answer(group.jobs, 0)
                continue
            guards = len(records.keys) - len(overlay.keys)
            verdict = self._submit(group, records, guards, judged=bool(overlay.conditions))
            if verdict is not None:
                verdicts.append(verdict)
        return verdicts

    def _submit(self, group: Group, records: Columns, guards: int, *, judged: bool) -> _Verdict | None:
        verdict = _Verdict(group, guards, self._loop)
        try:
            self._writer.submit_columns(self._table, self._partition, records, verdict, judged=judged)
        except LimitExceeded as error:
            self._too_large(group.jobs, error)
        except DuramenError as error:
            self._failed(group, error)
        else:
            self._round_max = min(_ROUND_MAX, self._round_max * 2)
            return verdict
        return None

    def _failed(self, group: Group, error: DuramenError) -> None:
        """The group was not written, or nobody knows: its writers get `error`, and the other commands run again."""
        jobs = group.alone()
        _fail([job for job in jobs if job.wrote], error)
        self._back += [job for job in jobs if not job.wrote]

    def _once_more(self, jobs: list[Job]) -> int:
        """A rejected group runs again, but for those who have tried for too long; how often it was rejected."""
        now = self._loop.time()
        for job in jobs:
            job.tries += 1
            job.deadline = job.deadline or now + REQUEST_TIMEOUT_S
        _fail(
            [job for job in jobs if job.deadline <= now],
            DeadlineExceeded(
                f"others wrote the same keys of {self._table.ref.name} between every read and write for "
                f"{REQUEST_TIMEOUT_S:g} s; nothing was done"
            ),
        )
        self._back += [job for job in jobs if job.deadline > now]
        return max(job.tries for job in jobs)


class _Ran(NamedTuple):
    """A group that has run."""

    group: Group
    overlay: Overlay
    records: Columns | None
    """None where nothing is changed."""
    left: list[Work]
    """Commands of a run that did not fit in the round."""


def execute(
    groups: Sequence[Group], found: Mapping[bytes, Entry | None], now_ms: int, *, in_turn: bool = False
) -> list[_Ran]:
    """Run every group, as far as the round's bytes and its time go. For a large round it runs in a thread.

    Raises `TooLongForATurn` where it is not in one and an EXEC takes its time; what has run then is done again.
    """
    ran: list[_Ran] = []
    room = _ROUND_BYTES_MAX
    ends_s = perf_counter() + EXECUTION_S

    def late() -> bool:
        return perf_counter() > ends_s

    for group in groups:
        overlay = Overlay(found, now_ms, late, in_turn=in_turn)
        starts: list[int] = []
        left: list[Work] = []
        for number, job in enumerate(group.jobs):
            if room - overlay.bytes <= 0 or ((number or ran) and late()):
                left = group.jobs[number:]
                del group.jobs[number:]
                break
            before = len(overlay.keys)
            room -= job.run(overlay, room - overlay.bytes)
            starts += job.starts(before, len(overlay.keys))
            if cut := job.parts()[1:]:
                left = [*cut, *group.jobs[number + 1 :]]
                del group.jobs[number + 1 :]
                break
        room -= overlay.bytes
        ran.append(_Ran(group, overlay, records_of(overlay, starts) if overlay.keys else None, left))
    return ran


def _answer(jobs: Sequence[Work], first: int) -> None:
    """Give each command its reply. `first`: the offset of the group's first write."""
    for job in jobs:
        job.answer(first)


def _fail(jobs: Sequence[Work], error: DuramenError) -> None:
    for job in jobs:
        job.fail(error)
