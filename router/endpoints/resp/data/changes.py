"""Commands that read before they write: INCR, DEL, SET NX, EXEC. Decided by the log, made here.

For each partition they gather while a round is under way. A round reads the keys of all of them at one moment, runs
them one after the other on an `Overlay` as a Redis server would, and writes what changed:

    round   read keys ──▶ run ──▶ groups of commands that share keys ──▶ one batch ──▶ verdicts
                ▲                                                                          │
                └───────── those whose group was rejected ◀────────────────────────────────┘

A **group** is one atomic group of records. The first record of each key that the group has read carries the condition
that the key is still what was read (its version, or absent); keys that were only read are guarded by a no-op with that
condition. So the fold accepts a group only where nothing came between the read and the write, from here or elsewhere,
and every replica decides alike (I6). A rejected group's commands run again, on what is there then.

Fifty clients that increment one key are one group of fifty records and one sync; fifty keys are fifty groups of one
batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, Final

from log_tier.concurrency.backoff import Backoff
from log_tier.concurrency.tasks import TaskSet
from log_tier.model.errors import ConditionFailed, DeadlineExceeded, DuramenError
from log_tier.model.identifiers import NOTHING, Offset, Partition, TableId
from log_tier.model.record import Condition, Expiry, Operation, attribute_of
from router.endpoints.resp.data.reads import Freshness, Reads
from router.endpoints.resp.data.shared_writer import Record, SharedWriter
from router.endpoints.resp.data.tables import ServedTable
from router.endpoints.resp.data.views import Overlay
from router.endpoints.resp.wire.limits import REQUEST_TIMEOUT_S
from router.endpoints.resp.wire.replies import NULL_ARRAY, Problem
from serving_tier.fold.entry import NEVER

__all__ = ["Changes", "records_of"]

# Commands of one round: bounds the batch, and how much runs again where a group is rejected.
_ROUND_MAX: Final = 1024

# After a rejection the next round begins at once; after several, somebody else writes these keys all the time.
_PAUSE_AFTER: Final = 3
_PAUSE_FIRST_S: Final = 0.001
_PAUSE_MAX_S: Final = 0.05


class _Job:
    """One command, or one EXEC."""

    __slots__ = ("deadline", "future", "keys", "run", "tries", "watched")

    def __init__(
        self,
        keys: Sequence[bytes],
        run: Callable[[Overlay], Any],
        watched: Mapping[bytes, Offset],
        future: asyncio.Future[Any],
        deadline: float,
    ) -> None:
        self.keys = keys
        self.run = run
        self.watched = watched
        self.future = future
        self.deadline = deadline
        self.tries = 0


class _Group:
    """Commands of one round that share keys; told by the writer what became of their records."""

    def __init__(self, jobs: list[_Job], keys: set[bytes], loop: asyncio.AbstractEventLoop) -> None:
        self.jobs = jobs
        self.keys = keys
        self.replies: list[Any] = []
        self.verdict: asyncio.Future[DuramenError | None] = loop.create_future()

    def settle(self, error: DuramenError | None, offset: Offset) -> None:
        """See `Waiter`."""
        if not self.verdict.done():
            self.verdict.set_result(error)


class Changes:
    """Runs commands that read before they write. Belongs to one event loop."""

    def __init__(self, reads: Reads, writer: SharedWriter, clock_ms: Callable[[], int]) -> None:
        self._reads = reads
        self._writer = writer
        self._clock_ms = clock_ms
        self._loop = asyncio.get_running_loop()
        self._queues: dict[tuple[TableId, Partition], list[_Job]] = {}
        self._tasks = TaskSet()

    async def run(
        self,
        table: ServedTable,
        partition: Partition,
        keys: Sequence[bytes],
        step: Callable[[Overlay], Any],
        *,
        watched: Mapping[bytes, Offset] | None = None,
    ) -> Any:
        """Run `step` on `keys`, which lie in one partition, as if nothing else happened meanwhile; its reply.

        `step` may run several times; it changes nothing but its view. `watched`: the versions that keys must still
        have; where one has not, the reply is `NULL_ARRAY`. Raises `Problem`, `WriteUnknown`, `DeadlineExceeded`, …
        """
        future: asyncio.Future[Any] = self._loop.create_future()
        job = _Job(keys, step, watched or {}, future, self._loop.time() + REQUEST_TIMEOUT_S)
        place = (table.ref.id, partition)
        queue = self._queues.get(place)
        if queue is None:
            self._queues[place] = [job]
            self._tasks.start(self._work(table, partition))
        else:
            queue.append(job)
        return await future

    async def _work(self, table: ServedTable, partition: Partition) -> None:
        """Round after round, until nobody waits."""
        place = (table.ref.id, partition)
        queue = self._queues[place]
        jobs: list[_Job] = []
        backoff = Backoff(_PAUSE_FIRST_S, _PAUSE_MAX_S)
        try:
            while queue:
                jobs, queue[:] = queue[:_ROUND_MAX], queue[_ROUND_MAX:]
                again = await self._round(table, partition, jobs)
                queue[:0] = again
                tries = max((job.tries for job in again), default=0)
                if tries < _PAUSE_AFTER:
                    backoff.reset()
                else:
                    await backoff.pause()
        except BaseException as error:
            reason = DuramenError(f"the commands of {table.ref.name}/{partition} ended: {error!r}")
            for job in (*jobs, *queue):
                if not job.future.done():
                    job.future.set_exception(reason)
            raise
        finally:
            del self._queues[place]

    async def _round(self, table: ServedTable, partition: Partition, jobs: list[_Job]) -> list[_Job]:
        """Run each command once; return those that have to run again."""
        keys = list(dict.fromkeys(key for job in jobs for key in (*job.keys, *job.watched)))
        try:
            found = await self._reads.entries(table, keys, Freshness())
        except DuramenError as error:
            _fail(jobs, error)
            return []
        now_ms = self._clock_ms()
        waiting: list[_Group] = []
        for group in _grouped(jobs, self._loop):
            overlay = Overlay({key: found[key] for key in group.keys}, now_ms)
            for job in group.jobs:
                group.replies.append(_reply(job, overlay))
            if not overlay.writes:
                _answer(group)
                continue
            try:
                self._writer.submit(table, partition, records_of(overlay), group, judged=True)
            except DuramenError as error:
                _fail(group.jobs, error)
            else:
                waiting.append(group)
        again: list[_Job] = []
        for group in waiting:
            refusal = await group.verdict
            if refusal is None:
                _answer(group)
            elif isinstance(refusal, ConditionFailed):
                again += self._once_more(table, group.jobs)
            else:
                _fail(group.jobs, refusal)
        return again

    def _once_more(self, table: ServedTable, jobs: list[_Job]) -> list[_Job]:
        now = self._loop.time()
        late = [job for job in jobs if job.deadline <= now]
        _fail(
            late,
            DeadlineExceeded(
                f"others wrote the same keys of {table.ref.name} between every read and write for "
                f"{REQUEST_TIMEOUT_S:g} s; nothing was done"
            ),
        )
        left = [job for job in jobs if job.deadline > now and not job.future.done()]
        for job in left:
            job.tries += 1
        return left

    async def close(self) -> None:
        """End what is under way."""
        await self._tasks.close()


def _reply(job: _Job, overlay: Overlay) -> Any:
    if not all(overlay.is_still(key, version) for key, version in job.watched.items()):
        return NULL_ARRAY
    before = len(overlay.writes)
    try:
        return job.run(overlay)
    except Problem as problem:
        assert len(overlay.writes) == before, "a command that fails has changed something"
        return problem


def _answer(group: _Group) -> None:
    for job, reply in zip(group.jobs, group.replies, strict=True):
        if not job.future.done():
            job.future.set_result(reply)


def _fail(jobs: Sequence[_Job], error: DuramenError) -> None:
    for job in jobs:
        if not job.future.done():
            job.future.set_exception(copy(error))


def _grouped(jobs: Sequence[_Job], loop: asyncio.AbstractEventLoop) -> list[_Group]:
    """Commands that share keys, together; in their order. O(keys), and the merging of groups."""
    by_key: dict[bytes, _Group] = {}
    groups: dict[int, _Group] = {}
    for job in jobs:
        keys = {*job.keys, *job.watched}
        touched = {id(by_key[key]): by_key[key] for key in keys if key in by_key}
        if touched:
            group = max(touched.values(), key=lambda each: len(each.jobs))
        else:
            group = _Group([], set(), loop)
            groups[id(group)] = group
        for other in touched.values():
            if other is not group:
                group.jobs += other.jobs
                keys |= other.keys
                del groups[id(other)]
        group.jobs.append(job)
        group.keys |= keys
        for key in keys:
            by_key[key] = group
    order = {id(job): number for number, job in enumerate(jobs)}
    for group in groups.values():
        group.jobs.sort(key=lambda job: order[id(job)])
    return list(groups.values())


def records_of(overlay: Overlay) -> list[Record]:
    """The atomic group that makes an overlay's changes, if every key is still what the overlay found."""
    records: list[Record] = []
    conditioned: set[bytes] = set()
    written = {key for key, _, _ in overlay.writes}

    def add(key: bytes, operation: Operation, value: bytes, expires_at_ms: int) -> None:
        condition, version = Condition.NONE, 0
        if key not in conditioned:
            conditioned.add(key)
            version = overlay.version(key)
            condition = Condition.ABSENT if version == NOTHING else Condition.VERSION
        expiry = Expiry.NONE if expires_at_ms == NEVER else Expiry.AT
        attribute = attribute_of(operation, condition=condition, expiry=expiry, grouped=bool(records))
        records.append(Record(key, value, attribute, max(version, 0), expires_at_ms))

    for key in overlay.found:
        if key not in written:
            add(key, Operation.NOOP, b"", NEVER)
    for key, value, expires_at_ms in overlay.writes:
        if value is None:
            add(key, Operation.DELETE, b"", NEVER)
        else:
            add(key, Operation.PUT, value, expires_at_ms)
    return records
