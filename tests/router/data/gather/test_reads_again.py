"""Reads that are asked again: for what was asked at first, and not for what the session has seen meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final, cast

import pytest
from kit.deadlines import until, within

from log_tier.model.errors import (
    DatabaseClosed,
    Disconnected,
    DuramenError,
    LimitExceeded,
    ReplicaBehind,
    TableNotFound,
)
from log_tier.model.identifiers import Offset, Partition, TableId
from log_tier.model.table_ref import TableRef
from router.data.gather.read_coalescer import ReadCoalescer
from router.data.requests import ReadPart, ReadResult

ZERO: Final = Partition(0)
REF: Final = TableRef(TableId("AAAAAAAAAAAAAAAAAAAAAA"), "busy", 1)


class WritingSession:
    """A session that writes at each request, and a connection that refuses the first ones."""

    def __init__(self, *refusals: DuramenError) -> None:
        self.refusals = list(refusals)
        self.seen = Offset(7)
        self.asked: list[Offset] = []

    def offsets(self, table: TableRef) -> Sequence[Offset]:
        return [self.seen]

    def saw(self, table: TableRef, partition: Partition, offset: Offset) -> None:
        assert offset == 7

    async def read(self, parts: Sequence[ReadPart], *, timeout: float, patience: float = 0.0) -> list[Any]:
        self.asked += [part.after for part in parts]
        self.seen = Offset(self.seen + 1)
        if self.refusals:
            return [self.refusals.pop(0)] * len(parts)
        return [ReadResult(Offset(7), [b"value"] * len(part.keys), [1] * len(part.keys), None) for part in parts]


async def asked_of(writing: WritingSession) -> list[Offset]:
    reads = ReadCoalescer(cast("Any", writing), cast("Any", writing))
    deadline = asyncio.get_running_loop().time() + 60
    async with within(20):
        found = await reads.submit(
            REF, REF.partition(ZERO), [b"a", b"b"], after=None, strong=False, seen=True, deadline=deadline
        )
    assert list(found.values) == [b"value"] * 2
    await reads.close()
    return writing.asked


async def test_what_a_read_asks_for_is_decided_once() -> None:
    behind, gone = ReplicaBehind("behind", partition=ZERO), Disconnected("gone", sent=0)
    assert await asked_of(WritingSession(behind, gone, gone)) == [7] * 4


async def test_the_halves_of_a_large_read_ask_for_the_same() -> None:
    assert await asked_of(WritingSession(LimitExceeded("too large", limit=1, size=2))) == [7] * 3


class HalfAnswers:
    """A connection that refuses what has more than one key, and answers each key from another offset."""

    def __init__(self, expiries: dict[bytes, int]) -> None:
        self.expiries = expiries

    def offsets(self, table: TableRef) -> Sequence[Offset]:
        return [Offset(-1)]

    def saw(self, table: TableRef, partition: Partition, offset: Offset) -> None:
        """It has no session."""

    async def read(self, parts: Sequence[ReadPart], *, timeout: float, patience: float = 0.0) -> list[Any]:
        return [
            LimitExceeded("too large", limit=1, size=2)
            if len(part.keys) > 1
            else ReadResult(
                Offset(part.keys[0][0]),
                list(part.keys),
                [1],
                [self.expiries[part.keys[0]]] if part.keys[0] in self.expiries else None,
            )
            for part in parts
        ]


async def halves(expiries: dict[bytes, int]) -> ReadResult:
    connection = HalfAnswers(expiries)
    reads = ReadCoalescer(cast("Any", connection), cast("Any", connection))
    deadline = asyncio.get_running_loop().time() + 60
    async with within(20):
        found = await reads.submit(
            REF, REF.partition(ZERO), [b"a", b"b", b"c"], after=None, strong=False, seen=True, deadline=deadline
        )
    await reads.close()
    return found


async def test_halves_that_are_joined_show_what_both_of_them_had_applied() -> None:
    found = await halves({})
    assert (found.applied, list(found.values), found.expiries) == (ord("a"), [b"a", b"b", b"c"], None)
    assert list((await halves({b"a": 5})).expiries or ()) == [5, 0, 0]
    assert list((await halves({b"c": 5})).expiries or ()) == [0, 0, 5]


class LosesOneHalf:
    """A connection that refuses what has more than one key, and the key `b` for another reason."""

    def offsets(self, table: TableRef) -> Sequence[Offset]:
        return [Offset(-1)]

    def saw(self, table: TableRef, partition: Partition, offset: Offset) -> None:
        """It has no session."""

    async def read(self, parts: Sequence[ReadPart], *, timeout: float, patience: float = 0.0) -> list[Any]:
        return [
            LimitExceeded("too large", limit=1, size=2)
            if len(part.keys) > 1
            else TableNotFound("dropped")
            if part.keys == [b"b"]
            else ReadResult(Offset(7), list(part.keys), [1], None)
            for part in parts
        ]


async def test_a_read_whose_second_half_fails_fails() -> None:
    connection = LosesOneHalf()
    reads = ReadCoalescer(cast("Any", connection), cast("Any", connection))
    deadline = asyncio.get_running_loop().time() + 60
    async with within(20):
        with pytest.raises(TableNotFound):
            await reads.submit(
                REF, REF.partition(ZERO), [b"a", b"b"], after=None, strong=False, seen=True, deadline=deadline
            )
    await reads.close()


class AnswersKeys:
    """A connection that answers each key with itself, and notes how many requests it got."""

    def __init__(self) -> None:
        self.requests: list[list[list[bytes]]] = []

    def offsets(self, table: TableRef) -> Sequence[Offset]:
        return [Offset(-1)]

    def saw(self, table: TableRef, partition: Partition, offset: Offset) -> None:
        """It has no session."""

    async def read(self, parts: Sequence[ReadPart], *, timeout: float, patience: float = 0.0) -> list[Any]:
        self.requests.append([list(part.keys) for part in parts])
        return [ReadResult(Offset(7), list(part.keys), [1] * len(part.keys), None) for part in parts]


@pytest.mark.parametrize("calls", [1, 2, 3])
async def test_calls_that_share_a_request_get_their_own_keys(calls: int) -> None:
    connection = AnswersKeys()
    reads = ReadCoalescer(cast("Any", connection), cast("Any", connection))
    deadline = asyncio.get_running_loop().time() + 60
    wanted = [[b"%d-%d" % (call, number) for number in range(call + 1)] for call in range(calls)]
    async with within(20):
        found = await asyncio.gather(
            *(
                reads.submit(REF, REF.partition(ZERO), keys, after=None, strong=False, seen=True, deadline=deadline)
                for keys in wanted
            )
        )
    await reads.close()
    assert [list(each.values) for each in found] == wanted
    assert connection.requests == [[[key for keys in wanted for key in keys]]], "they leave as one part"


class AnswersNoHalf:
    """A connection that refuses what has more than one key, and never answers one key."""

    def __init__(self) -> None:
        self.waiting = 0

    def offsets(self, table: TableRef) -> Sequence[Offset]:
        return [Offset(-1)]

    async def read(self, parts: Sequence[ReadPart], *, timeout: float, patience: float = 0.0) -> list[Any]:
        if len(parts[0].keys) > 1:
            return [LimitExceeded("too large", limit=1, size=2)]
        self.waiting += 1
        await asyncio.Event().wait()
        raise AssertionError("nobody wakes it")


async def test_closing_ends_a_read_whose_halves_are_under_way() -> None:
    connection = AnswersNoHalf()
    reads = ReadCoalescer(cast("Any", connection), cast("Any", connection))
    deadline = asyncio.get_running_loop().time() + 60
    read = asyncio.ensure_future(
        reads.submit(REF, REF.partition(ZERO), [b"a", b"b"], after=None, strong=False, seen=True, deadline=deadline)
    )
    await until(lambda: connection.waiting == 2)
    await reads.close()
    async with within(20):
        with pytest.raises(DatabaseClosed):
            await read


class LosesTheFirst(AnswersKeys):
    """A connection that is gone at the first request, as a whole."""

    async def read(self, parts: Sequence[ReadPart], *, timeout: float, patience: float = 0.0) -> list[Any]:
        answers = await super().read(parts, timeout=timeout, patience=patience)
        if len(self.requests) == 1:
            raise Disconnected("gone", sent=1)
        return answers

    def offsets(self, table: TableRef) -> Sequence[Offset]:
        return [Offset(-1)] * table.partitions


async def test_every_part_of_a_lost_request_is_asked_again() -> None:
    connection = LosesTheFirst()
    reads = ReadCoalescer(cast("Any", connection), cast("Any", connection))
    deadline = asyncio.get_running_loop().time() + 60
    table = TableRef(REF.id, "busy", 3)
    async with within(20):
        found = await asyncio.gather(
            *(
                reads.submit(
                    table, table.partition(Partition(number)), [b"%d" % number], after=None, strong=False, seen=True,
                    deadline=deadline,
                )
                for number in range(3)
            )
        )  # fmt: skip
    await reads.close()
    assert [list(each.values) for each in found] == [[b"0"], [b"1"], [b"2"]]
    assert connection.requests[0] == [[b"0"], [b"1"], [b"2"]]


class NeverAnswers(AnswersNoHalf):
    """A connection that answers nothing at all."""

    async def read(self, parts: Sequence[ReadPart], *, timeout: float, patience: float = 0.0) -> list[Any]:
        self.waiting += 1
        await asyncio.Event().wait()
        raise AssertionError("nobody wakes it")


async def test_closing_ends_reads_that_were_not_sent_yet() -> None:
    connection = NeverAnswers()
    reads = ReadCoalescer(cast("Any", connection), cast("Any", connection))
    deadline = asyncio.get_running_loop().time() + 60

    def read(key: bytes) -> asyncio.Future[ReadResult]:
        return asyncio.ensure_future(
            reads.submit(REF, REF.partition(ZERO), [key], after=None, strong=False, seen=True, deadline=deadline)
        )

    calls: list[asyncio.Future[ReadResult]] = []
    sent = -1
    while connection.waiting > sent:
        sent = connection.waiting
        calls.append(read(b"%d" % len(calls)))
        for _ in range(10):
            await asyncio.sleep(0)
    assert len(calls) > connection.waiting, "the last one waits for a place"
    await reads.close()
    async with within(20):
        ends = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(end) for end in ends} == {DatabaseClosed}


@pytest.mark.parametrize("steps", range(4))
async def test_closing_ends_a_read_at_each_step_of_its_way_out(steps: int) -> None:
    connection = NeverAnswers()
    reads = ReadCoalescer(cast("Any", connection), cast("Any", connection))
    deadline = asyncio.get_running_loop().time() + 60
    call = reads.submit(REF, REF.partition(ZERO), [b"k"], after=None, strong=False, seen=True, deadline=deadline)
    for _ in range(steps):
        await asyncio.sleep(0)
    await reads.close()
    async with within(20):
        assert [type(end) for end in await asyncio.gather(call, return_exceptions=True)] == [DatabaseClosed]


async def test_a_lone_read_leaves_at_the_end_of_its_round() -> None:
    connection = NeverAnswers()
    reads = ReadCoalescer(cast("Any", connection), cast("Any", connection))
    deadline = asyncio.get_running_loop().time() + 60
    call = reads.submit(REF, REF.partition(ZERO), [b"k"], after=None, strong=False, seen=True, deadline=deadline)
    assert connection.waiting == 0, "callers of the same round may join it"
    await asyncio.sleep(0)
    assert connection.waiting == 1
    await reads.close()
    await asyncio.gather(call, return_exceptions=True)
