"""A check of a table whose log is trimmed meanwhile: nothing that the trim took is missed, nothing else is excused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import pytest

from duramen.client.model.results import Change
from duramen.verification.checker import check_history
from duramen.verification.history import Call, History, LogRecord
from duramen.verification.observations import differences, join_dropped, void_records
from duramen.verification.recorder import Recorder
from duramen.verification.run import beyond
from duramen.verification.watcher import run_watcher
from log_tier.model.errors import OffsetTrimmed
from log_tier.model.identifiers import Offset, Partition, TableId
from log_tier.model.record import Operation
from log_tier.model.table_ref import TableRef
from log_tier.model.tokens import Token

REF = TableRef(TableId("A" * 22), "t", 1)
ZERO = Partition(0)


def put(offset: int, key: str, value: str, *, void: bool | None = False) -> LogRecord:
    return LogRecord(0, offset, "put", key, value, batch=offset, void=void)


def test_what_a_replica_was_read_at_beyond_the_end_is_read_of_the_log() -> None:
    """A no-op that lets keys expire may come after the last write."""
    end = Token.of(REF.id, ZERO, Offset(7))
    replica = Call(1, -1, "replica", 0, partition=0, outcome="ok", reply={"applied": 7})
    assert beyond(end, REF, [replica]) is None
    replica.reply["applied"] = 9
    assert beyond(end, REF, [replica]) == Token.of(REF.id, ZERO, Offset(9))


WHOLE = [put(0, "a", "1"), put(1, "b", "2"), put(2, "a", "3"), put(3, "c", "4")]


def test_what_a_trim_took_is_joined_and_what_else_differs_is_named() -> None:
    assert join_dropped(WHOLE[:3], WHOLE[2:]) == [put(0, "a", "1", void=None), put(1, "b", "2", void=None), *WHOLE[2:]]
    assert differences(WHOLE[1:], WHOLE[2:], trimmed=True) == []
    assert len(differences(WHOLE[1:], WHOLE[2:])) == 1, "where nothing is trimmed, the log has lost a record"
    assert differences(WHOLE[1:], [], trimmed=True) == [], "everything was trimmed between the two reads"
    assert len(differences([*WHOLE[1:3], put(3, "c", "5")], WHOLE[2:], trimmed=True)) == 1


def test_a_compaction_may_have_dropped_no_ops_and_what_was_written_over() -> None:
    no_op = LogRecord(0, 4, "noop", "", "", batch=4, void=False)
    assert void_records([*WHOLE, no_op], WHOLE[1:]) == {(0, 0), (0, 4)}
    assert void_records([*WHOLE, no_op], [*WHOLE[1:3], no_op]) == {(0, 0)}, "c was not written again"


def test_a_compaction_may_have_dropped_second_copies_which_cover_nothing() -> None:
    def sent(offset: int, key: str, sequence: int) -> LogRecord:
        return LogRecord(0, offset, "put", key, "1", batch=offset, void=False, producer=7, sequence=sequence)

    whole = [sent(0, "a", 0), sent(1, "b", 1), sent(2, "a", 0), sent(3, "c", 2)]
    assert void_records(whole, [whole[0], whole[1], whole[3]]) == {(0, 2)}
    assert void_records(whole, whole[1:]) == set(), "only a copy of it is left, which changes nothing"
    other = [sent(0, "a", 0), sent(1, "a", 1)]
    assert void_records(other, [replace(other[1], producer=8)]) == {(0, 0)}, "sequences are each producer's own"


def test_who_cannot_say_what_is_void_is_not_held_to_it() -> None:
    taken = [put(0, "a", "1", void=None), LogRecord(0, 1, "put", "a", "2", condition="absent", batch=1, void=None)]
    calls = [
        Call(0, 0, "write", 0, 1, 0, arguments(taken[0]), "ok", {"offset": 0}),
        Call(1, 0, "write", 1, 2, 0, arguments(taken[1]), "rejected", {"offset": 1, "error": "condition_failed"}),
    ]
    assert check_history(History(1, calls, taken)) == []
    taken[1].void = False
    assert [each.invariant for each in check_history(History(1, calls, taken))] == ["I6"]


def arguments(record: LogRecord) -> dict[str, Any]:
    operation = {"operation": "put", "key": record.key, "value": record.value, "condition": record.condition}
    return {"operations": [{**operation, "version": 0}]}


class TrimmedTable:
    """A table whose log begins at offset 2 when its watch is resumed."""

    def __init__(self, earliest: int) -> None:
        self.earliest = earliest

    async def change_runs(self, *, after: Token, timeout: float) -> AsyncGenerator[list[Change], None]:
        begin = after.offsets(REF.id).get(ZERO, -1) + 1
        if begin == 0:
            yield [change(0)]
            begin = 1
        if begin < 2:
            raise OffsetTrimmed("gone", partition=0, asked=begin, earliest=self.earliest)
        for offset in range(begin, 4):
            yield [change(offset)]
        await asyncio.get_running_loop().create_future()


def change(offset: int) -> Change:
    record = WHOLE[offset]
    before = {ZERO: Offset(offset - 1)}
    return Change(REF.id, ZERO, Offset(offset), 0, Operation.PUT, record.key.encode(), record.value.encode(), before)


async def watched(table: Any, recorder: Recorder) -> None:
    ended: asyncio.Future[Token] = asyncio.get_running_loop().create_future()
    ended.set_result(Token({REF.id: {ZERO: Offset(3)}}))
    start = Token({REF.id: {ZERO: Offset(-1)}})
    await run_watcher(9, table, REF, recorder, seed="1", stop=asyncio.Event(), start=start, until=ended)


async def test_a_watch_goes_on_where_the_log_begins() -> None:
    recorder = Recorder()
    await watched(TrimmedTable(2), recorder)
    seen = [
        (call.arguments["from"], call.reply["to"], [each[0] for each in call.reply["changes"]])
        for call in recorder.calls
    ]
    assert seen == [(0, 0, [0]), (2, 3, [2, 3])]


async def test_a_trim_of_what_is_there_is_no_excuse() -> None:
    with pytest.raises(OffsetTrimmed):
        await watched(TrimmedTable(1), Recorder())
