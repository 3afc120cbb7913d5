"""Requests of the gatherer of writes: what they carry, and what each answer makes of the calls in them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final, cast

import pytest
from kit.deadlines import until, within

from log_tier.model.batch import BATCH_RECORDS_MAX, Columns, decode_batch, encode_batch
from log_tier.model.batch_header import read_header
from log_tier.model.errors import (
    ConditionFailed,
    DatabaseClosed,
    DeadlineExceeded,
    Disconnected,
    DiskFull,
    DuramenError,
    LimitExceeded,
    RowRejected,
    WriteUnknown,
)
from log_tier.model.identifiers import Offset, Partition, TableId
from log_tier.model.table_ref import TableRef
from router.data.gather.pending_calls import CallOutcome
from router.data.gather.write_coalescer import WriteCoalescer
from router.data.requests import OutcomesPart, WriteOutcome, WritePart, WriteResult

REF: Final = TableRef(TableId("AAAAAAAAAAAAAAAAAAAAAA"), "flights", 2)
PRODUCER: Final = 9


class OneLog:
    """A log of each partition that begins at offset 40. `answers`: what comes in place of the next answers."""

    def __init__(self, *answers: DuramenError | None) -> None:
        self.answers = list(answers)
        self.parts: list[WritePart] = []
        self.questions: list[OutcomesPart] = []
        self.verdicts: list[WriteOutcome] | None = None
        """What was rejected; None: verdicts come at once."""
        self.seen: list[tuple[int, int]] = []
        self.ends = {Partition(0): 40, Partition(1): 40}
        self.held: asyncio.Event | None = None

    def saw(self, table: TableRef, partition: Partition, offset: Offset) -> None:
        self.seen.append((partition, offset))

    def _placed(self, part: WritePart) -> WriteResult:
        number = part.partition.partition
        base = Offset(self.ends[number])
        self.ends[number] += read_header(part.batch).span
        return WriteResult(base, 0, pending=part.outcomes and self.verdicts is not None)

    async def write(self, parts: Sequence[WritePart], *, timeout: float, patience: float = 0.0) -> list[Any]:
        assert timeout > 0
        self.parts += parts
        if self.held is not None:
            await self.held.wait()
        answer = self.answers.pop(0) if self.answers else None
        return [self._placed(part) if answer is None else answer for part in parts]

    async def outcomes(self, parts: Sequence[OutcomesPart], *, timeout: float) -> list[WriteResult]:
        self.questions += parts
        return [WriteResult(part.base_offset, part.timestamp_ms, self.verdicts or ()) for part in parts]


def columns_with(*keys: bytes) -> Columns:
    return Columns(list(keys), [b"v" * 50] * len(keys))


class GatheringClient:
    """A client of such a log."""

    def __init__(self, log: OneLog) -> None:
        self.coalescer = WriteCoalescer(cast("Any", log), cast("Any", log), PRODUCER)

    def call(
        self, *keys: bytes, partition: int = 0, outcomes: bool = False, seconds: float = 60, table: TableRef = REF
    ) -> asyncio.Future[CallOutcome]:
        deadline = asyncio.get_running_loop().time() + seconds
        place = table.partition(Partition(partition))
        return self.coalescer.submit(table, place, columns_with(*keys), outcomes=outcomes, deadline=deadline)

    async def __aenter__(self) -> GatheringClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.coalescer.close()


def bounds(outcome: CallOutcome) -> tuple[int, int]:
    return outcome.offset, outcome.last


async def test_calls_of_a_batch_get_their_own_places_and_the_next_batch_goes_on() -> None:
    log = OneLog()
    async with within(20), GatheringClient(log) as writing:
        found = await asyncio.gather(writing.call(b"a"), writing.call(b"b", b"c"), writing.call(b"d", partition=1))
        assert [bounds(each) for each in found] == [(40, 40), (41, 42), (40, 40)]
        for offset in range(43, 48):
            assert bounds(await writing.call(b"e")) == (offset, offset)
        assert writing.coalescer.gatherer.rounds.in_flight == 0
        assert (writing.coalescer.gatherer.batches, writing.coalescer.gatherer.records) == (7, 9)
    headers = [read_header(part.batch) for part in log.parts if part.partition.partition == 0]
    assert [each.sequence for each in headers] == [0, 3, 4, 5, 6, 7], "every record has its sequence"
    assert {each.producer_id for each in headers} == {PRODUCER}
    assert log.parts[0].batch == encode_batch(columns_with(b"a", b"b", b"c"), producer_id=PRODUCER, sequence=0)
    assert (0, 42) in log.seen
    assert not log.questions, "nobody asked for a verdict"


async def test_a_large_batch_is_encoded_like_a_small_one() -> None:
    log = OneLog()
    keys = [b"%05d" % number for number in range(12_000)]
    async with within(20), GatheringClient(log) as writing:
        found = await asyncio.gather(writing.call(*keys), writing.call(b"x", partition=1))
        assert [bounds(each) for each in found] == [(40, 12_039), (40, 40)]
        assert bounds(await writing.call(b"y")) == (12_040, 12_040)
        assert (writing.coalescer.gatherer.batches, writing.coalescer.gatherer.records) == (3, 12_002)
    assert sorted(read_header(part.batch).sequence for part in log.parts) == [0, 0, 12_000]
    assert list(decode_batch(max((part.batch for part in log.parts), key=len)).columns.keys) == keys


async def test_a_lost_reply_is_asked_for_with_the_same_bytes() -> None:
    log = OneLog(Disconnected("the reply was lost"))
    async with within(20), GatheringClient(log) as writing:
        assert bounds(await writing.call(b"a")) == (40, 40)
    first, second = log.parts
    assert first.batch == second.batch
    assert (first.outcomes, second.outcomes) == (False, True), "its place is the one of the copy that counts"


async def test_a_refusal_fails_its_calls_and_frees_the_partition() -> None:
    async with within(20), GatheringClient(OneLog(DiskFull("no space"))) as writing:
        answers = await asyncio.gather(writing.call(b"a"), writing.call(b"b"), return_exceptions=True)
        assert [type(each) for each in answers] == [DiskFull, DiskFull]
        assert bounds(await writing.call(b"c")) == (40, 40)


async def test_a_verdict_that_is_not_known_yet_is_asked_for_to_the_last_offset() -> None:
    log = OneLog()
    log.verdicts = [WriteOutcome(1, rejected=ConditionFailed("it is there", offset=41, actual=3))]
    async with within(20), GatheringClient(log) as writing:
        answers = await asyncio.gather(
            writing.call(b"a", outcomes=True), writing.call(b"b", outcomes=True), return_exceptions=True
        )
    assert isinstance(answers[0], CallOutcome)
    assert bounds(answers[0]) == (40, 40)
    assert isinstance(answers[1], ConditionFailed)
    (question,) = log.questions
    assert (question.base_offset, question.after) == (40, 41)


async def test_who_does_not_ask_waits_for_the_verdict_too_where_the_table_has_a_definition() -> None:
    """What it has put may be what does not fit, and nobody says so as long as the verdict is not known."""
    log = OneLog()
    log.verdicts = [WriteOutcome(1, rejected=RowRejected("it does not fit", offset=41, failed=41))]
    table = TableRef(REF.id, REF.name, REF.partitions, defined=True)
    async with within(20), GatheringClient(log) as writing:
        answers = await asyncio.gather(
            writing.call(b"a", outcomes=True, table=table),
            writing.call(b"b", table=table),
            writing.call(b"c", table=table),
            return_exceptions=True,
        )
    assert [type(each) for each in answers] == [CallOutcome, RowRejected, CallOutcome]
    assert len(log.questions) == 1


async def test_a_call_whose_time_is_over_leaves_the_partition_to_others() -> None:
    """The first try fails, and when it would be made again nobody waits for it any more."""
    log = OneLog(Disconnected("no connection", sent=0))
    async with within(20), GatheringClient(log) as writing:
        with pytest.raises((DeadlineExceeded, Disconnected)):
            await writing.call(b"late", seconds=0.001)
        assert bounds(await writing.call(b"next")) == (40, 40)
        await until(lambda: not writing.coalescer.gatherer.rounds.pending_bytes)
        assert writing.coalescer.gatherer.rounds.in_flight == 0


async def test_a_call_that_ends_under_way_may_be_in_the_log() -> None:
    log = OneLog()
    log.held = asyncio.Event()
    async with within(20), GatheringClient(log) as writing:
        with pytest.raises(WriteUnknown):
            await writing.call(b"late", seconds=0.001)
        log.held.set()
        assert bounds(await writing.call(b"next")) == (41, 41)


async def test_only_a_request_that_is_alone_says_that_everything_is_in_it() -> None:
    """The log may commit such a one at once, in the caller's thread: more would have to wait for it."""
    log = OneLog(None, None, Disconnected("the reply was lost"))
    async with within(20), GatheringClient(log) as writing:
        await writing.call(b"a")
        log.held = asyncio.Event()
        first = writing.call(b"b")
        await until(lambda: len(log.parts) == 2)
        second = writing.call(b"c", partition=1)
        await until(lambda: len(log.parts) == 3)
        assert [part.gathered for part in log.parts] == [True, True, False]
        log.held.set()
        await asyncio.gather(first, second)
    assert [part.gathered for part in log.parts[3:]] == [True], "the second was sent again, by itself"


