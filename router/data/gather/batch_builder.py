"""A batch in the making: the records of several calls for one partition, and the result of each call."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from log_tier.model.batch import Columns, encode_batch
from log_tier.model.batch_header import read_header
from log_tier.model.errors import DeadlineExceeded, DuramenError, WriteUnknown
from log_tier.model.identifiers import NOTHING, Offset, Partition
from log_tier.model.record import PLAIN_PUT
from log_tier.model.table_ref import TableRef
from router.data.gather.pending_calls import PendingCalls
from router.data.outcomes import outcome_unknown
from router.data.requests import OutcomesPart, WriteOutcome, WritePart, WriteResult

__all__ = ["BatchBuilder", "Written", "write_unknown"]


class Written(NamedTuple):
    """What became of one call's records."""

    offset: Offset
    """Of its first record."""
    last: Offset
    results: Sequence[bytes | None] | None = None
    """What its updates gave, by record; None where there was none."""


class _Call(NamedTuple):
    future: asyncio.Future[Written]
    start: int
    """Its first record's place in the batch."""
    records: int
    deadline: float
    outcomes: bool
    """It waits for what became of its records, and not only for their place."""


class BatchBuilder:
    """Records that gather, are encoded once, and are sent with the same bytes until their fate is known."""

    __slots__ = (
        "_loop",
        "callers",
        "columns",
        "content_bytes",
        "data",
        "outcomes",
        "partition",
        "reason",
        "repeated",
        "table",
        "under_way",
        "unknown",
    )

    def __init__(self, table: TableRef, partition: Partition, loop: asyncio.AbstractEventLoop) -> None:
        self.table = table
        self.partition = partition
        self.columns = Columns([], [])
        self.callers: PendingCalls[_Call] = PendingCalls(loop, self._too_late)
        self.content_bytes = 0
        self.outcomes = False
        self.data = b""
        self.under_way = False
        """It was handed to the connection, which has not answered yet."""
        self.unknown = False
        """A copy may be in the log."""
        self.repeated = False
        """It was handed to a connection before. Whatever that said, its place is the one of the copy that counts, which
        the fold knows: a first copy may be in the log."""
        self.reason: DuramenError | None = None
        """Why it was not written so far."""
        self._loop = loop

    def add(self, records: Columns, size: int, *, outcomes: bool, deadline: float) -> asyncio.Future[Written]:
        """Append one call's records."""
        mine = self.columns
        start = len(mine.keys)
        mine.keys.extend(records.keys)  # type: ignore[attr-defined]
        mine.values.extend(records.values)  # type: ignore[attr-defined]
        if mine.attributes is not None or records.attributes is not None:
            self._add_columns(records, start)
        self.content_bytes += size
        self.outcomes |= outcomes
        future: asyncio.Future[Written] = self._loop.create_future()
        self.callers.add(_Call(future, start, len(records.keys), deadline, outcomes))
        return future

    def _add_columns(self, records: Columns, start: int) -> None:
        """The columns that plain puts do not have. A version or an expiry always comes with an attribute."""
        mine, count = self.columns, len(records.keys)
        for name, default in (("attributes", PLAIN_PUT), ("versions", 0), ("expiries", 0)):
            theirs, ours = getattr(records, name), getattr(mine, name)
            if theirs is None and ours is None:
                continue
            if ours is None:
                ours = [default] * start
                setattr(mine, name, ours)
            ours.extend([default] * count if theirs is None else theirs)

    def encode(self, *, producer_id: int, sequence: int, compress: bool) -> None:
        """Fix the bytes. Raises what `encode_batch` does."""
        self.data = encode_batch(self.columns, producer_id=producer_id, sequence=sequence, compress=compress)

    def part(self, *, gathered: bool) -> WritePart:
        """The draft as a part of a request. `gathered`: see `WritePart`."""
        return WritePart(self.table.id, self.partition, self.data, self.outcomes or self.repeated, gathered)

    def answer_plain(self, result: WriteResult) -> Offset:
        """It is in the log: tell those callers who need to know no more. Returns the last offset that was told.

        Of a batch that was sent before, even the place is only known with the outcome: it may be the first copy's.
        """
        last = NOTHING
        if not self.repeated:
            for call in self.callers.calls:
                if not call.outcomes and not call.future.done():
                    first = Offset(result.base_offset + call.start)
                    last = Offset(first + call.records - 1)
                    call.future.set_result(Written(first, last))
        return last

    def question(self, result: WriteResult) -> OutcomesPart:
        """It is in the log: the question what became of its records, which its callers now wait for."""
        span = read_header(self.data).span
        part = OutcomesPart(self.table.id, self.partition, result.base_offset, result.timestamp_ms, span)
        self.unknown = True
        self.reason = outcome_unknown(part, DeadlineExceeded("no replica has applied it in time"))
        return part

    def answer(self, result: WriteResult) -> Offset:
        """Tell every caller; return the last offset that the batch took."""
        self.callers.settle()
        base = result.base_offset
        outcomes = {outcome.record: outcome for outcome in result.outcomes}
        for call in self.callers.calls:
            if call.future.done():
                continue  # its caller went away
            if not outcomes:
                call.future.set_result(Written(Offset(base + call.start), Offset(base + call.start + call.records - 1)))
            else:
                _answer_with_outcomes(call, base, outcomes)
        return Offset(base + len(self.columns.keys) - 1)

    def fail(self, error: DuramenError) -> None:
        """Tell every caller that it was not written, or that nobody knows."""
        if self.unknown and not isinstance(error, WriteUnknown):
            error = write_unknown(error.message)
        self.callers.fail(error)

    def _too_late(self, nobody_left: bool) -> DuramenError:
        # While somebody else waits for this batch it goes on, and may still be written.
        if nobody_left and not self.unknown and not self.under_way:
            return self.reason or DeadlineExceeded("the write could not be sent in time; nothing was written")
        if isinstance(self.reason, WriteUnknown):
            return self.reason
        return write_unknown("its time is over" if self.reason is None else self.reason.message)


def write_unknown(reason: str) -> WriteUnknown:
    """The honest answer where a reply is missing."""
    return WriteUnknown(
        f"no reply came in time ({reason}): the write is in the log once or not at all; read the key to know"
    )


def _answer_with_outcomes(call: _Call, base: Offset, outcomes: dict[int, WriteOutcome]) -> None:
    places: list[Offset] = []
    results: list[bytes | None] = []
    for record in range(call.start, call.start + call.records):
        outcome = outcomes.get(record)
        if outcome is None:
            places.append(Offset(base + record))
            results.append(None)
            continue
        if outcome.rejected is not None:
            call.future.set_exception(outcome.rejected)
            return
        places.append(outcome.original if outcome.original > NOTHING else Offset(base + record))
        results.append(outcome.result)
    call.future.set_result(Written(places[0], places[-1], results))
