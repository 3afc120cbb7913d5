"""What a node needs of the data plane in addition: some partitions, bounded lag, outcomes asked later."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from kit.cluster.one_machine import (
    DEADLINE_S,
    NO_TABLE,
    ONE,
    ZERO,
    all_replicas,
    hears_of_no_table,
    held,
    operations,
    put_all,
    puts,
    write,
)
from kit.deadlines import patience_s, until

from log_tier.concurrency.tasks import end_tasks
from log_tier.model.errors import DuramenError, ReplicaBehind, TableNotFound, WriteUnknown
from log_tier.model.identifiers import Offset, Partition, PartitionId
from log_tier.model.partitioner import partition_of
from log_tier.model.record import Operation
from log_tier.model.table_ref import TableRef
from log_tier.rows.table_spec import TableSpec
from router.data.local_data import LocalData
from router.data.requests import OutcomesPart, ReadPart, ReadResult, ScanRequest, WritePart, WriteResult
from serving_tier.index.lmdb import index_file
from serving_tier.index.lmdb.environment import open_environment

ADD = operations((Operation.ADD, b"n", b"1"))


async def test_a_bounded_read_of_a_replica_that_keeps_up(data_plane: LocalData, table: TableRef) -> None:
    await write(data_plane, table, 0, puts((b"k", b"v")), outcomes=True)
    (found,) = await data_plane.read(
        [ReadPart(PartitionId(table.id, ZERO), [b"k"], lag_max_ms=60_000)], timeout=DEADLINE_S
    )
    assert isinstance(found, ReadResult)
    assert found.values == [b"v"]


async def test_a_bounded_read_of_a_replica_that_does_not(data_plane: LocalData, table: TableRef) -> None:
    replica = data_plane.node.replica(PartitionId(table.id, ZERO))
    with held(replica):
        await write(data_plane, table, 0, puts((b"k", b"v")))
        await until(lambda: replica.progress.stale_s > 0.02)
        behind, loose, other = await data_plane.read(
            [
                ReadPart(PartitionId(table.id, ZERO), [b"k"], lag_max_ms=20),
                ReadPart(PartitionId(table.id, ZERO), [b"k"], lag_max_ms=3_600_000),
                ReadPart(PartitionId(table.id, ONE), [b"k"], lag_max_ms=20),
            ],
            timeout=0.1,
        )
        assert isinstance(behind, ReplicaBehind)
        assert isinstance(loose, ReadResult)
        assert isinstance(other, ReadResult), "nothing was written there: it is level with the log"
        with pytest.raises(ReplicaBehind):
            await data_plane.scan(ScanRequest(table.id, lag_max_ms=20), timeout=0.05)
    (found,) = await data_plane.read([ReadPart(PartitionId(table.id, ZERO), [b"k"], lag_max_ms=20)], timeout=DEADLINE_S)
    assert isinstance(found, ReadResult)
    assert found.values == [b"v"]


async def test_some_partitions_of_a_scan(data_plane: LocalData, table: TableRef) -> None:
    pairs = {b"k%d" % number: b"v" for number in range(40)}
    after = await put_all(data_plane, table, pairs)
    wanted = [Partition(1), Partition(3)]
    page = await data_plane.scan(ScanRequest(table.id, after=after, partitions=wanted), timeout=DEADLINE_S)
    assert list(page.keys) == sorted(key for key in pairs if partition_of(key, 4) in wanted)
    assert sorted(page.applied) == wanted
    with pytest.raises(TableNotFound, match="partitions 0 to 3, not 9"):
        await data_plane.scan(ScanRequest(table.id, partitions=[Partition(9)]), timeout=DEADLINE_S)


async def test_some_partitions_of_a_watch(data_plane: LocalData, table: TableRef) -> None:
    events = data_plane.watch(table.id, {ONE: Offset(0)}, [ONE])
    assert (await anext(events)).positions == {ONE: 0}
    await write(data_plane, table, 0, puts((b"k", b"v")))
    await write(data_plane, table, 1, puts((b"k", b"v")))
    assert (await anext(events)).partition == ONE
    await events.aclose()


async def test_a_producer_s_places_in_partitions_at_rest_take_many_turns(data_plane: LocalData) -> None:
    partitions = 12
    table = await data_plane.create_table(TableSpec("resting", partitions), timeout=DEADLINE_S)
    for partition in range(partitions):
        await write(data_plane, table, partition, puts((b"k", b"v"), producer_id=7, sequence=partition), outcomes=True)
        assert data_plane.node.replica(PartitionId(table.id, Partition(partition))).index.rest()
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.create_task(count())
    await asyncio.sleep(0)
    places = await data_plane.producer(table.id, 7, timeout=DEADLINE_S)
    await end_tasks(counting)
    assert places == {Partition(number): number for number in range(partitions)}
    assert turns >= partitions // 4, "an index that is at rest is opened on the loop, in some 1 ms"


@pytest.mark.parametrize("together", [True, False], ids=["one request", "many requests"])
async def test_reads_of_partitions_at_rest_open_no_file_on_the_loop(
    data_plane: LocalData, monkeypatch: pytest.MonkeyPatch, together: bool
) -> None:
    """A hundred calls that came together opened a hundred files in one turn, 1 ms each."""
    partitions = 12
    table = await data_plane.create_table(TableSpec("resting", partitions), timeout=DEADLINE_S)
    for partition in range(partitions):
        await write(data_plane, table, partition, puts((b"k", b"v")), outcomes=True)
        assert data_plane.node.replica(PartitionId(table.id, Partition(partition))).index.rest()
    opened: list[int] = []

    def noted(*args: Any, **named: Any) -> Any:
        opened.append(threading.get_ident())
        return open_environment(*args, **named)

    monkeypatch.setattr(index_file, "open_environment", noted)
    parts = [ReadPart(PartitionId(table.id, Partition(partition)), [b"k"]) for partition in range(partitions)]
    requests = [parts] if together else [[part] for part in parts]
    answers = await asyncio.gather(*(data_plane.read(some, timeout=DEADLINE_S) for some in requests))
    found = [result for answer in answers for result in answer]
    assert [result.values for result in found if isinstance(result, ReadResult)] == [[b"v"]] * partitions
    assert len(opened) == partitions
    assert threading.get_ident() not in opened


async def test_some_partitions_of_a_producer(data_plane: LocalData, table: TableRef) -> None:
    for partition in (0, 1):
        await write(data_plane, table, partition, puts((b"k", b"v"), producer_id=7, sequence=partition))
    assert await data_plane.producer(table.id, 7, timeout=DEADLINE_S) == {ZERO: 0, ONE: 1}
    assert await data_plane.producer(table.id, 7, timeout=DEADLINE_S, partitions=[ONE, Partition(2)]) == {ONE: 1}


async def test_outcomes_are_pending_while_the_catalog_does_not_say_what_the_table_is(
    data_plane: LocalData, table: TableRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch is in the log; a node that has not heard of the table yet cannot judge it within the patience."""

    hears_of_no_table(data_plane, monkeypatch)
    (pending,) = await data_plane.write(
        [WritePart(PartitionId(table.id, ZERO), ADD, outcomes=True)], timeout=DEADLINE_S, patience=0.01
    )
    assert isinstance(pending, WriteResult), pending
    assert pending.pending


