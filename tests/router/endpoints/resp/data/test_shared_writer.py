"""The shared writer: what gathers, in which order, and what a lost reply or a full queue comes to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kit.cluster.one_machine import all_replicas, held, one_machine, puts
from kit.deadlines import patience_s, until, within
from kit.flight_rows import UNNUMBERED_FLIGHTS, flight, flight_key

from log_tier.model.batch import Columns
from log_tier.model.errors import (
    ConditionFailed,
    DeadlineExceeded,
    Disconnected,
    DiskFull,
    DuramenError,
    LimitExceeded,
    Overloaded,
    RowRejected,
    ShuttingDown,
    WriteUnknown,
)
from log_tier.model.identifiers import NOTHING, Offset, Partition, PartitionId
from log_tier.model.record import GROUPED, Condition, Operation, attribute_of
from log_tier.rows.table_spec import TableSpec
from router.data.local_data import LocalData
from router.data.requests import ReadPart, WritePart
from router.endpoints.resp.data.key_views import DraftRecord
from router.endpoints.resp.data.served_tables import ServedTable
from router.endpoints.resp.data.shared_writer import RESP_RULES, SharedWriter
from router.endpoints.resp.data.value_cache import CacheBudget
from router.endpoints.resp.wire.limits import REQUEST_TIMEOUT_S

ZERO = Partition(0)


class Waiter:
    """A waiter."""

    def __init__(self) -> None:
        self.done = asyncio.get_running_loop().create_future()

    def settle(self, error: DuramenError | None, offset: Offset) -> None:
        assert not self.done.done(), "settled twice"
        self.done.set_result((error, offset))

    async def outcome(self) -> tuple[DuramenError | None, Offset]:
        async with within(20):
            return await self.done  # type: ignore[no-any-return]


class Lossy:
    """A connection whose replies, or requests, are lost as `losses` says, one after the other."""

    def __init__(self, data_plane: LocalData) -> None:
        self._data_plane = data_plane
        self.losses: list[str] = []
        self.requests: list[list[int]] = []
        """Records of each part of each request."""
        self.held = asyncio.Event()
        self.held.set()

    async def write(self, parts: Sequence[WritePart], *, timeout: float, patience: float = 0.0) -> Any:
        self.requests.append([int.from_bytes(part.batch[56:60], "little") for part in parts])
        await self.held.wait()
        loss = self.losses.pop(0) if self.losses else ""
        if loss == "request":
            raise Disconnected("gone", sent=0)
        if loss == "full":
            return [DiskFull("no space")] * len(parts)
        if loss == "overloaded":
            return [Overloaded("wait")] * len(parts)
        if loss == "stopping":
            raise ShuttingDown("the log's server is stopping")
        if loss == "late":
            raise DeadlineExceeded("the log did not answer")
        results = await self._data_plane.write(parts, timeout=timeout)
        if loss == "reply":
            raise WriteUnknown("no reply came")
        return results

    async def outcomes(self, parts: Any, *, timeout: float) -> Any:
        return await self._data_plane.outcomes(parts, timeout=timeout)


@pytest.fixture
async def data_plane(tmp_path: Path) -> AsyncIterator[LocalData]:
    async with one_machine(tmp_path) as opened:
        yield opened


async def served(data_plane: LocalData, partitions: int = 1) -> ServedTable:
    ref = await data_plane.create_table(TableSpec("t", partitions=partitions), timeout=patience_s(10))
    return ServedTable(ref, data_plane.node, CacheBudget(0))


async def value_of(data_plane: LocalData, table: ServedTable, key: bytes) -> bytes | None:
    (result,) = await data_plane.read(
        [ReadPart(PartitionId(table.ref.id, table.partition_of(key)), [key], strong=True)], timeout=patience_s(10)
    )
    assert not isinstance(result, DuramenError)
    return result.values[0]


def append(value: bytes) -> DraftRecord:
    return DraftRecord(b"k", value, attribute_of(Operation.APPEND))


@pytest.mark.parametrize("loss", ["reply", "request", "overloaded", "stopping"])
async def test_what_is_sent_again_takes_effect_once(data_plane: LocalData, loss: str) -> None:
    table, connection = await served(data_plane), Lossy(data_plane)
    writer = SharedWriter(connection)  # type: ignore[arg-type]
    connection.losses = [loss, loss]
    first, second = Waiter(), Waiter()
    writer.submit(table, ZERO, [append(b"a")], first, judged=True)
    error, offset = await first.outcome()
    assert error is None
    writer.submit(table, ZERO, [append(b"b")], second, judged=False)
    assert (await second.outcome())[0] is None
    assert await value_of(data_plane, table, b"k") == b"ab"
    assert offset == 0, "the place at which it took effect, not that of the copy"
    await writer.close()


async def test_a_definite_error_is_returned_and_not_retried(data_plane: LocalData) -> None:
    table, connection = await served(data_plane), Lossy(data_plane)
    writer = SharedWriter(connection)  # type: ignore[arg-type]
    connection.losses = ["full"]
    report = Waiter()
    writer.put(table, ZERO, [b"k"], [b"v"], report)
    error, offset = await report.outcome()
    assert isinstance(error, DiskFull)
    assert offset == NOTHING
    assert len(connection.requests) == 1
    assert await value_of(data_plane, table, b"k") is None
    await writer.close()


async def test_unknown_stays_unknown(data_plane: LocalData) -> None:
    """The reply was lost, and then the log was full: nobody may say that nothing was written."""
    table, connection = await served(data_plane), Lossy(data_plane)
    writer = SharedWriter(connection, replace(RESP_RULES, pause_first_s=0.001))  # type: ignore[arg-type]
    connection.losses = ["reply", "full"]
    report = Waiter()
    writer.put(table, ZERO, [b"k"], [b"v"], report)
    assert isinstance((await report.outcome())[0], WriteUnknown)
    assert await value_of(data_plane, table, b"k") == b"v"
    await writer.close()


async def test_a_request_that_was_not_answered_in_time_may_be_written(data_plane: LocalData) -> None:
    """`DeadlineExceeded` means that nothing was done: of a write that left, nobody may say so."""
    table, connection = await served(data_plane), Lossy(data_plane)
    writer = SharedWriter(connection)  # type: ignore[arg-type]
    connection.losses = ["late"]
    report = Waiter()
    writer.put(table, ZERO, [b"k"], [b"v"], report)
    assert isinstance((await report.outcome())[0], WriteUnknown)
    await writer.close()


async def test_a_write_that_was_refused_until_its_time_was_over_says_why(
    data_plane: LocalData, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, connection = await served(data_plane), Lossy(data_plane)
    writer = SharedWriter(connection, replace(RESP_RULES, pause_first_s=0.001))  # type: ignore[arg-type]
    connection.losses = ["overloaded"] * 2
    connection.held.clear()
    report = Waiter()
    writer.put(table, ZERO, [b"k"], [b"v"], report)
    await until(lambda: connection.requests)
    real = asyncio.get_running_loop().time
    with monkeypatch.context() as patch:
        patch.setattr(asyncio.get_running_loop(), "time", lambda: real() + REQUEST_TIMEOUT_S)
        connection.held.set()
        error, _ = await report.outcome()
    assert isinstance(error, Overloaded), error
    assert await value_of(data_plane, table, b"k") is None
    assert len(connection.requests) == 1
    await writer.close()


async def test_a_verdict_holds_up_nobody_elsewhere(data_plane: LocalData) -> None:
    """A writer that needs only stable storage does not wait for another partition's verdicts."""
    table, connection = await served(data_plane, 4), Lossy(data_plane)
    writer = SharedWriter(connection)  # type: ignore[arg-type]
    keys: dict[Partition, bytes] = {table.partition_of(key): key for key in (b"k%d" % number for number in range(40))}
    judged, plain = Waiter(), Waiter()
    with held(*all_replicas(data_plane, table.ref)):
        writer.submit(table, ZERO, [append(b"a")._replace(key=keys[ZERO])], judged, judged=True)
        writer.put(table, Partition(1), [keys[Partition(1)]], [b"v"], plain)
        assert (await plain.outcome())[0] is None
        assert not judged.done.done()
    assert (await judged.outcome())[0] is None
    await writer.close()


