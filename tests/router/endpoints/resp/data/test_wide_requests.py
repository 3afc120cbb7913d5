"""A request of many partitions: its batches are encoded and answered some in a turn of the event loop, each once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pytest
from kit.deadlines import until, within

from log_tier.concurrency.sized_work import AT_ONCE_ITEMS_MAX
from log_tier.model.errors import DuramenError, WriteUnknown
from log_tier.model.identifiers import NOTHING, Offset, Partition, TableId
from log_tier.model.record import Condition, Operation, attribute_of
from log_tier.model.table_ref import TableRef
from router.data.gather.columns_builder import ColumnsBuilder
from router.data.requests import OutcomesPart, WritePart, WriteResult
from router.endpoints.resp.data.key_views import DraftRecord
from router.endpoints.resp.data.served_tables import ServedTable
from router.endpoints.resp.data.shared_writer import RESP_RULES, SharedWriter
from router.endpoints.resp.data.value_cache import CacheBudget

PARTITIONS: Final = 1000
PLACE: Final = Offset(7)
ABSENT: Final = attribute_of(Operation.PUT, condition=Condition.ABSENT)


class Turns:
    """The number of the loop's present turn, and what was counted in each."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._number = 0
        self.counts: dict[str, Counter[int]] = {}
        self._tick()

    def _tick(self) -> None:
        self._number += 1
        self._next = self._loop.call_soon(self._tick)

    def end(self) -> None:
        self._next.cancel()

    def count(self, what: str) -> None:
        self.counts.setdefault(what, Counter())[self._number] += 1

    def most(self, what: str) -> int:
        return max(self.counts[what].values())


class Settled:
    """A waiter that is answered once."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self.answer: DuramenError | Offset | None = None

    def settle(self, error: DuramenError | None, offset: Offset) -> None:
        assert self.answer is None, "settled twice"
        self.answer = error or offset
        self._turns.count("settled")


class Prompt:
    """A data plane that has a place for each batch at once, and all verdicts when they are asked for."""

    def __init__(self) -> None:
        self.asked = 0

    async def write(self, parts: Sequence[WritePart], *, timeout: float, patience: float = 0.0) -> list[WriteResult]:
        await asyncio.sleep(0)
        return [WriteResult(PLACE, 1) for _ in parts]

    async def outcomes(self, parts: Sequence[OutcomesPart], *, timeout: float) -> list[WriteResult]:
        await asyncio.sleep(0)
        self.asked += len(parts)
        return [WriteResult(PLACE, 1) for _ in parts]


def wide_table() -> ServedTable:
    return ServedTable(TableRef(TableId("00" * 16), "wide", PARTITIONS, "slot"), None, CacheBudget(0))


def write_all(writer: SharedWriter, table: ServedTable, turns: Turns) -> tuple[list[Settled], list[Settled]]:
    """To each partition a write that waits for stable storage, and one that waits for its verdict."""
    plain, judged = [], []
    for partition in map(Partition, range(PARTITIONS)):
        plain.append(Settled(turns))
        writer.put_one(table, partition, b"key", b"value", plain[-1])
        judged.append(Settled(turns))
        writer.submit(table, partition, [DraftRecord(b"new", b"value", ABSENT)], judged[-1], judged=True)
    return plain, judged


async def test_batches_are_encoded_and_answered_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    turns, connection = Turns(), Prompt()
    original = ColumnsBuilder.encode

    def counted(columns: ColumnsBuilder, **how: object) -> object:
        turns.count("encoded")
        return original(columns, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(ColumnsBuilder, "encode", counted)
    writer = SharedWriter(connection)  # type: ignore[arg-type]
    plain, judged = write_all(writer, wide_table(), turns)
    await until(lambda: all(each.answer is not None for each in (*plain, *judged)))
    turns.end()
    assert {each.answer for each in plain} == {NOTHING}
    assert {each.answer for each in judged} == {Offset(PLACE + 1)}
    assert (connection.asked, turns.counts["encoded"].total()) == (PARTITIONS, PARTITIONS)
    # Answers about stable storage and verdicts may share a turn.
    assert turns.most("encoded") <= AT_ONCE_ITEMS_MAX / 8
    assert turns.most("settled") <= AT_ONCE_ITEMS_MAX / 4
    await writer.close()


@pytest.mark.parametrize("begun", [1, PARTITIONS, PARTITIONS + 1])
async def test_a_close_in_the_middle_of_it_answers_everybody_once(begun: int) -> None:
    """It comes when so many have their answers: between two turns of one request's answers, or of its verdicts."""
    turns = Turns()
    writer = SharedWriter(Prompt(), replace(RESP_RULES, close_patience_s=0.0))  # type: ignore[arg-type]
    plain, judged = write_all(writer, wide_table(), turns)
    everybody = [*plain, *judged]
    async with within(20):
        while sum(each.answer is not None for each in everybody) < begun:  # noqa: ASYNC110
            await asyncio.sleep(0)
    await writer.close()
    turns.end()
    assert all(each.answer is not None for each in everybody)
    # All of them were sent: nobody may learn that nothing was written.
    assert {type(each.answer) for each in everybody if isinstance(each.answer, DuramenError)} == {WriteUnknown}
