"""Watches: from stored batches to changes, and on again after a lost connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final, Generic, Literal, TypeVar

from duramen.client.lookup import TableLookup
from duramen.client.model.results import Before, Change
from log_tier.concurrency.backoff import Backoff
from log_tier.model.batch import decode_batch
from log_tier.model.batch_header import offsets_in, place_of, split_batches
from log_tier.model.errors import (
    DeadlineExceeded,
    Disconnected,
    InvalidRequest,
    PermissionDenied,
    TableNotFound,
    Unavailable,
)
from log_tier.model.identifiers import NOTHING, Offset, Partition, PartitionId, TableId
from log_tier.model.record import OPERATION_MASK, PLAIN_PUT, Operation
from log_tier.model.table_ref import TableRef
from log_tier.model.tokens import Token
from router.data.requests import WatchEvent

__all__ = ["Watch", "WatchedTable", "changed_runs", "changes_of", "watch_table"]

_PAUSE_FIRST_S: Final = 0.05
_PAUSE_MAX_S: Final = 1.0

_OPERATIONS: Final = {int(operation): operation for operation in Operation}


C = TypeVar("C")


class Watch(Generic[C]):
    """The changes of a table, one by one: `async for change in watch`. Close it, or use `contextlib.aclosing`.

    `await watch` returns the watch itself when its position is fixed: it shows every write that is acknowledged after
    that, at any node. Without it the first step fixes the position before it waits for a change. The blocking
    `Table.watch` returns an iterator whose position is fixed.
    """

    def __init__(self, runs: AsyncGenerator[list[C], None]) -> None:
        self._runs = runs
        self._run: Iterator[C] = iter(())
        self._begun = False

    async def _begin(self) -> Watch[C]:
        if not self._begun:
            self._begun = True
            self._run = iter(await anext(self._runs))
        return self

    def __await__(self) -> Generator[Any, None, Watch[C]]:
        return self._begin().__await__()

    def __aiter__(self) -> Watch[C]:
        return self

    async def __anext__(self) -> C:
        await self._begin()
        while True:
            for change in self._run:
                return change
            self._run = iter(await anext(self._runs))

    async def aclose(self) -> None:
        """End it, and what the server does for it. Idempotent."""
        await self._runs.aclose()


async def watch_table(
    lookup: TableLookup,
    ref: TableRef,
    after: Mapping[Partition, Offset] | None,
    start: Literal["now", "earliest"],
    deadline: float,
    timeout: float,
) -> AsyncGenerator[list[Change], None]:
    """Yield runs of changes for ever. A lost server is waited for up to `timeout` seconds, then `Disconnected`; one
    that does not answer the first request until `deadline`, on the event loop's clock, then `DeadlineExceeded`.

    The first run is empty: it comes when the position of every partition is fixed. For "now" that is the log's end, as
    the log itself says it and not as a replica has applied it, so that everything that is acknowledged later is shown.
    The positions are kept here, and a new connection begins exactly there: no gap, no duplicate.
    """
    context, loop = lookup.context, asyncio.get_running_loop()
    partitions = [Partition(number) for number in range(ref.partitions)]
    positions: dict[Partition, Offset] = {}
    if after is not None:
        positions = {partition: Offset(after.get(partition, NOTHING) + 1) for partition in partitions}
    elif start == "earliest":
        description = await lookup.describe_by(deadline)
        if description.table.id != ref.id:
            raise TableNotFound(f"table {ref.name} was dropped and made again; watch it anew", table=ref.name)
        positions = {part.partition: part.earliest for part in description.partitions}
    begun = False
    lost: Unavailable | None = None
    backoff: Backoff | None = _tries_until(deadline)
    """None while the watch is followed."""
    while True:
        if backoff is None:
            deadline = loop.time() + timeout
            backoff = _tries_until(deadline)
        try:
            watch = _heard(context.connection.watch(ref.id, positions), deadline)
            async with aclosing(watch) as events:
                async for event in events:
                    lost = backoff = None
                    if event.positions is not None:
                        positions = dict(event.positions)
                        if not begun:
                            begun = True
                            yield []
                        continue
                    before = {partition: Offset(position - 1) for partition, position in positions.items()}
                    changes = list(changes_of(ref.id, event, positions[event.partition], before))
                    position = max(positions[event.partition], Offset(offsets_in(event.batches)[1] + 1))
                    positions[event.partition] = position
                    # What a watch has shown, this client has seen: no later read shows less.
                    context.session.saw(ref, event.partition, Offset(position - 1))
                    if changes:
                        yield changes
        except Unavailable as error:
            lost = error
            if backoff is None:
                deadline = loop.time() + timeout
                backoff = _tries_until(deadline)
            if not await backoff.pause():
                raise _given_up(lost, begun, timeout) from error
        except TimeoutError as error:
            raise _given_up(lost, begun, timeout) from error


def _tries_until(deadline: float) -> Backoff:
    return Backoff(_PAUSE_FIRST_S, _PAUSE_MAX_S, deadline_s=deadline)


async def _heard(watch: AsyncGenerator[WatchEvent, None], until_s: float) -> AsyncGenerator[WatchEvent, None]:
    """A connection's events. Raises `TimeoutError` unless the first one, with the positions, comes by `until_s`."""
    async with aclosing(watch) as events:
        async with asyncio.timeout_at(until_s):
            first = await anext(events)
        yield first
        async for event in events:
            yield event