async def test_what_comes_meanwhile_leaves_together(data_plane: LocalData) -> None:
    table, connection = await served(data_plane), Lossy(data_plane)
    writer = SharedWriter(connection)  # type: ignore[arg-type]
    connection.held.clear()
    waiters = [Waiter() for _ in range(101)]
    writer.put(table, ZERO, [b"k0"], [b"v"], waiters[0])
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    for number in range(1, 101):
        writer.put(table, ZERO, [b"k%d" % number], [b"v"], waiters[number])
    connection.held.set()
    assert [(await report.outcome())[0] for report in waiters] == [None] * 101
    assert connection.requests == [[1], [100]]
    keys = [b"k%d" % number for number in range(101)]
    (found,) = await data_plane.read(
        [ReadPart(PartitionId(table.ref.id, ZERO), keys, strong=True)], timeout=patience_s(10)
    )
    assert not isinstance(found, DuramenError)
    assert list(found.versions) == list(range(101)), "in their order"
    await writer.close()


async def test_partitions_share_a_request(data_plane: LocalData) -> None:
    table, connection = await served(data_plane, 4), Lossy(data_plane)
    writer = SharedWriter(connection)  # type: ignore[arg-type]
    waiters = []
    for number in range(40):
        key = b"k%d" % number
        waiters.append(Waiter())
        writer.put(table, table.partition_of(key), [key], [b"v"], waiters[-1])
    for report in waiters:
        assert (await report.outcome())[0] is None
    assert len(connection.requests) == 1
    assert sum(connection.requests[0]) == 40
    assert len(connection.requests[0]) == 4
    await writer.close()


