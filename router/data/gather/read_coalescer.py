"""Reads that leave together.

While requests are under way, new calls gather; when one comes back, what has gathered leaves as one request with many
keys. A single caller finds the way free and is not delayed; a thousand callers share a few requests, and a request for
a thousand keys costs little more than one for a single key.

Two kinds of groups never hold each other up. **Shared** groups ask for the session's offsets, which replicas nearly
always have; they travel together, and a part that would wait is sent back after `_PATIENCE_S` and asked again alone.
**Own** groups (an explicit token, `strong`) may well wait, so each travels by itself. A group that must be sent again
later, because its server is away, waits outside of that path too.

`read_rounds.py` decides which groups leave, and what becomes of one that was not answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from log_tier.concurrency.backoff import Backoff
from log_tier.concurrency.tasks import TaskSet
from log_tier.model.errors import (
    DatabaseClosed,
    DeadlineExceeded,
    DuramenError,
)
from log_tier.model.identifiers import NOTHING, Offset, PartitionId
from log_tier.model.table_ref import TableRef
from log_tier.tracing.passing import joined
from log_tier.tracing.span import TRACED, Span
from router.data.gather.pending_calls import PendingCalls
from router.data.gather.read_rounds import NextStep, ReadRounds, ReadRules, ReadTerms, next_step
from router.data.gather.seen_offsets import SeenOffsets
from router.data.requests import ReadPart, ReadResult, read_part_of
from router.data.seam import DataPlane

__all__ = ["READ_RULES", "ReadCoalescer"]

READ_RULES: Final = ReadRules()

# A part that is not ready by then must not hold up the others in its request.
_PATIENCE_S: Final = 0.02

_PAUSE_FIRST_S: Final = 0.02
_PAUSE_MAX_S: Final = 0.5

# The connection's own error at the deadline says more than ours, so its deadline is a little earlier.
_MARGIN_S: Final = 0.01


_Call = tuple[asyncio.Future[ReadResult], float, Sequence[bytes]]
"""A caller's future, its deadline, and the keys that it asks for: see `PendingCalls.calls`."""


class _Group:
    """Calls for one partition that may share a part."""

    __slots__ = ("after", "callers", "count", "lag_max_ms", "partition", "reason", "seen", "strong", "table", "traced")

    def __init__(self, table: TableRef, wanted: ReadTerms, *, strong: bool, loop: asyncio.AbstractEventLoop) -> None:
        self.table = table
        self.partition, self.after, self.lag_max_ms, self.seen = wanted
        self.strong = strong
        self.callers: PendingCalls[Sequence[bytes]] = PendingCalls(loop, self._too_late)
        self.count = 0
        """Keys."""
        self.reason: DuramenError | None = None
        """Why it was not answered so far."""
        self.traced: tuple[Span, ...] = ()
        """Those of its callers that are traced."""

    def part(self, session: SeenOffsets) -> ReadPart:
        calls = self.callers.calls
        _, _, keys = calls[0]
        if len(calls) > 1:
            keys = [key for _, _, wanted in calls for key in wanted]
        if self.after is None:
            # Decided once: a group that is sent again does not wait for what the session has seen meanwhile.
            self.after = session.offsets(self.table)[self.partition.partition]
        return read_part_of((self.partition, keys, self.after, self.strong, self.lag_max_ms, None))

    def piece(self, calls: Sequence[_Call], loop: asyncio.AbstractEventLoop) -> _Group:
        """A group like this one, for other calls."""
        wanted = (self.partition, self.after, self.lag_max_ms, self.seen)
        piece = _Group(self.table, wanted, strong=self.strong, loop=loop)
        piece.traced = self.traced
        for future, deadline, keys in calls:
            piece.callers.add(future, deadline, keys)
            piece.count += len(keys)
        return piece

    def _too_late(self, last_caller: bool) -> DuramenError:
        return self.reason or DeadlineExceeded("the read was not answered in time; give it more")