def _given_up(lost: Unavailable | None, begun: bool, timeout: float) -> Unavailable:
    again = "watch again with the last change's token" if begun else "watch again"
    if lost is None:
        return DeadlineExceeded(f"the server did not begin the watch (waited up to {timeout:g} s; {again})")
    return Disconnected(f"{lost.message} (waited up to {timeout:g} s; {again})")


def changes_of(
    table_id: TableId, event: WatchEvent, position: Offset, before: Mapping[Partition, Offset]
) -> Iterator[Change]:
    """The changes in an event from `position` on: without no-ops, rejected records and second copies."""
    void = frozenset(event.void_offsets)
    place = place_of(PartitionId(table_id, event.partition))
    for data in split_batches(event.batches):
        batch = decode_batch(data, place)
        columns, timestamp_ms = batch.columns, batch.header.timestamp_ms
        attributes = columns.attributes
        for number, offset in enumerate(batch.offsets()):
            if offset < position or offset in void:
                continue
            code = PLAIN_PUT if attributes is None else attributes[number] & OPERATION_MASK
            if code in (Operation.NOOP, Operation.VOID):
                continue
            yield Change(
                table_id,
                event.partition,
                Offset(offset),
                timestamp_ms,
                _OPERATIONS[code],
                columns.keys[number],
                None if code == Operation.DELETE else columns.values[number],
                before,
            )


class WatchedTable:
    """The half of a table that shows its changes."""

    lookup: TableLookup

    def watch(
        self,
        *,
        after: str | Token | None = None,
        start: Literal["now", "earliest"] = "now",
        timeout: float | None = None,
    ) -> Watch[Change]:
        """Every change, once, in order within each partition, until the caller stops: `async for change in …`.

        Begins `after` a token (a partition that the token does not name begins at its first record), else at `start`.
        With "now", the watch shows every write that is acknowledged, at any node, after `await table.watch()` has
        returned; a watch that is not awaited fixes its position in its first step. The blocking `watch()` returns when
        the position is fixed. Where the table keeps a history, `change.before` is what the key had until then.

        The watch reconnects by itself when a server restarts. `timeout` is how many seconds it tries, also to begin.
        When the table goes over to another version of its content, the watch shows a change with operation BARRIER
        and no key: the changes before it belong to the old version. Raises `OffsetTrimmed` if the log no longer holds
        what comes after the token, and `TableNotFound` when the table is dropped.
        """
        return Watch(self.watch_runs(after=after, start=start, timeout=timeout))

    async def watch_runs(
        self,
        *,
        after: str | Token | None = None,
        start: Literal["now", "earliest"] = "now",
        timeout: float | None = None,
    ) -> AsyncGenerator[list[Change], None]:
        """The same as `watch`, in runs of what arrived together. The first one is empty: the position is fixed."""
        async with aclosing(self._changes(after, start, timeout, with_history=True)) as runs:
            async for run in runs:
                yield run

    async def change_runs(
        self,
        *,
        after: str | Token | None = None,
        start: Literal["now", "earliest"] = "now",
        timeout: float | None = None,
    ) -> AsyncGenerator[list[Change], None]:
        """For tables of rows and typed values: the same, without what the changes replaced."""
        async with aclosing(self._changes(after, start, timeout, with_history=False)) as runs:
            async for run in runs:
                yield run

    async def _changes(
        self,
        after: str | Token | None,
        start: Literal["now", "earliest"],
        timeout: float | None,
        *,
        with_history: bool,
    ) -> AsyncGenerator[list[Change], None]:
        if start not in ("now", "earliest"):
            raise InvalidRequest(f'start is "now" or "earliest", not {start!r}')
        lookup, context = self.lookup, self.lookup.context
        seconds, deadline = context.timeout(timeout), context.deadline(timeout)
        ref, positions = lookup.ref or await lookup.resolve(deadline), None
        if after is not None:
            ref, asked = await lookup.asked(ref, after, "eventual", deadline)
            positions = asked.offsets
        runs = self._noticing_drops(watch_table(lookup, ref, positions, start, deadline, seconds))
        if with_history:
            from duramen.client.past.befores import with_befores

            runs = changed_runs(with_befores(lookup, runs, timeout))
        async with aclosing(runs):
            async for run in runs:
                yield run

    async def _noticing_drops(self, runs: AsyncGenerator[list[Change], None]) -> AsyncGenerator[list[Change], None]:
        try:
            async for run in runs:
                yield run
        except (TableNotFound, PermissionDenied) as error:
            raise self.lookup.gone(error) from error
        finally:
            await runs.aclose()


async def changed_runs(
    runs: AsyncGenerator[list[tuple[Change, Before]], None],
) -> AsyncGenerator[list[Change], None]:
    """Runs whose changes have what they replaced."""
    async with aclosing(runs) as each:
        async for run in each:
            yield [
                replace(change, before=before.value, before_is_kept=before.is_kept) if before.is_kept else change
                for change, before in run
            ]