async def test_a_rejection_reaches_its_own_waiter(data_plane: LocalData) -> None:
    table = await served(data_plane)
    writer = SharedWriter(data_plane)
    absent = attribute_of(Operation.PUT, condition=Condition.ABSENT)
    first, second, plain = Waiter(), Waiter(), Waiter()
    writer.submit(table, ZERO, [DraftRecord(b"k", b"1", absent)], first, judged=True)
    writer.submit(table, ZERO, [DraftRecord(b"k", b"2", absent)], second, judged=True)
    writer.put(table, ZERO, [b"other"], [b"3"], plain)
    assert (await first.outcome())[0] is None
    assert isinstance((await second.outcome())[0], ConditionFailed)
    assert (await plain.outcome()) == (None, NOTHING)
    await writer.close()


async def test_fresh_keys_are_forgotten_when_they_are_applied(data_plane: LocalData) -> None:
    table = await served(data_plane)
    writer = SharedWriter(data_plane)
    for number in range(50):
        report = Waiter()
        writer.put(table, ZERO, [b"k%d" % (number % 5)], [b"v"], report)
        await report.outcome()
    replica = table.replicas[0]
    assert replica is not None
    await replica.wait_applied(Offset(49), timeout=patience_s(10))
    table.floors.wrote(ZERO, [b"last"], Offset(49), replica.index.applied)
    assert table.fresh[0] == {}
    assert table.needed(ZERO, [b"k1"]) == table.floor[0]
    assert table.seen[0] == 49
    await writer.close()


async def test_limits(data_plane: LocalData) -> None:
    table = await served(data_plane)
    writer = SharedWriter(data_plane, replace(RESP_RULES, pending_bytes_max=10))
    with pytest.raises(LimitExceeded, match="do not fit in one batch"):
        writer.submit(table, ZERO, [append(b"x")] * 65_537, Waiter(), judged=False)
    with pytest.raises(Overloaded, match="0 bytes wait for the log, and at most 10 may"):
        writer.put(table, ZERO, [b"k"], [b"x" * 20], Waiter())
    await writer.close()
    with pytest.raises(ShuttingDown):
        writer.put(table, ZERO, [b"k"], [b"x"], Waiter())


async def test_closing_tells_everybody(data_plane: LocalData) -> None:
    table, connection = await served(data_plane), Lossy(data_plane)
    writer = SharedWriter(connection)  # type: ignore[arg-type]
    connection.held.clear()
    flying, waiting = Waiter(), Waiter()
    writer.put(table, ZERO, [b"a"], [b"1"], flying)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    writer.put(table, ZERO, [b"b"], [b"2"], waiting)
    await writer.close()
    assert isinstance((await flying.outcome())[0], WriteUnknown)
    assert isinstance((await waiting.outcome())[0], ShuttingDown)