async def test_records_that_fit_in_no_batch_are_refused_at_once_and_disturb_nobody() -> None:
    log = OneLog()
    async with within(20), GatheringClient(log) as writing:
        before = writing.call(b"a")
        with pytest.raises(LimitExceeded, match="do not fit in one batch"):
            writing.call(*[b"k"] * (BATCH_RECORDS_MAX + 1))
        assert bounds(await before) == (40, 40)
        assert bounds(await writing.call(b"b")) == (41, 41)
    assert sum(read_header(part.batch).records for part in log.parts) == 2


async def test_no_call_joins_a_batch_whose_callers_got_that_nothing_was_written() -> None:
    """It waits behind the partition's batch under way. Who comes later would have it leave, with what was given up."""
    log = OneLog()
    log.held = asyncio.Event()
    async with within(20), GatheringClient(log) as writing:
        first = writing.call(b"first")
        await until(lambda: len(log.parts) == 1)
        with pytest.raises(DeadlineExceeded, match="nothing was written"):
            await writing.call(b"given up", seconds=0.01)
        last = writing.call(b"last")
        log.held.set()
        assert [bounds(await each) for each in (first, last)] == [(40, 40), (41, 41)]
        await until(lambda: not writing.coalescer.gatherer.rounds.pending_bytes)
    assert [decode_batch(part.batch).columns.keys for part in log.parts] == [(b"first",), (b"last",)]


async def test_what_is_late_before_it_is_sent_is_not_sent() -> None:
    log = OneLog()
    async with within(20), GatheringClient(log) as writing:
        with pytest.raises(DeadlineExceeded, match="could not be sent in time"):
            await writing.call(b"late", seconds=0)
        assert bounds(await writing.call(b"in time")) == (40, 40)
    assert len(log.parts) == 1


async def test_a_close_that_is_cancelled_leaves_no_call_without_an_answer() -> None:
    log = OneLog()
    log.held = asyncio.Event()
    writing = GatheringClient(log)
    async with within(20):
        under_way = writing.call(b"a")
        await until(lambda: len(log.parts) == 1)
        waiting = writing.call(b"b")
        closer = asyncio.create_task(writing.coalescer.close())
        await asyncio.sleep(0)
        closer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closer
        with pytest.raises(WriteUnknown):
            await under_way
        with pytest.raises(DatabaseClosed):
            await waiting