async def test_outcomes_asked_later(data_plane: LocalData, table: TableRef) -> None:
    with held(*all_replicas(data_plane, table)):
        plain, pending = await data_plane.write(
            [
                WritePart(PartitionId(table.id, ONE), puts((b"k", b"v"))),
                WritePart(PartitionId(table.id, ZERO), ADD, outcomes=True),
            ],
            timeout=DEADLINE_S,
            patience=0.01,
        )
        assert plain == WriteResult(Offset(0), plain.timestamp_ms)  # type: ignore[union-attr]
        assert isinstance(pending, WriteResult)
        assert pending.pending
        assert not pending.outcomes
        part = WritePart(PartitionId(table.id, ZERO), ADD, outcomes=True)
        (patient,), (unknown,) = await asyncio.gather(
            data_plane.write([part], timeout=patience_s(1.0), patience=3600.0),
            data_plane.write([part], timeout=patience_s(1.0)),
        )
        assert isinstance(patient, WriteResult), "it is in the log: ask again"
        assert isinstance(unknown, WriteUnknown)
        at = pending.base_offset
        asked = OutcomesPart(PartitionId(table.id, ZERO), at, pending.timestamp_ms, at)
        (behind,) = await data_plane.outcomes([asked], timeout=0.02)
        assert isinstance(behind, ReplicaBehind)
    elsewhere = asked._replace(partition=PartitionId(NO_TABLE, ZERO))
    known, nowhere, beyond = await data_plane.outcomes(
        [asked, elsewhere, asked._replace(base_offset=Offset(99), after=Offset(99))],
        timeout=DEADLINE_S,
    )
    assert isinstance(known, WriteResult)
    assert (known.base_offset, known.timestamp_ms, known.pending) == (0, pending.timestamp_ms, False)
    assert known.outcomes[0].result == b"1"
    assert isinstance(nowhere, TableNotFound)
    assert not isinstance(beyond, WriteResult)


async def test_outcomes_that_a_compaction_may_have_taken_are_unknown(data_plane: LocalData, table: TableRef) -> None:
    """An index that was opened after the compaction may have folded what was left. The writer of a second copy got that
    copy's offset, as if there were no first one.
    """
    await write(data_plane, table, 0, ADD, outcomes=True)
    await write(data_plane, table, 0, ADD, outcomes=True)
    asked = [OutcomesPart(PartitionId(table.id, ZERO), Offset(number), 0, Offset(number)) for number in range(2)]
    assert all(isinstance(each, WriteResult) for each in await data_plane.outcomes(asked, timeout=DEADLINE_S))
    data_plane.node.replica(PartitionId(table.id, ZERO)).applying.compacted = Offset(1)
    below, above = await data_plane.outcomes(asked, timeout=DEADLINE_S)
    assert isinstance(below, WriteUnknown)
    assert isinstance(above, WriteResult)


async def test_errors_that_are_results_hold_no_frames(data_plane: LocalData, table: TableRef) -> None:
    gone = PartitionId(NO_TABLE, ZERO)
    beyond = OutcomesPart(PartitionId(table.id, ZERO), Offset(0), 0, Offset(0))
    results = [
        *await data_plane.read([ReadPart(gone, [b"k"]), ReadPart(gone, [b"k"], strong=True)], timeout=DEADLINE_S),
        *await data_plane.read([ReadPart(PartitionId(table.id, ONE), [b""])], timeout=DEADLINE_S),
        *await data_plane.write([WritePart(gone, ADD), WritePart(gone, ADD)], timeout=DEADLINE_S),
        *await data_plane.outcomes([OutcomesPart(gone, Offset(0), 0, Offset(0)), beyond], timeout=0.01),
    ]
    assert all(isinstance(result, DuramenError) for result in results), results
    for error in results:
        assert isinstance(error, DuramenError)
        assert (error.__traceback__, error.__context__, error.__cause__) == (None, None, None), repr(error)