async def test_what_does_not_fit_its_table_is_not_acknowledged(data_plane: LocalData) -> None:
    """The endpoint has checked its rows, by a definition that may be older than the table's: the fold decides."""
    ref = await data_plane.create_table(
        TableSpec("rows", partitions=1, definition=UNNUMBERED_FLIGHTS), timeout=patience_s(10)
    )
    definition = await data_plane.definition(ref.id, timeout=patience_s(10))
    assert definition is not None
    schema = definition.schemas[0].number
    table, writer = ServedTable(ref, data_plane.node, CacheBudget(0)), SharedWriter(data_plane)

    def put(number: int, of_row: int) -> DraftRecord:
        return DraftRecord(flight_key("UA", number), flight("UA", of_row, schema=schema), attribute_of(Operation.PUT))

    async with within(20):
        fits, misfit, group = Waiter(), Waiter(), Waiter()
        writer.submit(table, ZERO, [put(1, 1)], fits, judged=False)
        writer.submit(table, ZERO, [put(2, 3)], misfit, judged=False)
        grouped = [put(4, 4), with_the_one_before(put(5, 6))]
        writer.submit(table, ZERO, grouped, group, judged=False)
        assert await fits.outcome() == (None, 0)
        assert isinstance((await misfit.outcome())[0], RowRejected)
        assert isinstance((await group.outcome())[0], RowRejected)
    held_there = [await value_of(data_plane, table, flight_key("UA", number)) for number in (1, 2, 4, 5)]
    assert held_there == [flight("UA", 1, schema=schema), None, None, None]
    await writer.close()


def with_the_one_before(record: DraftRecord) -> DraftRecord:
    """It takes effect with the record before it, or not at all."""
    return record._replace(attribute=record.attribute | GROUPED)


# --- verdicts that are known before the fold


def absent(key: bytes = b"k") -> Columns:
    """A put under the condition that the key is not there."""
    return Columns([key], [b"mine"], [attribute_of(Operation.PUT, condition=Condition.ABSENT)])


async def test_behind_its_own_writes_nobody_waits_for_the_fold(data_plane: LocalData) -> None:
    """The replica is held: what was read holds at offset 1, and 2 to 4 are the endpoint's own."""
    table = await served(data_plane)
    writer, first = SharedWriter(data_plane), Waiter()
    writer.put(table, ZERO, [b"a", b"b"], [b"1", b"1"], first)
    assert (await first.outcome())[0] is None
    with held(data_plane.node.replica(table.ids[ZERO])):
        others, granted = Waiter(), Waiter()
        writer.put(table, ZERO, [b"c", b"d", b"e"], [b"1"] * 3, others)
        assert (await others.outcome())[0] is None
        writer.submit_columns(table, ZERO, absent(), granted, judged=True, holds_at=Offset(1))
        assert await granted.outcome() == (None, 5)
        judged = Waiter()
        writer.submit_columns(table, ZERO, absent(b"m"), judged, judged=True)
        await asyncio.sleep(0)
        assert not judged.done.done(), "nobody knows when its condition held"
    assert await judged.outcome() == (None, 6)
    assert await value_of(data_plane, table, b"k") == b"mine"
    await writer.close()


@pytest.mark.parametrize("place", ["before", "long before"])
async def test_behind_another_writer_the_fold_decides(data_plane: LocalData, place: str) -> None:
    """Its record lies between the state that was read and the condition: right before it, or before writes of the
    endpoint's own.
    """
    table = await served(data_plane)
    writer, waiter = SharedWriter(data_plane), Waiter()
    with held(data_plane.node.replica(table.ids[ZERO])):
        await data_plane.log.append(table.ids[ZERO], puts((b"k", b"theirs")))
        if place == "long before":
            own = Waiter()
            writer.put(table, ZERO, [b"a"], [b"1"], own)
            assert (await own.outcome())[0] is None
        writer.submit_columns(table, ZERO, absent(), waiter, judged=True, holds_at=NOTHING)
        await until(lambda: writer.records == (2 if place == "long before" else 1))
    error, _ = await waiter.outcome()
    assert isinstance(error, ConditionFailed)
    await writer.close()


async def test_what_was_sent_twice_waits_for_the_fold(data_plane: LocalData) -> None:
    """Its second copy lies behind what its first one has done."""
    table, connection = await served(data_plane), Lossy(data_plane)
    writer, waiter, second = SharedWriter(connection), Waiter(), Waiter()  # type: ignore[arg-type]
    connection.losses = ["reply"]
    writer.submit_columns(table, ZERO, absent(), waiter, judged=True, holds_at=NOTHING)
    assert await waiter.outcome() == (None, 0), "the first copy's place"
    writer.submit_columns(table, ZERO, absent(), second, judged=True, holds_at=NOTHING)
    assert isinstance((await second.outcome())[0], ConditionFailed)
    await writer.close()
