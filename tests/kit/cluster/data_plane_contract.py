"""What every `DataPlane` promises: one suite, run against each implementation (`test_connections.py`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Final

import pytest

from kit.cluster.one_machine import DEADLINE_S, NO_TABLE, ONE, ZERO, all_replicas, held, puts
from kit.cluster.silent_log import TIMEOUT_S, check_ends_in_time, silent_log
from kit.cluster.slow_log import CALL_S, check_time_is_shared, slow_log
from kit.deadlines import within
from log_tier.model.errors import DuramenError, TableNotFound
from log_tier.model.identifiers import NOTHING, Offset, Partition, PartitionId
from log_tier.model.table_ref import TableRef
from log_tier.rows.table_spec import TableSpec
from router.data.local_data import LocalData
from router.data.requests import OutcomesPart, ReadPart, ReadResult, ScanRequest, WritePart, WriteResult
from router.data.seam import DataPlane

__all__ = ["DataPlaneContract"]

Call = Callable[[DataPlane], Awaitable[object]]

_FLIGHTS: Final = TableSpec("flights", 3)

SLOW_CALLS: Final[dict[str, Callable[[DataPlane, TableRef], Awaitable[object]]]] = {
    "read": lambda it, table: it.read([ReadPart(each, [b"k"], strong=True) for each in _every(table)], timeout=CALL_S),
    "read of what was not seen": lambda it, table: it.read(
        [ReadPart(each, [b"k"], Offset(99), strong=True) for each in _every(table)], timeout=CALL_S
    ),
    "read of no table": lambda it, _: it.read(
        [ReadPart(PartitionId(NO_TABLE, ZERO), [b"k"], strong=True)], timeout=CALL_S
    ),
    "judged write": lambda it, table: it.write(
        [WritePart(each, puts((b"k", b"v")), outcomes=True) for each in _every(table)], timeout=CALL_S
    ),
    "judged write of no table": lambda it, _: it.write(
        [WritePart(PartitionId(NO_TABLE, ZERO), puts((b"k", b"v")), outcomes=True)], timeout=CALL_S
    ),
    "outcomes": lambda it, table: it.outcomes(
        [OutcomesPart(each, Offset(0), 1_000, Offset(0)) for each in _every(table)], timeout=CALL_S
    ),
    "scan": lambda it, table: it.scan(ScanRequest(table.id, strong=True), timeout=CALL_S),
    "scan of no table": lambda it, _: it.scan(ScanRequest(NO_TABLE, strong=True), timeout=CALL_S),
    "producer": lambda it, table: it.producer(table.id, 7, timeout=CALL_S),
    "producer in no table": lambda it, _: it.producer(NO_TABLE, 7, timeout=CALL_S),
}

CALLS: Final[dict[str, Call]] = {
    "read": lambda it: it.read([ReadPart(PartitionId(NO_TABLE, ZERO), [b"k"], NOTHING)], timeout=TIMEOUT_S),
    "write": lambda it: it.write([WritePart(PartitionId(NO_TABLE, ZERO), puts((b"k", b"v")))], timeout=TIMEOUT_S),
    "judged write": lambda it: it.write(
        [WritePart(PartitionId(NO_TABLE, ZERO), puts((b"k", b"v")), outcomes=True)], timeout=TIMEOUT_S
    ),
    "outcomes": lambda it: it.outcomes(
        [OutcomesPart(PartitionId(NO_TABLE, ZERO), Offset(0), 1_000, Offset(0))], timeout=TIMEOUT_S
    ),
    "scan": lambda it: it.scan(ScanRequest(NO_TABLE), timeout=TIMEOUT_S),
    "producer": lambda it: it.producer(NO_TABLE, 7, timeout=TIMEOUT_S),
}


class DataPlaneContract:
    """Derive from it, with a fixture `connection` over the fixture `data_plane`."""

    @pytest.mark.parametrize("name", CALLS)
    async def test_a_timeout_covers_the_call(self, connection: DataPlane, data_plane: LocalData, name: str) -> None:
        """The log does not answer. The call ends all the same, with an error of ours, in good time."""
        table = await data_plane.create_table(TableSpec("flights", 1), timeout=DEADLINE_S)
        async with silent_log(data_plane):
            results = await check_ends_in_time(lambda: CALLS[name](connection))
        found = results if isinstance(results, list) else [results]
        assert found
        assert all(isinstance(result, DuramenError) for result in found), "it cannot know"
        (read,) = await connection.read([ReadPart(PartitionId(table.id, ZERO), [b"k"])], timeout=DEADLINE_S)
        assert isinstance(read, ReadResult), "and goes on when the log is back"

    @pytest.mark.parametrize("name", SLOW_CALLS)
    async def test_a_slow_first_half_leaves_the_rest(
        self, connection: DataPlane, data_plane: LocalData, name: str
    ) -> None:
        """A call asks the log or the catalog several times. All of that together takes at most its timeout."""
        table = await data_plane.create_table(_FLIGHTS, timeout=DEADLINE_S)
        await connection.read([ReadPart(PartitionId(table.id, ZERO), [b"k"])], timeout=DEADLINE_S)
        replicas = all_replicas(data_plane, table)
        with slow_log(data_plane, replicas), held(*replicas):
            await check_time_is_shared(lambda: SLOW_CALLS[name](connection, table))

    async def test_parts_succeed_and_fail_by_themselves(self, connection: DataPlane, data_plane: LocalData) -> None:
        table = await data_plane.create_table(TableSpec("flights", 2), timeout=DEADLINE_S)
        written = await connection.write(
            [
                WritePart(PartitionId(table.id, ONE), puts((b"one", b"1"))),
                WritePart(PartitionId(NO_TABLE, ZERO), puts((b"none", b"0"))),
                WritePart(PartitionId(table.id, ZERO), puts((b"zero", b"0"))),
            ],
            timeout=DEADLINE_S,
        )
        assert isinstance(written[1], TableNotFound)
        assert [result.base_offset for result in written if isinstance(result, WriteResult)] == [0, 0]
        read = await connection.read(
            [
                ReadPart(PartitionId(table.id, ONE), [b"one", b"zero"], Offset(0)),
                ReadPart(PartitionId(NO_TABLE, ZERO), [b"none"]),
                ReadPart(PartitionId(table.id, ZERO), [b"zero"], Offset(0)),
            ],
            timeout=DEADLINE_S,
        )
        assert isinstance(read[1], TableNotFound)
        assert [list(result.values) for result in read if isinstance(result, ReadResult)] == [[b"1", None], [b"0"]]

    async def test_a_scan_and_a_producer_see_what_was_written(
        self, connection: DataPlane, data_plane: LocalData
    ) -> None:
        table = await data_plane.create_table(TableSpec("flights", 2), timeout=DEADLINE_S)
        batch = puts((b"a", b"1"), (b"b", b"2"), producer_id=7, sequence=0)
        (written,) = await connection.write(
            [WritePart(PartitionId(table.id, ONE), batch, outcomes=True)], timeout=DEADLINE_S
        )
        assert isinstance(written, WriteResult)
        page = await connection.scan(ScanRequest(table.id, after={ONE: Offset(1)}), timeout=DEADLINE_S)
        assert (list(page.keys), list(page.values), page.more) == ([b"a", b"b"], [b"1", b"2"], False)
        assert await connection.producer(table.id, 7, timeout=DEADLINE_S) == {ONE: 1}
        part = OutcomesPart(PartitionId(table.id, ONE), Offset(0), written.timestamp_ms, Offset(1))
        (known,) = await connection.outcomes([part], timeout=DEADLINE_S)
        assert isinstance(known, WriteResult)
        assert known.base_offset == 0

    async def test_a_watch_shows_what_is_written_after_its_positions(
        self, connection: DataPlane, data_plane: LocalData
    ) -> None:
        table = await data_plane.create_table(TableSpec("flights", 1), timeout=DEADLINE_S)
        async with within(DEADLINE_S), aclosing(connection.watch(table.id, {})) as events:
            assert (await anext(events)).positions == {ZERO: 0}
            batch = puts((b"a", b"1"))
            (written,) = await connection.write([WritePart(PartitionId(table.id, ZERO), batch)], timeout=DEADLINE_S)
            assert isinstance(written, WriteResult)
            event = await anext(events)
            assert (event.partition, event.latest) == (ZERO, 0)
            assert len(event.batches) == len(batch)


def _every(table: TableRef) -> list[PartitionId]:
    return [PartitionId(table.id, Partition(number)) for number in range(table.partitions)]
