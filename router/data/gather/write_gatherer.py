"""The gatherer of writes: tasks, timers and the connection around `BatchRounds` and `BatchProgress`, which decide.

See the package's text for what it promises (W1 to W4).
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Generic

from log_tier.concurrency.backoff import Backoff
from log_tier.concurrency.sized_work import Turn
from log_tier.concurrency.tasks import TaskSet
from log_tier.model.batch_header import HEADER_BYTES
from log_tier.model.errors import DeadlineExceeded, DuramenError, WriteUnknown
from log_tier.model.identifiers import PartitionId
from log_tier.tracing.passing import joined
from log_tier.tracing.span import TRACED, Span
from router.data.gather.acknowledged import NOTED_MAX, Acknowledged
from router.data.gather.batch_builder import BatchBuilder, C
from router.data.gather.batch_progress import Fate, place_in
from router.data.gather.rounds import BatchRounds, Rules, T
from router.data.outcomes import outcome_unknown
from router.data.requests import OutcomesPart, WritePart, WriteResult, write_part_of
from router.data.seam import DataPlane

__all__ = ["AT_ONCE_RECORDS_MAX", "WriteGatherer"]

# The connection's own error at the deadline says more than ours, so its deadline is a little earlier.
_MARGIN_S: Final = 0.01
# Timers tick in milliseconds: who still waits has at least this long.
_LEFT_MIN_S: Final = 0.001

# Records of a batch that is encoded on the event loop: some 2 ms. A thread encodes a larger one.
_ENCODED_AT_ONCE: Final = 16_384

# Copying so many bytes costs as much as a record: a thread encodes a batch of some 2 MiB, too.
_RECORD_BYTES: Final = 128

# A batch by itself costs as much as so many records, to be encoded and to be answered: some 15 µs.
_BATCH_RECORDS: Final = 128

# A batch of more records is noted by its callers some at a time, before any of them is answered.
AT_ONCE_RECORDS_MAX: Final = 8192

# One of the items of `log_tier/concurrency/sized_work.py` costs as much as so many records.
_ITEM_RECORDS: Final = 16


class WriteGatherer(Generic[T, C]):
    """Gathers and sends. `T` is what a batch is made for, `C` who waits for it. Belongs to one event loop."""

    def __init__(
        self,
        connection: DataPlane,
        producer_id: int,
        rules: Rules,
        *,
        new: Callable[[PartitionId, T], BatchBuilder[C]],
        closed: Callable[[], DuramenError],
        compress: bool = False,
        acknowledged: Acknowledged | None = None,
    ) -> None:
        """`producer_id`: this gatherer's alone. `new`: makes an empty batch. `closed`: the error for a write that was
        not sent before the end. `acknowledged`: notes what has its place in the log.
        """
        self._loop = asyncio.get_running_loop()
        self._tasks = TaskSet()
        self.rounds: BatchRounds[T, BatchBuilder[C]] = BatchRounds(
            rules,
            new,
            clock_s=self._loop.time,
            later=self._loop.call_soon,
            send=self._send,
            start=self._tasks.start,
        )
        """Calls join by `rounds.batch_for`, and add their records at once: the batch leaves in a later round of the
        loop."""
        self.batches = 0
        """Sent so far, without repeats."""
        self.records = 0
        """In those batches."""
        self._connection = connection
        self._producer_id = producer_id
        self._rules = rules
        self._compress = compress
        self._closed_error = closed
        self._acknowledged = acknowledged
        self._sequences: dict[PartitionId, int] = {}
        """The next sequence of each partition that was written: some 150 bytes each, for as long as the gatherer lives,
        also of dropped tables. None may be forgotten: the fold voids a sequence that begins again."""

    def send_again(self, batch: BatchBuilder[C]) -> None:
        """Send a batch that was encoded and sent over another path, ahead of its partition's other batches. Raises as
        `BatchRounds.batch_for`.
        """
        self.rounds.put_first(batch)

    # --- a request

    async def _send(self, batches: list[BatchBuilder[C]]) -> None:
        """Send until every batch has its answer or nobody waits for it any more."""
        counts = True
        began_s = self._loop.time()
        calls = sum([batch.calls for batch in batches])
        backoff: Backoff | None = None
        left = batches
        try:
            while True:
                left, pending = await self._try(left, others=self.rounds.in_flight - counts)
                if counts:
                    counts = False
                    self.rounds.landed(calls, began_s, self._loop.time())
                if self.rounds.waiting:
                    self.rounds.schedule()
                if not left:
                    break
                if pending:
                    self._tasks.start(self._judge(pending))
                backoff = backoff or self._backoff()
                await backoff.pause()
        except BaseException as error:
            # Closed meanwhile, or a bug of ours: nobody may wait for what will not come.
            reason = self._reason(error)
            for batch in left:
                self._give_up(batch, reason)
            if counts:
                self.rounds.landed(0, 0.0, 0.0)
            if self.rounds.waiting and not isinstance(error, asyncio.CancelledError):
                self.rounds.schedule()
            raise
        if pending:
            await self._judge(pending)

    async def _try(
        self, batches: list[BatchBuilder[C]], *, others: int
    ) -> tuple[list[BatchBuilder[C]], list[tuple[BatchBuilder[C], OutcomesPart]]]:
        """Send once. What is to be sent again, and what is in the log with callers who wait for its verdict.

        `others`: how many other requests are under way.
        """
        if sum(map(_cost, batches)) > _ENCODED_AT_ONCE:
            await self._encode_some(batches)
        now_s = self._loop.time()
        sent, parts, last_s = self._parts(batches, now_s, gathered=not others)
        if not sent:
            return [], []
        traced: tuple[Span, ...] = ()
        for batch in sent:
            if batch.traced:
                traced = joined(traced, batch.traced)
        if traced or TRACED.get():  # else this task's own, inherited from who began it
            TRACED.set(traced)
        results: Sequence[WriteResult | DuramenError]
        try:
            left_s = max(_LEFT_MIN_S, last_s - now_s)
            results = await self._connection.write(
                parts, timeout=left_s - min(_MARGIN_S, left_s / 10), patience=self._rules.verdict_patience_s
            )
        except DuramenError as error:
            results = [error] * len(sent)
        again: list[BatchBuilder[C]] = []
        pending: list[tuple[BatchBuilder[C], OutcomesPart]] = []
        acknowledged = self._acknowledged
        turn = Turn() if len(sent) > 1 else None  # a lone batch pays for nothing else
        try:
            for batch, part, result in zip(sent, parts, results, strict=True):
                if turn is not None and turn.is_full(_items(batch)):
                    await turn.end()
                fate = batch.progress.answered(result, asked=part.outcomes)
                if fate is Fate.AGAIN:
                    again.append(batch)
                    continue
                place = place_in(result)
                if place is not None and batch.records > AT_ONCE_RECORDS_MAX:
                    for _ in batch.callers.noting(place):
                        await asyncio.sleep(0)
                if place is None:
                    assert isinstance(result, DuramenError), f"refused without an error: {result!r}"
                    batch.fail(result)
                else:
                    if acknowledged is not None:
                        head, base, time_ms = batch.data[:HEADER_BYTES], place.base_offset, place.timestamp_ms
                        acknowledged.noted.append((batch.place, head, base, time_ms, batch.progress.repeated))
                    if fate is Fate.JUDGED:
                        batch.callers.judged(place)
                    elif batch.callers.placed(place, repeated=batch.progress.repeated):
                        pending.append((batch, batch.question(place)))
                self.rounds.settle(batch)  # its place in the log is known, which is all that its successors need
        except BaseException as error:
            self._unknown(pending, error)  # closed meanwhile: `_send` gives up the batches that are not settled
            raise
        if acknowledged is not None and len(acknowledged.noted) > NOTED_MAX:
            acknowledged.count()
        return again, pending

    def _parts(
        self, batches: Sequence[BatchBuilder[C]], now_s: float, *, gathered: bool
    ) -> tuple[list[BatchBuilder[C]], list[WritePart], float]:
        """The batches that are sent now, each with its part of the request, and the last deadline of their callers.

        Its first try fixes the bytes of a batch. One that cannot be encoded, or for which nobody waits any more, is
        given up.
        """
        last_s, apart = now_s, False
        waited: list[BatchBuilder[C]] = []
        for batch in batches:
            deadline_s = batch.callers.last_deadline(now_s)
            if deadline_s is None:
                self._give_up(batch, batch.progress.reason or DeadlineExceeded("the write could not be sent in time"))
            else:
                waited.append(batch)
                last_s = max(last_s, deadline_s)
                apart |= self._rules.verdicts_apart and batch.callers.want_place
        sent: list[BatchBuilder[C]] = []
        parts: list[WritePart] = []
        for batch in waited:
            outcomes = not apart and batch.callers.want_verdict(repeated=batch.progress.repeated)
            if not batch.data:
                # As `_bytes_of` and `_encoded`, without their calls: nearly every batch is one by itself.
                sequence = self._sequences.get(batch.place, 0)
                try:
                    batch.data = batch.columns.encode(
                        producer_id=self._producer_id, sequence=sequence, compress=self._compress
                    )
                except (DuramenError, struct.error) as error:
                    reason = error if isinstance(error, DuramenError) else DuramenError(f"not encodable: {error}")
                    self._give_up(batch, reason)
                    continue
                self._sequences[batch.place] = sequence + batch.records
                self.batches += 1
                self.records += batch.records
            batch.progress.under_way = True
            sent.append(batch)
            parts.append(write_part_of((batch.place, batch.data, outcomes, gathered)))
        return sent, parts, last_s

    async def _encode_some(self, batches: Sequence[BatchBuilder[C]]) -> None:
        """Fix the bytes of many batches some at a time, and those of a large one in a thread. No call joins a batch
        that has left its queue, and no other batch of its partition takes a sequence meanwhile (W1). One that cannot be
        encoded fails in `_parts`.
        """
        turn = Turn()
        for batch in batches:
            if batch.data:
                continue
            with suppress(DuramenError, struct.error):
                if _cost(batch) > _ENCODED_AT_ONCE:
                    self._encoded(batch, await asyncio.to_thread(self._bytes_of, batch))
                else:
                    self._encoded(batch, self._bytes_of(batch))
            if turn.is_full(_items(batch)):
                await turn.end()

    def _bytes_of(self, batch: BatchBuilder[C]) -> bytes:
        sequence = self._sequences.get(batch.place, 0)
        return batch.columns.encode(producer_id=self._producer_id, sequence=sequence, compress=self._compress)

    def _encoded(self, batch: BatchBuilder[C], data: bytes) -> None:
        batch.data = data
        self._sequences[batch.place] = self._sequences.get(batch.place, 0) + batch.records
        self.batches += 1
        self.records += batch.records

    def _give_up(self, batch: BatchBuilder[C], reason: DuramenError) -> None:
        if self.rounds.under_way.get(batch.place) is batch:
            batch.fail(reason)
            self.rounds.settle(batch)

    # --- verdicts

    async def _judge(self, pending: list[tuple[BatchBuilder[C], OutcomesPart]]) -> None:
        """Ask what became of batches that are in the log, for as long as a caller waits for it."""
        backoff: Backoff | None = None
        try:
            while True:
                pending = await self._ask(pending)
                if not pending:
                    return
                backoff = backoff or self._backoff()
                await backoff.pause()
        except BaseException as error:
            self._unknown(pending, error)
            raise

    def _unknown(self, pending: Sequence[tuple[BatchBuilder[C], OutcomesPart]], error: BaseException) -> None:
        """Closed meanwhile, or a bug of ours: nobody may wait for verdicts that will not come."""
        for batch, part in pending:
            batch.callers.fail(outcome_unknown(part, self._reason(error)))

    async def _ask(
        self, pending: list[tuple[BatchBuilder[C], OutcomesPart]]
    ) -> list[tuple[BatchBuilder[C], OutcomesPart]]:
        """Ask once for verdicts; returns what to ask about again."""
        now_s = last_s = self._loop.time()
        waited: list[tuple[BatchBuilder[C], OutcomesPart]] = []
        for batch, part in pending:
            deadline_s = batch.callers.last_deadline(now_s)
            if deadline_s is None:
                batch.fail(batch.progress.reason or DeadlineExceeded("its time is over"))
            else:
                waited.append((batch, part))
                last_s = max(last_s, deadline_s)
        if not waited:
            return []
        results: Sequence[WriteResult | DuramenError]
        try:
            left_s = max(_LEFT_MIN_S, last_s - now_s)
            results = await self._connection.outcomes(
                [part for _, part in waited], timeout=left_s - min(_MARGIN_S, left_s / 10)
            )
        except DuramenError as error:
            results = [error] * len(waited)
        again: list[tuple[BatchBuilder[C], OutcomesPart]] = []
        turn = Turn()
        for (batch, part), result in zip(waited, results, strict=True):
            if turn.is_full(_items(batch)):
                await turn.end()
            if isinstance(result, WriteResult):
                batch.callers.judged(result)
            elif result.retryable and not isinstance(result, DeadlineExceeded):
                again.append((batch, part))
            else:
                batch.callers.fail(result if isinstance(result, WriteUnknown) else outcome_unknown(part, result))
        return again

    def _backoff(self) -> Backoff:
        return Backoff(self._rules.pause_first_s, self._rules.pause_max_s)

    def _reason(self, error: BaseException) -> DuramenError:
        return self._closed_error() if isinstance(error, asyncio.CancelledError) else DuramenError(f"a bug: {error!r}")

    async def close(self) -> None:
        """Take nothing more; give what waits and what is under way `Rules.close_patience_s`, then give it up. A caller
        that is cancelled gives it up at once.
        """
        self.rounds.close(self._closed_error())
        try:
            await self._tasks.close(patience_s=self._rules.close_patience_s)
        finally:  # also where the caller is cancelled: every call ends (W4)
            for batch in self.rounds.give_up():
                batch.fail(self._closed_error())


def _cost(batch: BatchBuilder[C]) -> int:
    """What it costs to encode a batch, in records."""
    return batch.records + batch.content_bytes // _RECORD_BYTES + _BATCH_RECORDS


def _items(batch: BatchBuilder[C]) -> int:
    """What it costs to encode or to answer a batch, in the items of `Turn`."""
    return (batch.records + _BATCH_RECORDS) // _ITEM_RECORDS