class ReadCoalescer:
    """Gathers the reads of one client. Belongs to one event loop."""

    def __init__(self, connection: DataPlane, session: SeenOffsets, *, rules: ReadRules = READ_RULES) -> None:
        self._connection = connection
        self._session = session
        self._loop = asyncio.get_running_loop()
        self._rounds: ReadRounds[TableRef, _Group] = ReadRounds(rules, self._new_group)
        self._scheduled = False
        self._tasks = TaskSet()

    def submit(
        self,
        table: TableRef,
        partition: PartitionId,
        keys: Sequence[bytes],
        *,
        after: Offset | None,
        strong: bool,
        seen: bool,
        deadline: float,
        lag_max_ms: int = 0,
    ) -> asyncio.Future[ReadResult]:
        """Ask for keys of one partition; `after` None means the session's offset, `seen` that the session learns.

        The future holds one entry per key, or raises the typed error, and not later than at the deadline. Never waits.
        """
        wanted = (partition, after, lag_max_ms, seen)
        future: asyncio.Future[ReadResult] = self._loop.create_future()
        if strong or (after is not None and after > NOTHING):
            self._rounds.leave_alone(len(keys))
            group = _Group(table, wanted, strong=strong, loop=self._loop)
            group.count = len(keys)
            group.callers.add(future, deadline, keys)
            group.traced = TRACED.get()
            self._start([group], patience=0.0).add_done_callback(lambda _: self._rounds.ended(len(keys)))
        else:
            group = self._rounds.group_for(wanted, table, len(keys))
            group.callers.add(future, deadline, keys)
            if traced := TRACED.get():
                group.traced = joined(group.traced, traced)
        return future

    def _new_group(self, wanted: ReadTerms, table: TableRef) -> _Group:
        """A group that waits. It leaves not at once but at the end of this round of the loop: callers of the same round
        leave together.
        """
        if self._rounds.is_free and not self._scheduled:
            self._begin_round()
        return _Group(table, wanted, strong=False, loop=self._loop)

    def _begin_round(self) -> None:
        self._scheduled = True
        self._tasks.start(self._leave())

    async def _leave(self) -> None:
        """Send what has gathered until this task runs."""
        self._scheduled = False
        groups = self._rounds.leave()
        if self._rounds.may_leave:
            self._begin_round()  # the request is full
        if not groups:
            return
        try:
            await self._send(groups, _PATIENCE_S, None)
        finally:
            if self._rounds.landed() and not self._scheduled:
                self._begin_round()

    def _start(self, groups: list[_Group], *, patience: float, backoff: Backoff | None = None) -> asyncio.Task[None]:
        return self._tasks.start(self._send(groups, patience, backoff))

    async def _send(self, groups: list[_Group], patience: float, backoff: Backoff | None) -> None:
        """Send the groups once, after a pause where there is a `backoff`; `_retry` gets the unanswered ones."""
        try:
            if backoff is not None:
                await backoff.pause()
            wanted = [(group, last) for group in groups if (last := group.callers.last_deadline()) is not None]
            if not wanted:
                return
            remaining = max(last for _, last in wanted) - self._loop.time()
            groups = [group for group, _ in wanted]
            traced: tuple[Span, ...] = ()
            for group in groups:
                if group.traced:
                    traced = joined(traced, group.traced)
            if traced or TRACED.get():  # else this task's own, inherited from who began it
                TRACED.set(traced)
            results: Sequence[ReadResult | DuramenError]
            try:
                parts = [group.part(self._session) for group in groups]
                results = await self._connection.read(
                    parts, timeout=remaining - min(_MARGIN_S, remaining / 10), patience=patience
                )
            except DuramenError as error:
                results = [error] * len(groups)
            for group, result in zip(groups, results, strict=True):
                if isinstance(result, ReadResult):
                    self._answer(group, result)
                else:
                    self._retry(group, result, patience, backoff, alone=len(groups) == 1)
        except BaseException as error:
            # Closed meanwhile, or a bug of ours: nobody may wait for what will not come.
            reason = _closed() if isinstance(error, asyncio.CancelledError) else DuramenError(f"a bug: {error!r}")
            for group in groups:
                group.callers.fail(reason)
            raise

    def _retry(
        self, group: _Group, error: DuramenError, patience: float, backoff: Backoff | None, *, alone: bool
    ) -> None:
        """A part was not answered: do what can help, else fail its callers with `error`."""
        step = next_step(error, patient=not patience, alone=alone, keys=group.count)
        if step is NextStep.ALONE:
            self._start([group], patience=0.0)
        elif step is NextStep.HALVES:
            self._split(group)
        elif step is NextStep.LATER:
            group.reason = error
            self._start([group], patience=0.0, backoff=backoff or Backoff(_PAUSE_FIRST_S, _PAUSE_MAX_S))
        else:
            group.callers.fail(error)

    def _answer(self, group: _Group, result: ReadResult) -> None:
        if group.seen:
            self._session.saw(group.table, group.partition.partition, result.applied)
        for caller in group.traced:
            caller.place(group.partition.partition, result.applied)
        group.callers.settle()
        calls = group.callers.calls
        if len(calls) == 1:
            future, _, _ = calls[0]
            if not future.done():
                future.set_result(result)
            return
        applied, values, versions, expiries, _ = result
        at = 0
        for future, _, keys in calls:
            end = at + len(keys)
            if not future.done():
                future.set_result(
                    ReadResult(applied, values[at:end], versions[at:end], expiries[at:end] if expiries else None)
                )
            at = end

    def _split(self, group: _Group) -> None:
        """The reply would be too large: ask in two halves."""
        group.callers.settle()
        calls = group.callers.calls
        if len(calls) > 1:
            middle = len(calls) // 2
            for half in (calls[:middle], calls[middle:]):
                self._start([group.piece(half, self._loop)], patience=0.0)
            return
        self._tasks.start(self._read_halves(group, calls[0]))

    async def _read_halves(self, group: _Group, call: _Call) -> None:
        future, deadline, keys = call
        middle = len(keys) // 2
        halves: list[asyncio.Future[ReadResult]] = []
        for half in (keys[:middle], keys[middle:]):
            halves.append(self._loop.create_future())
            self._start([group.piece([(halves[-1], deadline, half)], self._loop)], patience=0.0)
        try:
            first, second = await asyncio.gather(*halves)
        except DuramenError as error:
            group.callers.fail(error)
            return
        except asyncio.CancelledError:
            group.callers.fail(_closed())
            raise
        if not future.done():
            future.set_result(_joined(first, second))

    async def close(self) -> None:
        """End what is under way; its callers get `DatabaseClosed`."""
        waiting = self._rounds.close(_closed())
        try:
            await self._tasks.close()
        finally:
            for group in waiting:
                group.callers.fail(_closed())


def _closed() -> DatabaseClosed:
    return DatabaseClosed("the database was closed; connect or open again")


def _joined(first: ReadResult, second: ReadResult) -> ReadResult:
    expiries = None
    if first.expiries or second.expiries:
        expiries = [*(first.expiries or [0] * len(first.values)), *(second.expiries or [0] * len(second.values))]
    return ReadResult(
        min(first.applied, second.applied),
        [*first.values, *second.values],
        [*first.versions, *second.versions],
        expiries,
    )
